"""The hold: while a release looks at a hot tier, the agents of its nodes leave it as it is.

A lease that is renewed, or a checkpoint that is pruned, between survey and proof would be a write that nobody means. A
hold ends by itself, so that a release that was killed does not stop the agents for good.
"""

from __future__ import annotations

import json
from typing import Callable

from .. import places
from ..aws import MISSING, Aws, code_of

SECONDS = 1800.0
"""How long a hold lasts without being renewed: longer than any step between two renewals."""


def key(hot_tier_id: str) -> str:
    """Return where the hold of a hot tier lies."""
    return places.hot_tier_folder(places.RELEASES, hot_tier_id) + "hold.json"


def hold(aws: Aws, bucket: str, hot_tier_id: str, clock: Callable[[], float], seconds: float = SECONDS) -> None:
    """Hold the agents, or hold them for longer.

    Args:
        aws: Clients.
        bucket: The data lake.
        hot_tier_id: The hot tier.
        clock: The time, seconds since 1970.
        seconds: How long.

    Raises:
        ClientError: S3 refused or failed.
    """
    body = json.dumps({"until": clock() + seconds}) + "\n"
    aws("s3").put_object(Bucket=bucket, Key=key(hot_tier_id), Body=body.encode(), ContentType="application/json")


def lift(aws: Aws, bucket: str, hot_tier_id: str) -> None:
    """End a hold. Nothing is deleted in the lake: what ends now says so.

    Raises:
        ClientError: S3 refused or failed.
    """
    body = json.dumps({"until": 0}) + "\n"
    aws("s3").put_object(Bucket=bucket, Key=key(hot_tier_id), Body=body.encode(), ContentType="application/json")


def held_until(aws: Aws, bucket: str, hot_tier_id: str, clock: Callable[[], float]) -> float | None:
    """Return when the hold ends, seconds since 1970; None where there is none.

    Args:
        aws: Clients.
        bucket: The data lake.
        hot_tier_id: The hot tier.
        clock: The time.

    Raises:
        ClientError: S3 refused or failed.
    """
    try:
        body = aws("s3").get_object(Bucket=bucket, Key=key(hot_tier_id))["Body"].read()
    except Exception as error:
        if code_of(error) in MISSING:
            return None
        raise
    try:
        until = float(json.loads(body)["until"])
    except (ValueError, KeyError, TypeError):
        # Nobody can say how long: as long as a hold lasts from now, so that doubt never lets anything be written.
        return clock() + SECONDS
    return until if until > clock() else None
