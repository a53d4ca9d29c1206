"""Where a checkpoint of the hot tier lies in S3, and what S3 says of it; the same answer for every way it got there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Callable, TypeVar

from ..aws import MISSING, Aws, code_of
from ..settings import Link, Settings
from .model import Checkpoint, FileEntry
from .tree import Tree

WORKERS = 16
"""Requests that run beside each other; below what ``node.aws`` keeps connections for."""

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Place:
    """Where a file lies, or will lie.

    Attributes:
        bucket: The bucket.
        key: The key.
        link: The link that the file lies under on the hot tier; None for none.
    """

    bucket: str
    key: str
    link: Link | None


@dataclass(frozen=True)
class Listed:
    """An object as a listing shows it.

    Attributes:
        size: Bytes.
        etag: ETag without quotes.
        uploaded: When it was uploaded, whole seconds since 1970.
    """

    size: int
    etag: str
    uploaded: float


@dataclass(frozen=True)
class Seen:
    """An object as HeadObject shows it.

    Attributes:
        size: Bytes.
        etag: ETag without quotes.
        version: Its version; empty where the bucket keeps none.
        uploaded: When it was uploaded, whole seconds since 1970.
        modified_ns: Modification time of the file it was made of, as FSx and we write it beside the object; None
            where nothing is written there.
        sums: Checksums of the whole object, base64, by algorithm.
        head: The whole answer.
    """

    size: int
    etag: str
    version: str
    uploaded: float
    modified_ns: int | None
    sums: Mapping[str, str]
    head: Mapping[str, Any]


def place_of(settings: Settings, path: str) -> Place:
    """Return where a file or a folder below the checkpoint root lies in S3.

    Args:
        settings: Settings of the agent.
        path: Path below the root; empty for the root.
    """
    if settings.tier == "lustre":
        whole = settings.checkpoints.rstrip("/") + ("/" + path if path else "")
        link = settings.link_of(whole)
        if link is not None:
            inner = whole[len(settings.mount.rstrip("/")) :].strip("/")
            below = inner[len(link.path.strip("/")) :].lstrip("/")
            return Place(link.bucket, link.prefix + below, link)
    return Place(settings.lake_bucket, settings.lake_prefix + path, None)


def method_of(settings: Settings, path: str) -> str:
    """Return how a checkpoint gets to S3: ``export-task``, ``auto-export``, ``copy`` or ``upload``.

    FSx runs no export task on a file system that has a link which exports by itself, so that a folder under another
    link is uploaded there.
    """
    if settings.tier == "express":
        return "copy"
    link = place_of(settings, path).link
    if link is None:
        return "upload"
    if link.exports:
        return "auto-export"
    return "upload" if any(each.exports for each in settings.links) else "export-task"


def inside(folder: str) -> str:
    """Return what paths of files in a folder begin with."""
    return folder + "/" if folder else ""


def listing(aws: Aws, bucket: str, prefix: str) -> dict[str, Listed]:
    """Return every object below a prefix, by key.

    Raises:
        ClientError: S3 refused or failed.
    """
    s3 = aws("s3")
    found: dict[str, Listed] = {}
    more: dict[str, str] = {}
    while True:
        page = s3.list_objects_v2(Bucket=bucket, Prefix=prefix, **more)
        for each in page.get("Contents", ()):
            found[each["Key"]] = Listed(each["Size"], each["ETag"].strip('"'), each["LastModified"].timestamp())
        if not page.get("IsTruncated"):
            return found
        more = {"ContinuationToken": page["NextContinuationToken"]}


def content(aws: Aws, bucket: str, key: str) -> bytes | None:
    """Return what an object holds; None where there is none.

    Raises:
        ClientError: S3 refused or failed.
    """
    try:
        return bytes(aws("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    except Exception as error:
        if code_of(error) in MISSING:
            return None
        raise


def look(aws: Aws, bucket: str, key: str) -> Seen | None:
    """Look at one object; None where there is none.

    Raises:
        ClientError: S3 refused or failed.
    """
    try:
        head = aws("s3").head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    except Exception as error:
        if code_of(error) in MISSING:
            return None
        raise
    version = head.get("VersionId", "")
    return Seen(
        size=head["ContentLength"],
        etag=head["ETag"].strip('"'),
        version="" if version == "null" else version,
        uploaded=head["LastModified"].timestamp(),
        modified_ns=_nanoseconds(head.get("Metadata", {}).get("file-mtime", "")),
        sums=sums_of(head),
        head=head,
    )


def sums_of(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the checksums of the whole object in an answer of S3; those made of checksums of parts are left out."""
    if answer.get("ChecksumType") == "COMPOSITE":
        return {}
    return {
        name[len("Checksum") :]: value
        for name, value in answer.items()
        if name.startswith("Checksum") and name != "ChecksumType" and "-" not in value
    }


def _nanoseconds(text: str) -> int | None:
    """Read what FSx writes as ``file-mtime``: ``1595002920000000000ns``."""
    digits = text[:-2] if text.endswith("ns") else text
    return int(digits) if digits.isdigit() else None


def hot_files(tree: Tree, checkpoint: Checkpoint) -> tuple[FileEntry, ...]:
    """Return the files that a checkpoint has on the hot tier now, by path."""
    return tuple(sorted(tree.files(checkpoint.path), key=lambda each: each.path))


def in_parallel(
    work: Callable[[_Item], _Answer],
    items: Iterable[_Item],
    on_done: Callable[[_Item, _Answer], None] | None = None,
) -> list[_Answer]:
    """Do some work for each item, a bounded number at a time, and return the answers in the order of the items.

    Args:
        work: What to do; called in several threads.
        items: For what.
        on_done: Called in this thread as each ends. An error of it ends the work like one of ``work``.

    Raises:
        Exception: The first error; what has not begun by then is not done.
    """
    waiting = list(items)
    if WORKERS == 1 or len(waiting) < 2:
        answers = []
        for item in waiting:
            answers.append(work(item))
            if on_done is not None:
                on_done(item, answers[-1])
        return answers
    with ThreadPoolExecutor(min(WORKERS, len(waiting))) as threads:
        futures: list[Future[_Answer]] = []
        numbers: dict[Future[_Answer], int] = {}
        open_: set[Future[_Answer]] = set()
        queue = iter(enumerate(waiting))
        try:
            # Only a few are handed in ahead, so that an error finds little that is already on its way.
            for number, item in queue:
                open_.add(_submitted(threads, work, item, number, futures, numbers))
                if len(open_) >= 2 * WORKERS:
                    open_ = _collect(open_, numbers, waiting, on_done)
            while open_:
                open_ = _collect(open_, numbers, waiting, on_done)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
        return [each.result() for each in futures]


def _submitted(
    threads: ThreadPoolExecutor,
    work: Callable[[_Item], _Answer],
    item: _Item,
    number: int,
    futures: list[Future[_Answer]],
    numbers: dict[Future[_Answer], int],
) -> Future[_Answer]:
    future = threads.submit(work, item)
    futures.append(future)
    numbers[future] = number
    return future


def _collect(
    open_: set[Future[_Answer]],
    numbers: Mapping[Future[_Answer], int],
    items: list[_Item],
    on_done: Callable[[_Item, _Answer], None] | None,
) -> set[Future[_Answer]]:
    done, rest = wait(open_, return_when=FIRST_COMPLETED)
    for each in done:
        answer = each.result()
        if on_done is not None:
            on_done(items[numbers[each]], answer)
    return rest
