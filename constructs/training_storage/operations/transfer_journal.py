"""What earlier runs have verified, written down in the lake, so that any machine can go on.

The journal of a transfer lies below ``.training-storage/transfers/ID/`` and only ever grows: ``segments/`` holds
gzipped JSON lines, one a verified object or an upload in parts, written every few seconds; ``runs/`` one small object a
run, written twice a minute, from which another run sees that this one is at work. What a killed run had verified and
not yet written is found again by comparing.
"""

from __future__ import annotations

import gzip
import json
import os
import secrets
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import ClientError

from training_storage.operations.aws import aws_errors
from training_storage.operations.transfer_errors import judge
from training_storage.operations.transfer_model import MAX_PART_BYTES, MAX_PARTS, OWN_PREFIX, Outcome
from training_storage.operations.transfer_pools import PartThreads

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

FLUSH_S: Final = 5.0
"""Verified objects are written down at the latest after this time ..."""
FLUSH_RECORDS: Final = 10_000
"""... or when there are so many."""
HEARTBEAT_S: Final = 30.0
ALIVE_S: Final = 90.0
"""A run that has not been heard of for so long is dead."""


class Upload(NamedTuple):
    """One multipart upload of this product.

    Attributes:
        bucket: Bucket of the destination.
        key: Key there.
        etag: ETag of the source.
        size: Bytes of the source.
        part_size: Bytes of a part.
        upload_id: Its id; empty where a run was killed before it could write it down.
        intended: When the intention was written, by the clock of S3, in seconds since 1970.
    """

    bucket: str
    key: str
    etag: str
    size: int
    part_size: int
    upload_id: str
    intended: float = 0.0

    @property
    def is_sound(self) -> bool:
        """Whether it can be one of this product; a journal may hold what somebody else wrote."""
        return 0 < self.part_size <= MAX_PART_BYTES and 0 < self.size <= MAX_PARTS * self.part_size


class Known(NamedTuple):
    """One verified object of an earlier run."""

    relative: str
    size: int
    etag: str
    copy_etag: str
    proof: str


class OtherRun(NamedTuple):
    """A run of the same transfer that is at work now."""

    run_id: str
    host: str


