"""One object: looked for, copied by the server, verified, and removed where that was asked."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from botocore.exceptions import BotoCoreError, ClientError

from training_storage.operations.transfer_errors import judge
from training_storage.operations.transfer_model import (
    MAX_PART_BYTES,
    Entry,
    Outcome,
    Proof,
    Route,
    Verify,
    fingerprint,
)
from training_storage.operations.transfer_quick import QuickCopier
from training_storage.operations.transfer_verify import (
    MismatchError,
    Seen,
    compare_bytes,
    look,
    prove,
    same_etag,
    seen,
)

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

ATTEMPTS: Final = 6
"""Tries of one object after botocore's own; with the waits between them about a minute."""
CHANGES: Final = 3
"""How often an object may change under the copy before it is reported."""
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 20.0


class StopError(Exception):
    """Nothing can be copied any more.

    Attributes:
        code: Error code of S3.
        reason: What happened, and what to do.
    """

    def __init__(self, code: str, reason: str) -> None:
        self.code = code
        self.reason = reason
        super().__init__(reason)


class CancelledError(Exception):
    """The run is being stopped."""


@dataclass(frozen=True, slots=True)
class Where:
    """The two ends of one object."""

    source_bucket: str
    source_key: str
    bucket: str
    key: str
    to_directory_bucket: bool


@dataclass(slots=True)
class _Made:
    """What earlier tries of an object have made."""

    copied: bool = False


