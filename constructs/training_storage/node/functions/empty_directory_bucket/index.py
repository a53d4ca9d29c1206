"""Empties a directory bucket while its stack is being deleted, so that CloudFormation can delete the bucket after it.

CloudFormation calls it as a custom resource. Create and Update touch nothing, and neither does a Delete that comes of
an update: taking the flag or the bucket out of a stack deletes no object. Work that one run cannot end goes on in
another run of the same function, until the hour that CloudFormation waits is nearly over; then the answer is that the
stack is to be deleted once more, which goes on with what is left. CloudFormation is answered in every case.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from ...aws import code_of
from ...cloudformation import answer, state_of

WORKERS = 16
PAGE = 1000
"""Keys of one listing and of one request to delete: the most that S3 takes."""
MARGIN_MS = 120_000
"""What is left of a run when it stops: enough for the requests under way with all their tries, and for the answer."""
HOUR_S = 3_600 - 200
"""How long after the first run the last answer is given: CloudFormation waits an hour."""
TRIES = 3
EMPTIED_WHILE = ("DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS")
"""States of a stack in which its buckets go: it is deleted, or its creation is taken back."""

_LOG = logging.getLogger("empty_directory_bucket")
_LOG.setLevel(logging.INFO)
_GONE = "NoSuchBucket"
_NO_XML = "MalformedXML"
"""What S3 says to a batch with a key that XML cannot hold, such as one with a control character."""
_DONE_ALREADY = ("NoSuchKey", "NoSuchUpload")
_CONTINUATION = "Continuation"


@dataclass(frozen=True)
class Progress:
    """What all runs for one Delete have done.

    Attributes:
        started: When the first run began, seconds since 1970.
        objects: Objects deleted.
        uploads: Uploads aborted.
        ended: Whether nothing is left.
    """

    started: float
    objects: int = 0
    uploads: int = 0
    ended: bool = False

    def __str__(self) -> str:
        return f"{_counted(self.objects, 'object')} and {_counted(self.uploads, 'upload')} in progress removed"


class NotEmptiedError(Exception):
    """S3 does not remove what is in the bucket."""


def handler(event: dict[str, Any], context: Any) -> None:
    """Do what a call of CloudFormation, or an earlier run, asks for, and answer unless another run goes on.

    Args:
        event: A custom resource request, in a run that goes on with the progress so far.
        context: Context of the run: how long it may last, and which function it is.
    """
    try:
        status, reason = _outcome(event, context)
    except Exception as error:  # whatever it is: without an answer CloudFormation waits for an hour
        _LOG.exception("failed")
        status, reason = "FAILED", _said(error)
    if status is not None:
        _LOG.info("%s: %s", status, reason)
        # The physical id never changes: another one would make CloudFormation send a Delete for the old one after an
        # update, and the bucket that an update replaces is kept.
        answer(event, status, reason, sleep=time.sleep)


def _outcome(event: dict[str, Any], context: Any) -> tuple[str | None, str]:
    if event["RequestType"] != "Delete":
        return "SUCCESS", "nothing to do"
    bucket = event["ResourceProperties"]["BucketName"]
    state = state_of(_client, event["StackId"])
    if state not in EMPTIED_WHILE:
        return "SUCCESS", f"{bucket} is left as it is: its stack is not being deleted, but {state}"
    progress = Progress(**event.get(_CONTINUATION) or {"started": time.time()})
    try:
        progress = _empty(_client("s3"), bucket, progress, lambda: _time_is_up(context, progress.started))
    except ClientError as error:
        if code_of(error) != _GONE:
            raise
        return "SUCCESS", f"{bucket} is gone already"
    _LOG.info("%s: %s", bucket, progress)
    if progress.ended:
        return "SUCCESS", f"{progress}"
    if time.time() - progress.started < HOUR_S:
        _go_on(event, context, progress)
        return None, ""
    return "FAILED", (
        f"{progress} from {bucket} in an hour, and more is there: stop whoever writes to it, and delete the stack once "
        "more, which goes on with what is left"
    )


def _go_on(event: dict[str, Any], context: Any, progress: Progress) -> None:
    _client("lambda").invoke(
        FunctionName=context.invoked_function_arn,
        InvocationType="Event",
        Payload=json.dumps({**event, _CONTINUATION: asdict(progress)}).encode(),
    )


def _time_is_up(context: Any, started: float) -> bool:
    return bool(context.get_remaining_time_in_millis() < MARGIN_MS) or time.time() - started >= HOUR_S


def _config() -> Config:
    return Config(
        connect_timeout=5,
        read_timeout=15,
        retries={"mode": "standard", "total_max_attempts": 4},
        max_pool_connections=WORKERS,
    )


def _client(service: str) -> Any:
    return boto3.client(service, config=_config())  # type: ignore[call-overload]  # names of services are text for us


# -- emptying


def _empty(s3: Any, bucket: str, progress: Progress, time_is_up: Callable[[], bool]) -> Progress:
    """Remove objects and uploads until a look finds neither, or time is up.

    Each look begins at the beginning: a listing of a directory bucket has no order that could be gone on with while
    what it lists is being removed.
    """
    with ThreadPoolExecutor(WORKERS) as pool:
        idle = 0
        while not time_is_up():
            keys = _keys(s3, bucket, time_is_up)
            uploads = _uploads(s3, bucket)
            if not keys and not uploads:
                return replace(progress, ended=True)
            batches = [keys[start : start + PAGE] for start in range(0, len(keys), PAGE)]
            answers = pool.map(lambda batch: _delete(s3, bucket, batch, time_is_up), batches)
            refused = [each for answer in answers for each in answer]
            stuck = [each for each in pool.map(lambda upload: _abort(s3, bucket, *upload), uploads) if each]
            objects, aborted = len(keys) - len(refused), len(uploads) - len(stuck)
            progress = replace(progress, objects=progress.objects + objects, uploads=progress.uploads + aborted)
            idle = 0 if objects or aborted else idle + 1
            if idle == TRIES:
                first = (refused + stuck)[0]
                raise NotEmptiedError(
                    f"{bucket}: S3 does not remove {_counted(len(refused), 'object')} and "
                    f"{_counted(len(stuck), 'upload')} of those looked at, the first of them {first}; {progress}"
                )
            if idle:
                time.sleep(2**idle)
    return progress


def _keys(s3: Any, bucket: str, time_is_up: Callable[[], bool]) -> list[str]:
    """Return the keys of the first pages, one for each worker."""
    keys: list[str] = []
    page: dict[str, Any] = {"NextContinuationToken": None}
    for _ in range(WORKERS):
        token = page.get("NextContinuationToken")
        page = s3.list_objects_v2(Bucket=bucket, MaxKeys=PAGE, **({"ContinuationToken": token} if token else {}))
        keys += [each["Key"] for each in page.get("Contents", ())]
        if not page.get("IsTruncated") or time_is_up():
            break
    return keys


def _uploads(s3: Any, bucket: str) -> list[tuple[str, str]]:
    page = s3.list_multipart_uploads(Bucket=bucket, MaxUploads=PAGE)
    return [(each["Key"], each["UploadId"]) for each in page.get("Uploads", ())]


def _delete(s3: Any, bucket: str, keys: list[str], time_is_up: Callable[[], bool]) -> list[str]:
    """Delete objects; return what is said of those that S3 did not delete."""
    try:
        done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True})
    except (ClientError, BotoCoreError) as error:
        if code_of(error) == _GONE:
            raise
        if code_of(error) == _NO_XML:
            said = (f"{key}: no time" if time_is_up() else _delete_alone(s3, bucket, key) for key in keys)
            return [each for each in said if each]
        return [f"{key}: {_said(error)}" for key in keys]
    return _refused(done.get("Errors", ()))


def _delete_alone(s3: Any, bucket: str, key: str) -> str:
    """Delete one object by a request without XML; return why it was not deleted, or nothing."""
    try:
        s3.delete_object(Bucket=bucket, Key=key)
    except (ClientError, BotoCoreError) as error:
        if code_of(error) == _GONE:
            raise
        return "" if code_of(error) in _DONE_ALREADY else f"{key}: {_said(error)}"
    return ""


def _refused(errors: Iterable[dict[str, Any]]) -> list[str]:
    return [
        f"{each.get('Key')}: {each.get('Code')} {each.get('Message', '')}".rstrip()
        for each in errors
        if each.get("Code") not in _DONE_ALREADY
    ]


def _abort(s3: Any, bucket: str, key: str, upload_id: str) -> str:
    """Abort an upload; return why it was not aborted, or nothing."""
    try:
        s3.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
    except (ClientError, BotoCoreError) as error:
        if code_of(error) == _GONE:
            raise
        return "" if code_of(error) in _DONE_ALREADY else f"upload of {key}: {_said(error)}"
    return ""


# -- what is said


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _said(error: Exception) -> str:
    if isinstance(error, (NotEmptiedError, ClientError)):
        return str(error)
    return f"{type(error).__name__}: {error}"