class Journal:
    """The journal of one transfer.

    Args:
        client: Client of the bucket's region.
        bucket: Bucket that holds it.
        transfer_id: Id of the transfer.
        clock: Replaced in tests.

    Attributes:
        run_id: Names this run.
        damaged: Keys of segments that could not be read to their end.
    """

    def __init__(
        self, client: S3Client, bucket: str, transfer_id: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = f"{OWN_PREFIX}transfers/{transfer_id}/"
        self._clock = clock
        self._lock = Lock()
        self._lines: list[str] = []
        self._written = 0
        self._flushed_at = self._beat_at = clock()
        self.run_id = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
        self._others: tuple[OtherRun, ...] = ()
        self._left: list[Upload] = []
        self.damaged: list[str] = []

    @property
    def uri(self) -> str:
        """Where it lies."""
        return f"s3://{self._bucket}/{self._prefix}"

    # Runs

    def start(self) -> tuple[OtherRun, ...]:
        """Write down that this run is at work, and return the others that are.

        Raises:
            AwsError: The bucket does not take it.
        """
        with aws_errors("PutObject"):
            answer = self._beat("running")
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        now = parsedate_to_datetime(date).timestamp() if date else time.time()
        with aws_errors("ListObjectsV2"):
            runs = [item for item in self._list("runs/") if now - item["LastModified"].timestamp() < ALIVE_S]
        others = []
        for item in runs:
            run_id = str(item["Key"]).removeprefix(f"{self._prefix}runs/").removesuffix(".json")
            if run_id == self.run_id:
                continue
            said: Any = None
            with suppress(ValueError):  # no record of ours
                said = json.loads(self._body(item["Key"]) or b"null")
            if isinstance(said, dict) and said.get("state") == "running" and _is_alive(said):
                others.append(OtherRun(run_id, str(said.get("host"))))
        self._others = tuple(others)
        return self._others

    def _beat(self, state: str) -> Any:
        said = {"state": state, "host": socket.gethostname(), "pid": os.getpid(), "began": _began(os.getpid())}
        self._beat_at = self._clock()
        return self._client.put_object(
            Bucket=self._bucket, Key=f"{self._prefix}runs/{self.run_id}.json", Body=json.dumps(said).encode()
        )

    # Reading

    def exists(self) -> bool:
        """Whether an earlier run has written here.

        Raises:
            AwsError: AWS refused or failed.
        """
        with aws_errors("ListObjectsV2"):
            page: Any = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        return bool(page.get("Contents"))

    def known(self, threads: int = 8) -> Iterator[Known]:
        """Yield what earlier runs have verified, oldest first; afterwards ``left`` is known.

        Raises:
            AwsError: AWS refused or failed.
        """
        with aws_errors("ListObjectsV2"):
            segments = sorted(self._list("segments/"), key=lambda item: str(item["Key"]))
        uploads: dict[tuple[str, str, str, str], Upload] = {}
        busy = {other.run_id for other in self._others}
        readers = PartThreads(threads)
        try:
            for start in range(0, len(segments), 4 * threads):  # so many are in memory at once
                some = segments[start : start + 4 * threads]
                for item, lines in zip(some, readers.in_order(self._read, some), strict=True):
                    run_id = str(item["Key"]).rpartition("/")[2].rpartition("-")[0]
                    for line in lines:
                        match line:
                            case ["v", str(relative), int(size), str(etag), str(copy_etag), str(proof), *_]:
                                yield Known(relative, size, etag, copy_etag, proof)
                            case ["i", str(bucket), str(key), str(etag), int(size), int(part_size)]:
                                at = item["LastModified"].timestamp() - 1  # of whole seconds
                                uploads[run_id, bucket, key, ""] = Upload(bucket, key, etag, size, part_size, "", at)
                            case ["b", str(bucket), str(key), str(etag), int(size), int(part_size), str(upload_id)]:
                                uploads.pop((run_id, bucket, key, ""), None)
                                uploads[run_id, bucket, key, upload_id] = Upload(
                                    bucket, key, etag, size, part_size, upload_id
                                )
                            case ["e", str(bucket), str(key), str(upload_id)]:
                                uploads = {
                                    place: upload
                                    for place, upload in uploads.items()
                                    if place[1:3] != (bucket, key) or upload.upload_id not in ("", upload_id)
                                }
        finally:
            readers.shutdown(wait=False)
        self._left = [upload for (run_id, *_), upload in uploads.items() if run_id not in busy and upload.is_sound]

    @property
    def left(self) -> list[Upload]:
        """Uploads of earlier runs of which no end is known; those of a run at work are left alone."""
        return self._left

    def _list(self, below: str) -> Iterator[Any]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix + below)
        for page in pages:
            yield from page.get("Contents", ())

    def _read(self, item: Any) -> list[Any]:
        """Return the lines of a segment that can be read; what the others said is found again by comparing."""
        lines: list[Any] = []
        try:
            with gzip.GzipFile(fileobj=BytesIO(self._body(item["Key"]) or b"nothing")) as segment:
                for line in segment:
                    lines.append(json.loads(line))  # noqa: PERF401 - those before a damage count
        except (OSError, EOFError, zlib.error, ValueError):
            self.damaged.append(item["Key"])
        return lines

    def _body(self, key: str) -> bytes:
        """Return an object of the journal; empty where it is gone or can't be read.

        Raises:
            AwsError: AWS failed, or refused everything.
        """
        with aws_errors("GetObject"):
            try:
                return self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
            except ClientError as error:
                # A lifecycle rule may have deleted or archived it.
                if judge(error).meaning == "missing" or judge(error).code == "InvalidObjectState":
                    return b""
                raise

    # Writing

    def verified(self, outcome: Outcome) -> None:
        """Write down a verified object with the next segment."""
        line = ["v", outcome.relative, outcome.size, outcome.etag, outcome.copy_etag, outcome.proof,
                int(outcome.copied)]  # fmt: skip
        with self._lock:
            self._add(line)

    def intend(self, upload: Upload) -> None:
        """Write down at once that an upload is about to be made."""
        self._at_once(["i", *upload[:5]])

    def begun(self, upload: Upload) -> None:
        """Write down at once the id of an upload."""
        self._at_once(["b", *upload[:6]])

    def ended(self, upload: Upload) -> None:
        """Write down with the next segment that there is no such upload any more."""
        with self._lock:
            self._add(["e", upload.bucket, upload.key, upload.upload_id])

    def tick(self) -> None:
        """Write what is due.

        Raises:
            AwsError: AWS refused or failed.
        """
        now = self._clock()
        if len(self._lines) >= FLUSH_RECORDS or (self._lines and now - self._flushed_at >= FLUSH_S):
            self.flush()
        if now - self._beat_at >= HEARTBEAT_S:
            with aws_errors("PutObject"):
                self._beat("running")

    def flush(self) -> None:
        """Write everything that is not yet written.

        Raises:
            AwsError: AWS refused or failed.
        """
        with self._lock, aws_errors("PutObject"):
            self._flush()

    def close(self, state: str) -> None:
        """Write the rest and that this run has ended.

        Args:
            state: ``finished``, ``interrupted`` or ``failed``.

        Raises:
            AwsError: AWS refused or failed.
        """
        self.flush()
        with aws_errors("PutObject"):
            self._beat(state)

    def _add(self, line: Sequence[object]) -> None:
        self._lines.append(json.dumps(line, separators=(",", ":")))

    def _at_once(self, line: Sequence[object]) -> None:
        with self._lock:
            self._add(line)
            self._flush()

    def _flush(self) -> None:
        if self._lines:
            self._written += 1
            self._client.put_object(
                Bucket=self._bucket,
                Key=f"{self._prefix}segments/{self.run_id}-{self._written:06d}.jsonl.gz",
                Body=gzip.compress("\n".join(self._lines).encode(), 4, mtime=0),
            )
            self._lines.clear()
        self._flushed_at = self._clock()


def _began(pid: int) -> str:
    """Return when a process of this machine began, in the words of the system; empty where that is not told."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    return ""


def _is_alive(said: dict[str, Any]) -> bool:
    """Whether a run that was heard of lately still is at work; of another machine nothing more can be known."""
    if said.get("host") != socket.gethostname() or not said.get("began"):
        return True
    return bool(_began(said.get("pid", 0)) == said["began"])
