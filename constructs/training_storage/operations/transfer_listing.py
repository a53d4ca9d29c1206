"""Listings of both sides: read ahead in a thread of their own, and never held as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from queue import Empty, Full, Queue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from training_storage.errors import AwsError, RefusedError
from training_storage.node.sharding import bucket_index
from training_storage.operations.aws import aws_errors
from training_storage.operations.transfer_errors import judge
from training_storage.operations.transfer_index import TransferIndex
from training_storage.operations.transfer_model import OWN_PREFIX, Entry, Failure, Location, Route
from training_storage.operations.transfer_pools import PartThreads

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

PAGES_AHEAD: Final = 100
"""Pages of 1,000 objects that may wait: about 40 MB, and a total that is known early for most transfers."""
_STOP_S: Final = 2.0
_WAKE_S: Final = 10.0
_WAKE_TRIES: Final = 30


class Page(NamedTuple):
    """What one page of the listing of the source means.

    Attributes:
        entries: Objects to look after.
        listed: Objects of the page.
        listed_bytes: Their bytes.
        known: Objects that nothing is to be done for.
        known_bytes: Their bytes.
        failures: Objects that can't be looked after.
        more: Whether another page follows.
    """

    entries: list[Entry]
    listed: int
    listed_bytes: int
    known: int
    known_bytes: int
    failures: list[Failure]
    more: bool


def check_places(
    client: S3Client, route: Route, *, note: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
) -> None:
    """See that every bucket exists and answers; a directory bucket that sleeps is waited for.

    Raises:
        RefusedError: A bucket does not exist, or does not wake up.
        AwsError: AWS refused or failed.
    """
    for place in (*route.sources, *route.destinations):
        for attempt in range(_WAKE_TRIES):
            try:
                client.list_objects_v2(Bucket=place.bucket, Prefix=place.prefix, MaxKeys=1)
                break
            except (ClientError, BotoCoreError) as error:
                verdict = judge(error)
                if verdict.code in ("NoSuchBucket", "404"):
                    raise RefusedError(
                        f"bucket {place.bucket} does not exist; fix: check its name and --region"
                    ) from error
                if verdict.meaning == "stop" and verdict.code:
                    raise AwsError(
                        f"bucket {place.bucket}: {verdict.reason}", operation="ListObjectsV2", code=verdict.code
                    ) from error
                if not verdict.slow or attempt + 1 == _WAKE_TRIES:
                    with aws_errors("ListObjectsV2"):
                        raise
                if attempt == 0:
                    note(
                        f"bucket {place.bucket} answers 503: a directory bucket that had no request for 90 days "
                        f"wakes up within minutes; waiting for up to {_WAKE_S * _WAKE_TRIES / 60:.0f} minutes"
                    )
                sleep(_WAKE_S)


def list_objects(client: S3Client, place: Location) -> Iterator[tuple[list[Mapping[str, Any]], bool]]:
    """Yield the objects of a place page by page, each with whether more follow; what is this product's own is left out.

    Raises:
        AwsError: AWS refused or failed.
    """
    request: dict[str, Any] = {"Bucket": place.bucket, "Prefix": place.prefix}
    while True:
        with aws_errors("ListObjectsV2"):
            page: Mapping[str, Any] = client.list_objects_v2(**request)
        more = bool(page.get("IsTruncated"))
        yield [item for item in page.get("Contents", ()) if not item["Key"].startswith(OWN_PREFIX)], more
        if not more:
            return
        request["ContinuationToken"] = page["NextContinuationToken"]


def index_destinations(client: S3Client, route: Route, index: TransferIndex) -> None:
    """Note what the destinations hold.

    Raises:
        AwsError: AWS refused or failed.
    """

    def note(number: int, place: Location, items: list[Mapping[str, Any]]) -> None:
        found = [(item["Key"].removeprefix(place.prefix), item["Size"], item["ETag"].strip('"')) for item in items]
        # Of several buckets each holds its own share of the keys; anything else there is none of ours.
        index.there(each for each in found if route.target(each[0])[0] == number)

    _read_all(client, route.destinations, note)


def index_sources(client: S3Client, route: Route, index: TransferIndex) -> None:
    """Note which of several sources hold a key, so that one speaks for it whatever the order of the listings.

    Raises:
        AwsError: AWS refused or failed.
    """
    count = len(route.sources)

    def note(number: int, place: Location, items: list[Mapping[str, Any]]) -> None:
        keys = [str(item["Key"]) for item in items]
        index.held(number, ((key.removeprefix(place.prefix), bucket_index(key, count) == number) for key in keys))

    if count > 1:
        _read_all(client, route.sources, note)


def _read_all(
    client: S3Client, places: Sequence[Location], note: Callable[[int, Location, list[Mapping[str, Any]]], None]
) -> None:
    """Read several places beside each other; ``note`` is called by one thread at a time."""
    lock, stopped = Lock(), Event()

    def read(number: int) -> None:
        for items, _ in list_objects(client, places[number]):
            with lock:
                if stopped.is_set():
                    return
                note(number, places[number], items)

    readers = PartThreads(min(8, len(places)))  # an interrupted process does not wait for these
    try:
        for _ in readers.in_order(read, range(len(places))):
            pass
    finally:
        stopped.set()
        readers.shutdown(wait=False)


class SourceReader:
    """Reads the source ahead, and says what is to be done for each object.

    Args:
        client: Client of the region.
        route: From where to where.
        index: What is known; no other thread may use it any more.
        with_known: Hand out verified objects as well: they are to be removed.
    """

    def __init__(self, client: S3Client, route: Route, index: TransferIndex, *, with_known: bool = False) -> None:
        self._client = client
        self._route = route
        self._index = index
        self._with_known = with_known
        self._pages: Queue[Page | BaseException] = Queue(PAGES_AHEAD)
        self._stopped = Event()
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def take(self, timeout: float) -> Page | None:
        """Return the next page, None where there is none yet.

        Raises:
            AwsError: AWS refused or failed.
        """
        try:
            page = self._pages.get(timeout=timeout) if timeout else self._pages.get_nowait()
        except Empty:
            return None
        if isinstance(page, BaseException):
            raise page
        return page

    def stop(self) -> None:
        """Read no further."""
        self._stopped.set()
        self._thread.join(_STOP_S)  # it may wait for an answer, and holds nothing that must be kept

    def _read(self) -> None:
        try:
            last = len(self._route.sources) - 1
            for number, place in enumerate(self._route.sources):
                for items, more in list_objects(self._client, place):
                    self._put(self._sort(number, items, more=more or number < last))
                    if self._stopped.is_set():
                        return
        except BaseException as error:  # raised again by whoever reads
            self._put(error)

    def _put(self, page: Page | BaseException) -> None:
        while not self._stopped.is_set():
            with suppress(Full):
                self._pages.put(page, timeout=0.2)
                return

    def _sort(self, number: int, items: list[Mapping[str, Any]], *, more: bool) -> Page:
        place = self._route.sources[number]
        entries: list[Entry] = []
        failures: list[Failure] = []
        known = known_bytes = marks = 0
        for item in items:
            relative, size, etag = item["Key"].removeprefix(place.prefix), item["Size"], item["ETag"].strip('"')
            uri = f"s3://{place.bucket}/{item['Key']}"
            holder, holders = self._index.holder(relative, number) if len(self._route.sources) > 1 else (number, 1)
            if holder != number:
                other = self._route.sources[holder].bucket
                reason = f"another of the buckets holds the same key, {other}; fix: remove the one that is wrong"
                failures.append(Failure(uri, reason, "", "failed"))
                continue
            key = self._route.target(relative)[1]
            if not key:
                # The mark of the folder that is copied, which has no name in the root of a bucket.
                if size:
                    reason = "it would have no name there; fix: give a prefix in --to"
                    failures.append(Failure(uri, reason, "", "failed"))
                else:
                    marks += 1
                continue
            if key.startswith(OWN_PREFIX):
                reason = f"it would lie below {OWN_PREFIX}, where this product keeps its own; fix: give another prefix"
                failures.append(Failure(uri, reason, "", "failed"))
                continue
            there, mark = self._index.state(relative, size, etag)
            if mark and not self._with_known:
                known += 1
                known_bytes += size
                continue
            has_sum = bool(item.get("ChecksumAlgorithm"))
            entries.append(Entry(number, relative, size, etag, there, mark, has_sum, keep=holders > 1))
        listed_bytes = sum(item["Size"] for item in items)
        return Page(entries, len(items) - marks, listed_bytes, known, known_bytes, failures, more)
