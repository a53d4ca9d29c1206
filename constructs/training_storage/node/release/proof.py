"""The proof that a hot tier may go: what it says, where it lies, and what it must be newer than.

Written by the release, read by the guard that stands in front of the delete. Nothing else lets a hot tier go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .. import places
from ..aws import MISSING, Aws, code_of


@dataclass(frozen=True)
class Proof:
    """Why a hot tier may be deleted.

    Attributes:
        kind: ``proof``, or ``override`` for a release that somebody has asked for without one.
        workload: The workload's name.
        hot_tier_id: ``fs-...``, or the workload's name where the tier is no file system.
        written_at: Seconds since 1970 when this was written.
        valid_from: Seconds since 1970: nothing was written to the tier after this moment up to ``written_at``. A write
            after it makes the proof worthless.
        files: Files that had to be kept, and were found in S3.
        bytes: Their bytes.
        left: What is left behind on purpose, by name (``datasets``, ``scratch``, ``checkpoints``): files, bytes, why.
        tasks: Export tasks that the proof rests on.
        manifest: Key of the index of the manifest; empty for an override.
        by: Who asked for an override, as an ARN; empty for a proof.
        reason: Why, in the words of whoever asked for an override; empty for a proof.
        removes: What the release removes from directory buckets after the proof, so that their stack can go: the run
            whose list names it, ``parts`` of the list, ``buckets``, ``objects``, ``bytes``, ``digest``. Empty where
            nothing is removed.
    """

    kind: str
    workload: str
    hot_tier_id: str
    written_at: float
    valid_from: float
    files: int = 0
    bytes: int = 0
    left: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    manifest: str = ""
    by: str = ""
    reason: str = ""
    removes: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; ``removes`` only where something is removed."""
        return {name: value for name, value in asdict(self).items() if name != "removes" or value}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Proof:
        """Read what ``to_dict`` returned; keys of a newer version are passed over."""
        known = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        known["tasks"] = tuple(known.get("tasks", ()))
        return cls(**known)


def read(aws: Aws, bucket: str, hot_tier_id: str) -> Proof | None:
    """Return the proof of a hot tier; None where there is none.

    Raises:
        ClientError: S3 refused or failed.
        ValueError: What lies there is no proof.
    """
    try:
        answer = aws("s3").get_object(Bucket=bucket, Key=places.proof_key(hot_tier_id))
    except Exception as error:
        if code_of(error) in MISSING:
            return None
        raise
    given = json.loads(answer["Body"].read())
    try:
        return Proof.from_dict(given)
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{places.proof_key(hot_tier_id)} is no proof: {error}") from error


def write(aws: Aws, bucket: str, proof: Proof) -> None:
    """Write a proof; the one before it is replaced, and stays as a version where the bucket keeps versions.

    Raises:
        ClientError: S3 refused or failed.
    """
    body = json.dumps(proof.to_dict(), indent=2, sort_keys=True) + "\n"
    aws("s3").put_object(
        Bucket=bucket, Key=places.proof_key(proof.hot_tier_id), Body=body.encode(), ContentType="application/json"
    )
