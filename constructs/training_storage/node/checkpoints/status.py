"""What the last run saw, in the lake: also what is not in S3, for whoever wants to delete the hot tier."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from .. import places
from ..aws import Aws
from ..settings import Settings
from . import lake
from .model import Checkpoint, Verdict


def checkpoint_of(verdict: Verdict) -> dict[str, Any]:
    """Return what the status says of one checkpoint."""
    checkpoint = verdict.checkpoint
    return {
        "path": checkpoint.path,
        "series": checkpoint.series,
        "layout": checkpoint.layout,
        "step": checkpoint.step,
        "number": verdict.number,
        "complete": checkpoint.complete,
        "missing": checkpoint.missing,
        "due": verdict.due,
        "promoted": verdict.promoted,
        "prune": verdict.prune,
        "size": checkpoint.size,
        "files": len(checkpoint.files),
        "modified_ns": checkpoint.modified_ns,
        "first_modified_ns": first_modified(checkpoint),
        "fingerprint": checkpoint.fingerprint,
        "pinned": checkpoint.pinned,
        "metrics": dict(checkpoint.metrics),
        "because": verdict.because,
    }


def first_modified(checkpoint: Checkpoint) -> int:
    """Return when the first file of a checkpoint was written: from there to the last is what a save took, about."""
    return min((each.modified_ns for each in checkpoint.files), default=checkpoint.modified_ns)


def body(
    settings: Settings, *, node: str, written_at: float, verdicts: Iterable[Verdict], errors: Sequence[str]
) -> dict[str, Any]:
    """Return a status.

    Args:
        settings: Settings of the agent.
        node: Who saw it.
        written_at: When, seconds since 1970.
        verdicts: What the policy said.
        errors: What went wrong.
    """
    seen = list(verdicts)
    return {
        "workload": settings.workload,
        "hot_tier_id": settings.hot_tier_id,
        "tier": settings.tier,
        "written_at": written_at,
        "node": node,
        "settings": settings.to_dict(),
        "checkpoints": [checkpoint_of(each) for each in seen],
        "unsaved": [each.checkpoint.path for each in seen if each.due and not each.promoted],
        "errors": list(errors),
    }


def write(aws: Aws, settings: Settings, status: dict[str, Any]) -> None:
    """Write a status over the one before.

    Raises:
        ClientError: S3 refused or failed.
    """
    aws("s3").put_object(
        Bucket=settings.lake_bucket,
        Key=places.status_key(settings.hot_tier_id),
        Body=(json.dumps(status, indent=1) + "\n").encode(),
        ContentType="application/json",
    )


def read(aws: Aws, bucket: str, hot_tier_id: str) -> dict[str, Any] | None:
    """Return the last status of a hot tier; None where no run has written one.

    Raises:
        ClientError: S3 refused or failed.
        ValueError: What lies there is no status.
    """
    held = lake.content(aws, bucket, places.status_key(hot_tier_id))
    if held is None:
        return None
    found = json.loads(held)
    if not isinstance(found, dict):
        raise ValueError(f"s3://{bucket}/{places.status_key(hot_tier_id)} is no status")  # noqa: TRY004 - as the rest
    return found
