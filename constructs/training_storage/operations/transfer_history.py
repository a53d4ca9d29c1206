"""What earlier runs of a transfer have left: where their journal lies, and what it teaches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from training_storage.errors import AwsError
from training_storage.operations.transfer_index import TransferIndex
from training_storage.operations.transfer_journal import Journal, Known
from training_storage.operations.transfer_model import Route

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_DENIED = ("AccessDenied", "403")


def open_journal(client: S3Client, route: Route, note: Callable[[str], None]) -> Journal:
    """Open the journal in the lake: the first general purpose bucket that takes it, or else a directory bucket.

    Raises:
        AwsError: No bucket takes it, or AWS failed.
    """
    refused: AwsError | None = None
    for journal in _places(client, route):
        try:
            others = journal.start()
        except AwsError as error:
            if error.code not in _DENIED:
                raise
            refused = error
            continue
        for other in others:
            note(
                f"another run of this transfer is at work on {other.host} ({other.run_id}): both go on and end right, "
                "but some objects may be copied twice"
            )
        return journal
    assert refused is not None  # noqa: S101 - there is at least one bucket
    raise AwsError(
        f"no bucket takes the journal of the transfer: {refused}; fix: allow s3:PutObject, s3:GetObject and "
        "s3:ListBucket for .training-storage/transfers/ in the data lake",
        operation=refused.operation,
        code=refused.code,
    ) from refused


def find_journal(client: S3Client, route: Route, note: Callable[[str], None]) -> Journal | None:
    """Return the journal of earlier runs, and write nothing; None where there is none that this caller may read.

    Raises:
        AwsError: AWS failed.
    """
    for journal in _places(client, route):
        try:
            if journal.exists():
                return journal
        except AwsError as error:
            if error.code not in _DENIED:
                raise
            note(f"the journal {journal.uri} can't be read: what is verified already is not known")
    return None


def learn(journal: Journal, index: TransferIndex, note: Callable[[str], None], *, read_alone: bool) -> None:
    """Note what earlier runs have verified.

    Args:
        journal: Their journal; its ``left`` is known afterwards.
        index: Where it is noted.
        note: Called with what can't be read.
        read_alone: Only what was proved by reading counts.

    Raises:
        RefusedError: There is no room for the temporary file.
        AwsError: AWS refused or failed.
    """
    for some in _in_thousands(journal.known()):
        index.verified(known[:4] for known in some if known.proof == "read" or not read_alone)
    if journal.damaged:
        note(
            f"{len(journal.damaged)} parts of the journal {journal.uri} can't be read; what they told is compared anew"
        )


def _places(client: S3Client, route: Route) -> Iterator[Journal]:
    buckets = [place.bucket for place in (*route.destinations, *route.sources)]
    buckets.sort(key=lambda bucket: bucket.endswith("--x-s3"))
    for bucket in dict.fromkeys(buckets):
        yield Journal(client, bucket, route.transfer_id)


def _in_thousands(known: Iterator[Known]) -> Iterator[list[Known]]:
    while some := list(islice(known, 1000)):
        yield some
