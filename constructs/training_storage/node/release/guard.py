"""Whether a file system may go with its stack: the guard's question, which it answers from what others have proven.

It exports nothing and waits for nothing but datapoints that are on their way. A file system may go with a proof that
nothing was written after, with an override that somebody has just asked for, or when no client ever wrote to it. In
every other case, and whenever something cannot be looked up, it stays, and the reason says what is not in S3.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import Any, Callable

from .. import places
from ..aws import Aws, code_of
from . import proof as proofs
from .activity import KEPT_S, Activity, activity
from .proof import Proof

WAIT_S = 240
"""How long datapoints are waited for: CloudWatch has those of FSx some two minutes after their minute."""

LOOK_S = 15
"""Seconds between two looks."""

SETTLED_S = 60
"""How far beyond the delete datapoints must reach. Each server of a file system reports for itself, so that a minute is
whole once the next one has begun to arrive."""

YOUNG_S = 600
"""Age up to which a file system without a write may go before CloudWatch knows its last minutes. Making one and its
links takes about as long, and CloudWatch begins to know it before anybody can have mounted it for long."""

MADE_S = 7_200
"""How long after its creation CloudWatch may begin to know a file system that nobody can have used before."""

OVERRIDE_S = 3_600
"""How long an override counts."""

SKEW_S = 300
"""How far the clock of whoever wrote an override may be ahead."""

GONE = "FileSystemNotFound"
_USELESS = ("CREATING", "FAILED")
"""States in which no client can write."""
_LATE = (
    "CloudWatch does not know yet whether clients wrote to it in the last minutes; delete the stack again in some "
    "minutes"
)
_NAMED = 3
"""Checkpoints that a reason names; it has room for no more."""


@dataclass(frozen=True)
class Asked:
    """What the guard is asked about.

    Attributes:
        file_system_id: ``fs-...``.
        workload: The workload's name.
        lake_bucket: The data lake.
    """

    file_system_id: str
    workload: str
    lake_bucket: str


@dataclass(frozen=True)
class Answer:
    """What the guard says.

    Attributes:
        may_go: Whether the file system may be deleted.
        reason: Why, for people; it names what is missing where it may not.
        override: The override that let it go; None without one.
    """

    may_go: bool
    reason: str
    override: Proof | None = None


class DoubtError(Exception):
    """Something could not be looked up."""


def decide(
    aws: Aws,
    asked: Asked,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Answer:
    """Return whether a file system may be deleted now; takes five minutes at most.

    Args:
        aws: Clients.
        asked: Which file system.
        clock: The time, in seconds since 1970.
        sleep: Waits some seconds.
    """
    began = clock()
    try:
        found = _file_system(aws, asked.file_system_id)
        if found is None:
            return Answer(True, f"{asked.file_system_id} is gone already")
        proof, flaw = _proof(aws, asked, began)
        if proof is not None and proof.kind == "override":
            return Answer(
                True, f"{asked.file_system_id} goes without a proof: {proof.by} asked for it: {proof.reason}", proof
            )
        said = _look(aws, asked, found, proof, flaw, began, clock)
        while said is None and clock() - began < WAIT_S:
            sleep(LOOK_S)
            said = _look(aws, asked, found, proof, flaw, began, clock)
    except DoubtError as doubt:
        return Answer(False, _refusal(aws, asked, str(doubt)))
    return said or Answer(False, _refusal(aws, asked, _LATE))


def check_rights(aws: Aws, asked: Asked, *, clock: Callable[[], float] = time.time) -> None:
    """Look at everything once that a delete will have to look at.

    Args:
        aws: Clients.
        asked: Which file system.
        clock: The time, in seconds since 1970.

    Raises:
        DoubtError: Something could not be looked up; its text says what.
    """
    _file_system(aws, asked.file_system_id)
    now = clock()
    _proof(aws, asked, now)
    for key in (places.status_key(asked.file_system_id), places.survey_key(asked.file_system_id)):
        _try("what lies in the lake", partial(_read, aws, asked.lake_bucket, key))
    _activity(aws, asked, now - 60, now, clock)


# -- what is looked up


def _try(what: str, look: Callable[[], Any]) -> Any:
    try:
        return look()
    except Exception as error:  # whatever it is: what cannot be looked up lets nothing go
        raise DoubtError(f"{what} cannot be looked up: {_said(error)}") from error


def _said(error: BaseException) -> str:
    code = code_of(error)
    if code:
        response: Mapping[str, Any] = getattr(error, "response", {})
        return f"{code}: {response.get('Error', {}).get('Message', '')}"[:250]
    return f"{type(error).__name__}: {error}"[:250]


def _file_system(aws: Aws, file_system_id: str) -> dict[str, Any] | None:
    """Return what FSx says of the file system; None where it is gone or going."""

    def look() -> dict[str, Any] | None:
        try:
            (found,) = aws("fsx").describe_file_systems(FileSystemIds=[file_system_id])["FileSystems"]
        except Exception as error:
            if code_of(error) == GONE:
                return None
            raise
        return None if found.get("Lifecycle") == "DELETING" else dict(found)

    answer: dict[str, Any] | None = _try(file_system_id, look)
    return answer


def _is_there(aws: Aws, bucket: str, key: str) -> bool:
    """Whether an object exists, by a listing.

    A GetObject of a missing key is answered with 404 only to who may list the bucket, and a right to list that holds
    for some prefixes does not count there: to a role with exact rights S3 would say 403, as if it were forbidden.
    """
    listed = aws("s3").list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
    return any(each["Key"] == key for each in listed.get("Contents", ()))


def _read(aws: Aws, bucket: str, key: str) -> dict[str, Any] | None:
    if not _is_there(aws, bucket, key):
        return None
    found = json.loads(aws("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    if not isinstance(found, dict):
        raise ValueError(f"{key} is no object of ours")  # noqa: TRY004 - as json says it of what is no JSON
    return found


def _proof(aws: Aws, asked: Asked, now: float) -> tuple[Proof | None, str]:
    """Return the proof or the override that counts; where there is none, why what is there does not count."""
    key = places.proof_key(asked.file_system_id)

    def look() -> Proof | None:
        if not _is_there(aws, asked.lake_bucket, key):
            return None
        found = proofs.read(aws, asked.lake_bucket, asked.file_system_id)
        if found is not None:
            float(found.written_at), float(found.valid_from)  # what is no number lets nothing go
        return found

    found: Proof | None = _try(f"the proof at {key} of {asked.lake_bucket}", look)
    if found is None:
        return None, "nothing proves that what is on it is in S3"
    if (found.hot_tier_id, found.workload) != (asked.file_system_id, asked.workload):
        return None, f"what lies at {key} speaks of {found.hot_tier_id} of {found.workload}"
    if found.kind == "override":
        age = now - found.written_at
        if not found.by or not found.reason:
            return None, "the override in the lake does not say who asked for it, and why"
        if age > OVERRIDE_S:
            return None, f"the override in the lake is of {_moment(found.written_at)}, and counts for an hour"
        if age < -SKEW_S:
            return None, f"the override in the lake is of {_moment(found.written_at)}, which is yet to come"
        return found, ""
    if found.kind != "proof":
        return None, f"what lies at {key} is {found.kind!r}, and no proof"
    if found.valid_from > now or found.valid_from > found.written_at:
        return None, f"the proof in the lake counts from {_moment(found.valid_from)} on, which is later than it can be"
    return found, ""


def _activity(aws: Aws, asked: Asked, since: float, until: float, clock: Callable[[], float]) -> Activity:
    found: Activity = _try(
        "whether clients wrote to it", lambda: activity(aws, asked.file_system_id, since, until, clock=clock)
    )
    return found


def _look(
    aws: Aws,
    asked: Asked,
    found: Mapping[str, Any],
    proof: Proof | None,
    flaw: str,
    began: float,
    clock: Callable[[], float],
) -> Answer | None:
    """Return what the datapoints of now say; None where later ones may say more."""
    until = began + 2 * SETTLED_S
    created = float(_try("its age", lambda: found["CreationTime"].timestamp()))
    since = created if proof is None else max(created, proof.valid_from)
    if since < clock() - KEPT_S:
        raise DoubtError(f"{flaw or 'its proof is too old'}, and CloudWatch knows the last 455 days only")
    seen = _activity(aws, asked, since, until, clock)
    whole = seen.known_until is not None and seen.known_until >= began + SETTLED_S
    settled = whole or found.get("Lifecycle") in _USELESS
    if proof is not None:
        if seen.last_write is not None and seen.last_write > proof.valid_from:
            raise DoubtError(
                f"it was written to until {_moment(seen.last_write)}, after what its proof of "
                f"{_moment(proof.valid_from)} holds for"
            )
        if whole and (seen.known_from is None or seen.known_from > since):
            raise DoubtError(
                f"CloudWatch does not know whether clients wrote to it after its proof of {_moment(proof.valid_from)}"
            )
        if settled:
            return Answer(
                True,
                f"{asked.file_system_id} may go: {proof.files:,} files ({_size(proof.bytes)}) were found in S3, and "
                f"nothing was written after {_moment(proof.valid_from)}",
            )
    if proof is None and seen.last_write is not None:
        raise DoubtError(f"it was last written to at {_moment(seen.last_write)}, and {flaw}")
    if proof is None and whole and (seen.known_from is None or seen.known_from > created + MADE_S):
        raise DoubtError(f"CloudWatch does not know whether clients wrote to it in its first hours, and {flaw}")
    if proof is None and (settled or clock() - created <= YOUNG_S):
        return Answer(True, f"{asked.file_system_id} may go: no client ever wrote to it")
    return None


# -- what is said


def _refusal(aws: Aws, asked: Asked, why: str) -> str:
    """Return the reason of a no; CloudFormation cuts it, so what helps stands before what may be long."""
    return (
        f"{asked.file_system_id} is kept: {why}. Run `training-storage release {asked.workload}`, which copies what "
        f"must be kept and then deletes the stacks. Not in S3: {_missing(aws, asked)}"
    )[:980]


def _missing(aws: Aws, asked: Asked) -> str:
    """Return what is not in S3 as far as the agent and the last survey know; never raises."""
    try:
        status = _read(aws, asked.lake_bucket, places.status_key(asked.file_system_id))
        survey = _read(aws, asked.lake_bucket, places.survey_key(asked.file_system_id))
        parts = [] if status is None else [_checkpoints(status)]
        if survey is not None:
            parts.append(_files(survey))
    except Exception as error:  # the refusal stands without it
        return f"unknown: {_said(error)}"
    return "; ".join(parts) if parts else "unknown: no agent and no release has looked at its files yet"


def _checkpoints(status: Mapping[str, Any]) -> str:
    sizes = {each["path"]: int(each.get("size") or 0) for each in status.get("checkpoints", ())}
    unsaved = [str(each) for each in status.get("unsaved", ())]
    when = f"as seen at {_moment(float(status['written_at']))}"
    if not unsaved:
        return f"no checkpoint that is due, {when}; later ones are not known"
    named = ", ".join(f"{each} ({_size(sizes[each])})" if each in sizes else each for each in unsaved[:_NAMED])
    more = f" and {len(unsaved) - _NAMED:,} more" if len(unsaved) > _NAMED else ""
    return f"checkpoints {named}{more}, {when}"


def _files(survey: Mapping[str, Any]) -> str:
    classes = survey.get("classes", {})
    counts = [
        f"{int(classes[kind]['files']):,} {words} ({_size(int(classes[kind]['bytes']))})"
        for kind, words in (("keep", "files to be kept"), ("changed-data", "changed files of data sets"))
        if classes.get(kind, {}).get("files")
    ]
    return f"{' and '.join(counts) or 'no other file'} when last surveyed at {_moment(float(survey['ended']))}"


def _size(count: int) -> str:
    size, units = float(count), ["B", "KB", "MB", "GB", "TB", "PB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.3g} {units[0]}"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