class ObjectCopier:
    """Copies single objects; any number of threads may use it at once.

    Args:
        client: Client of the destination's region.
        route: From where to where.
        verify: ``auto``: by the servers' checksums, and by reading where there are none; ``server``: never by reading;
            ``read``: always by reading.
        remove: Remove verified objects from the source.
        quick: Sends most copies; the client sends all when left out.
        sleep: Replaced in tests.
        ranges: Reads ranges of large objects beside each other.
        cancelled: Asked between steps; True stops the object.
    """

    def __init__(
        self,
        client: S3Client,
        route: Route,
        *,
        verify: Verify = "auto",
        remove: bool = False,
        quick: QuickCopier | None = None,
        sleep: Callable[[float], None] = time.sleep,
        ranges: Executor | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.client = client
        self.route = route
        self.verify = verify
        self.remove = remove
        self._quick = quick
        self._sleep = sleep
        self._ranges = ranges
        self._cancelled = cancelled

    def handle(self, entry: Entry) -> Outcome:
        """Bring one object to its end; its failure is an outcome.

        Raises:
            StopError: No object can be copied any more.
            CancelledError: The run is being stopped.
        """
        changes, made = 0, _Made(entry.made)
        failure = Outcome(entry.source, entry.relative, entry.size, entry.etag, "failed")
        for attempt in range(ATTEMPTS):
            self._check()
            try:
                try:
                    return self._once(entry, made)
                except ClientError as error:
                    if judge(error).meaning not in ("changed", "missing"):
                        raise
                    fresh = self._look_again(entry)
                    if fresh is None:
                        return failure._replace(status="gone", reason="it vanished from the source meanwhile")
                    if (fresh.size, fresh.etag) == (entry.size, entry.etag):
                        raise  # the condition failed for another reason
                    if entry.size <= MAX_PART_BYTES < fresh.size:
                        reason = "it grew beyond what one request copies; fix: run the same command again"
                        return failure._replace(reason=reason)
                    entry, changes, made = fresh, changes + 1, _Made()
                    if changes >= CHANGES:
                        reason = f"it changed {changes} times while being copied; fix: run again when writers are done"
                        return failure._replace(reason=reason)
            except MismatchError as error:
                failure = failure._replace(reason=f"the copy is not equal: {error}", code="")
                entry, made = entry._replace(look=False), _Made()
            except (ClientError, BotoCoreError) as error:
                verdict = judge(error)
                failure = failure._replace(reason=verdict.reason, code=verdict.code)
                if verdict.meaning == "stop":
                    raise StopError(verdict.code, verdict.reason) from error
                if verdict.meaning == "failed":
                    return failure
                entry = entry._replace(look=entry.look or made.copied)  # S3 answered too late: it may be there
            if attempt + 1 < ATTEMPTS:
                self._back_off(attempt)
        return failure._replace(reason=f"{failure.reason}; given up after {ATTEMPTS} tries")

    def where(self, entry: Entry) -> Where:
        """Return both ends of an object."""
        source = self.route.sources[entry.source]
        index, key = self.route.target(entry.relative)
        destination = self.route.destinations[index]
        return Where(
            source.bucket, source.prefix + entry.relative, destination.bucket, key, destination.is_directory_bucket
        )

    def copy(self, entry: Entry, where: Where) -> Mapping[str, Any]:
        """Copy with one request; overwritten for larger objects.

        Returns:
            What S3 said about the copy: its ETag, and checksums of the whole where it made one.

        Raises:
            ClientError: S3 refused; 412 where the source is no more what was listed.
        """
        # A directory bucket takes no tags: asked to copy some, it refuses the object.
        tags: Any = {"TaggingDirective": "REPLACE"} if where.to_directory_bucket else {}
        if self._quick is not None:
            headers = {
                "x-amz-copy-source": quote(f"{where.source_bucket}/{where.source_key}", safe="/~"),
                "x-amz-copy-source-if-match": f'"{entry.etag}"',
            } | ({"x-amz-tagging-directive": "REPLACE"} if tags else {})
            said = self._quick.copy(where.bucket, where.key, headers)
            if said is not None:
                return said
        return self.client.copy_object(
            Bucket=where.bucket,
            Key=where.key,
            CopySource={"Bucket": where.source_bucket, "Key": where.source_key},
            CopySourceIfMatch=f'"{entry.etag}"',
            **tags,
        )["CopyObjectResult"]

    # One try

    def _once(self, entry: Entry, made: _Made) -> Outcome:
        where = self.where(entry)
        if entry.copy_mark:
            known = Outcome(entry.source, entry.relative, entry.size, entry.etag, "verified", proof="journal")
            if self._copy_is_there(entry, where):
                return self._removed(known, where, entry)
            entry = entry._replace(copy_mark="")
        if entry.look:
            outcome = self._find(entry, where, made)
            if outcome is not None:
                return self._removed(outcome, where, entry)
        said = self.copy(entry, where)
        made.copied = True
        self._check()
        if said and not (self.remove or entry.look or where.to_directory_bucket or self.verify == "read"):
            outcome = self._believed(entry, where, said)
            if outcome is not None:
                return outcome
        copy = look(self.client, where.bucket, where.key)
        return self._removed(self._verified(entry, where, copy, copied=True), where, entry)

    def _believed(self, entry: Entry, where: Where, said: Mapping[str, Any]) -> Outcome | None:
        """Return the outcome by what S3 said about the copy; its size is left to a listing, a thousand at once."""
        copy = seen(where.bucket, where.key, {**said, "ContentLength": entry.size})
        outcome = Outcome(
            entry.source,
            entry.relative,
            entry.size,
            entry.etag,
            "verified",
            copied=True,
            copy_etag=copy.etag,
            seen=False,
        )
        if same_etag(entry.size, entry.etag, copy):
            return outcome._replace(proof="etag")
        if not copy.sums:
            return None
        proof = prove(self.client, look(self.client, where.source_bucket, where.source_key, etag=entry.etag), copy)
        return outcome._replace(proof=proof) if proof else None

    def _find(self, entry: Entry, where: Where, made: _Made) -> Outcome | None:
        """Return the outcome where the destination already holds an equal object."""
        try:
            there = look(self.client, where.bucket, where.key)
        except ClientError as error:
            if judge(error).meaning == "missing":
                return None
            raise
        if there.size != entry.size:
            return None
        try:
            return self._verified(entry, where, there, copied=made.copied)
        except MismatchError:
            return None

    def _verified(self, entry: Entry, where: Where, copy: Seen, *, copied: bool) -> Outcome:
        """Return the outcome of a copy that is there; raises MismatchError where it is not equal."""
        outcome = Outcome(
            entry.source, entry.relative, entry.size, entry.etag, "verified", copied=copied, copy_etag=copy.etag
        )
        if self.verify != "read" and same_etag(entry.size, entry.etag, copy):
            return outcome._replace(proof="etag")
        source = look(self.client, where.source_bucket, where.source_key, etag=entry.etag)
        proof: Proof = prove(self.client, source, copy)
        if self.verify == "read" or (self.verify == "auto" and not proof):
            compare_bytes(self.client, source, copy, self._ranges)
            return outcome._replace(proof="read", read_bytes=2 * entry.size)
        if not proof:
            reason = (
                "the servers have no checksum of both sides that can be compared; fix: leave --verify at auto, which "
            )
            return outcome._replace(status="unverified", reason=f"{reason}reads both")
        return outcome._replace(proof=proof)

    def _copy_is_there(self, entry: Entry, where: Where) -> bool:
        """Whether the copy is still the one that was verified: asked right before its source is removed."""
        try:
            copy = look(self.client, where.bucket, where.key)
        except ClientError as error:
            if judge(error).meaning == "missing":
                return False
            raise
        return fingerprint(copy.size, copy.etag).hex() == entry.copy_mark

    def _removed(self, outcome: Outcome, where: Where, entry: Entry) -> Outcome:
        """Remove the source of a verified copy, if it is still what was verified."""
        if not self.remove or outcome.status != "verified":
            return outcome
        if entry.keep:
            # Without it the next run would take the other object for this key's, and overwrite the copy.
            return outcome._replace(reason="not removed: another of the buckets holds the same key")
        request: Any = {"Bucket": where.source_bucket, "Key": where.source_key}
        try:
            try:
                self.client.delete_object(**request, IfMatch=f'"{outcome.etag}"')
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") not in ("NotImplemented", "InvalidArgument"):
                    raise
                # No conditional delete there: the look right before it is the best there is.
                look(self.client, where.source_bucket, where.source_key, etag=outcome.etag)
                self.client.delete_object(**request)
        except ClientError as error:
            verdict = judge(error)
            if verdict.meaning == "missing":
                return outcome._replace(removed=True)
            if verdict.meaning == "changed":
                raise  # it is another object now: it starts anew
            if verdict.meaning == "again":
                raise
            return outcome._replace(code=verdict.code, reason=f"not removed: {verdict.reason}")
        return outcome._replace(removed=True)

    def _look_again(self, entry: Entry) -> Entry | None:
        where = self.where(entry)
        try:
            source = look(self.client, where.source_bucket, where.source_key)
        except ClientError as error:
            if judge(error).meaning == "missing":
                return None
            raise
        # Another object now: what was verified of the former one says nothing about it.
        return entry._replace(size=source.size, etag=source.etag, look=True, copy_mark="")

    def _check(self) -> None:
        if self._cancelled():
            raise CancelledError

    def _back_off(self, attempt: int) -> None:
        """Wait twice as long each time, and never all together."""
        longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**attempt)
        self._sleep(longest * random.uniform(0.5, 1))  # noqa: S311 - no secret
