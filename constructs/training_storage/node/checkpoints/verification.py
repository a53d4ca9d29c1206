"""Whether what was promoted is still in the lake: by listings, a thousand objects a request, closer where needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from ..aws import Aws
from ..settings import Settings
from . import lake
from .model import Record, RecordedFile
from .records import record_key

Progress = Callable[[dict[str, Any]], None]


def verify(aws: Aws, settings: Settings, record: Record) -> list[str]:
    """Compare a record with the lake.

    An object with the recorded ETag is the object that was verified. One with another ETag, which the same content has
    where it was encrypted or put in parts anew, is looked at: it needs the recorded checksum.

    Args:
        aws: Clients.
        settings: Settings of the agent.
        record: The record.

    Returns:
        What no longer agrees, a line a file; empty where everything does.

    Raises:
        ClientError: S3 refused or failed.
    """
    # Files of one checkpoint lie in one folder, but links can send files and folders to different buckets.
    place = lake.place_of(settings, record.path)
    there = lake.listing(aws, place.bucket, lake.inside(place.key) if record.path else place.key)
    wrong: list[str] = []
    closer: list[RecordedFile] = []
    for each in record.files:
        found = there.get(lake.place_of(settings, each.path).key)
        if found is None:
            wrong.append(f"{each.path} is not there")
        elif found.size != each.size:
            wrong.append(f"{each.path} has {found.size} bytes; {each.size} were verified")
        elif found.etag != each.etag:
            closer.append(each)

    def compare(each: RecordedFile) -> str:
        where = lake.place_of(settings, each.path)
        return _compared(each, lake.look(aws, where.bucket, where.key))

    wrong += [answer for answer in lake.in_parallel(compare, closer) if answer]
    return sorted(wrong)


def verify_all(
    aws: Aws,
    settings: Settings,
    records: Sequence[Record],
    on_progress: Progress = lambda _progress: None,
) -> dict[str, list[str]]:
    """Compare many records with the lake.

    Args:
        aws: Clients.
        settings: Settings of the agent.
        records: The records.
        on_progress: Takes the number of records and files, and how many are done.

    Returns:
        What no longer agrees, by key of the record; a record that agrees has an empty list.

    Raises:
        ClientError: S3 refused or failed.
    """
    total = {"records": len(records), "files": sum(len(each.files) for each in records)}
    done = {"records_done": 0, "files_done": 0}

    def one(record: Record) -> list[str]:
        return verify(aws, settings, record)

    def ended(record: Record, _wrong: list[str]) -> None:
        done["records_done"] += 1
        done["files_done"] += len(record.files)
        on_progress({"state": "verifying", **total, **done})

    answers = lake.in_parallel(one, records, ended)
    return {record_key(record.path, record.fingerprint): wrong for record, wrong in zip(records, answers)}


def _compared(recorded: RecordedFile, found: lake.Seen | None) -> str:
    if found is None:
        return f"{recorded.path} is not there"
    if found.size != recorded.size:
        return f"{recorded.path} has {found.size} bytes; {recorded.size} were verified"
    algorithm, _, value = recorded.checksum.partition("=")
    if not value:
        return f"{recorded.path} is another object than the one that was verified, and has no checksum to compare"
    if found.sums.get(algorithm) != value:
        return f"{recorded.path} is another object than the one that was verified: its {algorithm} differs"
    return ""
