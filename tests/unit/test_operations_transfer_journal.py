"""The journal of a transfer: where it lies, when it is written, what other runs are, and the index of what is known."""

from __future__ import annotations

import gzip
import json
import os
import socket
from datetime import timedelta
from typing import Any

import pytest

from tests.unit._fake_s3 import FakeS3, crc32, error
from training_storage.errors import AwsError, RefusedError
from training_storage.operations.transfer import transfer
from training_storage.operations.transfer_index import TransferIndex
from training_storage.operations.transfer_journal import ALIVE_S, FLUSH_RECORDS, FLUSH_S, HEARTBEAT_S, Journal, Upload
from training_storage.operations.transfer_model import Location, Options, Outcome, Report, Route

LAKE, HOT = "lake", "hot--use1-az6--x-s3"
STAGE = Route((Location(bucket=LAKE, prefix="data/"),), (Location(bucket=HOT, prefix="data/"),))
ARCHIVE = Route(STAGE.destinations, STAGE.sources)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def s3() -> FakeS3:
    return FakeS3(LAKE, HOT, encrypted=(LAKE,))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def journal(s3: Any, clock: Clock | None = None) -> Journal:
    return Journal(s3, LAKE, "id", clock=clock or Clock())


def outcome(name: str, etag: str = "e", copy_etag: str = "c") -> Outcome:
    return Outcome(0, name, 7, etag, "verified", copied=True, proof="checksum", copy_etag=copy_etag)


def segments(s3: FakeS3, bucket: str = LAKE) -> list[list[Any]]:
    return [
        [json.loads(line) for line in gzip.decompress(item.body).splitlines()]
        for key, item in sorted(s3.buckets[bucket].items())
        if "/segments/" in key
    ]


def run(s3: FakeS3, route: Route = STAGE, **options: Any) -> Report:
    return transfer(s3, route, Options(processes=1, concurrency=2, **options), sleep=lambda _: None)


# Where it lies


@pytest.mark.parametrize("route", [STAGE, ARCHIVE])
def test_it_lies_in_the_lake_in_both_directions(s3: FakeS3, route: Route) -> None:
    assert run(s3, route).journal == f"s3://lake/.training-storage/transfers/{route.transfer_id}/"


def test_between_two_lakes_it_lies_at_the_destination() -> None:
    s3 = FakeS3("one", "two")
    route = Route((Location(bucket="one", prefix="data/"),), (Location(bucket="two", prefix="data/"),))
    assert run(s3, route).journal.startswith("s3://two/")


def test_where_the_lake_takes_none_it_lies_in_the_directory_bucket(s3: FakeS3) -> None:
    s3.put(LAKE, "data/one", b"1")

    def deny(**asked: Any) -> None:
        if asked["Bucket"] == LAKE:
            raise error("AccessDenied", 403, "PutObject")

    s3.always["PutObject"] = deny
    assert run(s3).journal.startswith(f"s3://{HOT}/.training-storage/transfers/")
    assert run(s3).known == 1


def test_where_no_bucket_takes_it_the_rights_are_named(s3: FakeS3) -> None:
    s3.fail("PutObject", *[error("AccessDenied", 403, "PutObject")] * 2)
    with pytest.raises(AwsError, match=r"no bucket takes the journal.*s3:PutObject"):
        run(s3)


def test_it_is_never_copied_nor_removed(s3: FakeS3) -> None:
    s3.put(LAKE, "data/one", b"1")
    run(s3)
    before = {key for key in s3.buckets[LAKE] if key.startswith(".training-storage/")}
    whole = Route((Location(bucket=LAKE),), (Location(bucket=HOT),))
    assert run(s3, whole, remove=True).listed == 1
    assert before <= set(s3.buckets[LAKE])
    assert not any(key.startswith(".") for key in s3.buckets[HOT])


def test_nothing_in_it_is_ever_deleted(s3: FakeS3) -> None:
    s3.put(LAKE, "data/one", b"1")
    run(s3)
    run(s3)
    assert s3.count("DeleteObject") == 0


def test_the_id_is_that_of_the_places() -> None:
    assert STAGE.transfer_id == Route(STAGE.sources, STAGE.destinations).transfer_id
    others = [ARCHIVE, Route((Location(bucket=LAKE, prefix="raw/"),), STAGE.destinations)]
    assert len({route.transfer_id for route in (STAGE, *others)}) == 3


# When it is written


def test_verified_objects_are_written_after_a_while_and_not_one_by_one(s3: FakeS3, clock: Clock) -> None:
    kept = journal(s3, clock)
    for number in range(50):
        kept.verified(outcome(f"{number}"))
        kept.tick()
    assert segments(s3) == []
    clock.now += FLUSH_S
    kept.tick()
    assert [len(lines) for lines in segments(s3)] == [50]


def test_many_verified_objects_are_written_at_once(s3: FakeS3, clock: Clock) -> None:
    kept = journal(s3, clock)
    for number in range(FLUSH_RECORDS):
        kept.verified(outcome(f"{number}"))
    kept.tick()
    assert [len(lines) for lines in segments(s3)] == [FLUSH_RECORDS]


def test_an_upload_is_written_down_before_it_is_made_and_when_its_id_is_known(s3: FakeS3) -> None:
    kept = journal(s3)
    upload = Upload(HOT, "data/large", "e", 45, 10, "")
    kept.intend(upload)
    kept.begun(upload._replace(upload_id="u1"))
    assert segments(s3) == [
        [["i", HOT, "data/large", "e", 45, 10]],
        [["b", HOT, "data/large", "e", 45, 10, "u1"]],
    ]


def test_what_is_read_is_what_was_written(s3: FakeS3) -> None:
    first = journal(s3)
    first.verified(outcome("ü +%"))
    first.begun(Upload(HOT, "data/a", "e", 45, 10, "u1"))
    first.begun(Upload(HOT, "data/b", "e", 45, 10, "u2"))
    first.ended(Upload(HOT, "data/b", "e", 45, 10, "u2"))
    first.close("finished")
    second = journal(s3)
    assert [tuple(known) for known in second.known()] == [("ü +%", 7, "e", "c", "checksum")]
    assert [upload.upload_id for upload in second.left] == ["u1"]


def test_a_later_record_of_an_object_comes_later(s3: FakeS3, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, etag in enumerate(("old", "new")):
        kept = journal(s3)
        kept.run_id = f"2026010{number + 1}T000000Z-00000000"
        kept.verified(outcome("one", etag))
        kept.flush()
    assert [known.etag for known in journal(s3).known()] == ["old", "new"]


# What somebody else wrote there, or half of it


def journal_key(s3: FakeS3, name: str) -> str:
    return f".training-storage/transfers/{STAGE.transfer_id}/segments/{name}"


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: body[: len(body) // 2],
        lambda body: b"",
        lambda body: b"not ours",
        lambda body: body[:20] + bytes(8) + body[28:],
        lambda body: gzip.compress(b"no json\n"),
        lambda body: gzip.compress(b"\xff\xfe\n"),
    ],
    ids=["cut", "empty", "foreign", "a flipped block", "no json", "no text"],
)
def test_a_segment_that_cannot_be_read_is_named_and_its_objects_are_compared(s3: FakeS3, damage: Any) -> None:
    for number in range(50):
        body = f"{number}".encode()
        s3.put(LAKE, f"data/{number}", body, sums={"CRC32": crc32(body)})
    run(s3)
    (key,) = [key for key in s3.buckets[LAKE] if "/segments/" in key]
    s3.put(LAKE, key, damage(s3.buckets[LAKE][key].body))
    report = run(s3)
    assert (report.copied, report.known + report.present, report.is_clean) == (0, 50, True)
    assert "1 parts of the journal" in report.notes[0]


@pytest.mark.parametrize("lines", [
    [["v"], ["v", 1, "x", None, {}], ["v", "one", "1", "e", "c", "p"], ["w", "one"], {}, None, 7, "v"],
    [["i", HOT], ["b", HOT, "data/one", "e", 10, 0, "id"], ["b", HOT, "data/one", "e", 10**15, 1, "id"]],
    [["b", "their-bucket", "data/one", "e", 10, 5, "id"], ["b", HOT, "elsewhere/one", "e", 10, 5, "id"]],
    [["e", HOT, "data/one"], ["e", 1, 2, 3], []],
])  # fmt: skip
def test_records_that_are_none_of_ours_are_passed_over(s3: FakeS3, lines: Any) -> None:
    s3.put(LAKE, "data/one", b"1", sums={"CRC32": crc32(b"1")})
    text = "\n".join(map(json.dumps, lines)).encode()
    s3.put(LAKE, journal_key(s3, "20260101T000000Z-0-000001.jsonl.gz"), gzip.compress(text))
    report = run(s3)
    assert (report.copied, report.is_clean, report.notes) == (1, True, [])
    assert s3.count("AbortMultipartUpload") == 0


def test_a_segment_that_a_lifecycle_rule_archived_is_compared(s3: FakeS3) -> None:
    s3.put(LAKE, "data/one", b"1", sums={"CRC32": crc32(b"1")})
    run(s3)
    s3.fail("GetObject", error("InvalidObjectState", 403), error("InvalidObjectState", 403))
    assert run(s3).present == 1


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b"null", b"{}", b'{"state": "running"}', b"\xff"])
def test_a_record_of_a_run_that_is_none_ends_nothing(s3: FakeS3, body: bytes) -> None:
    s3.put(LAKE, f".training-storage/transfers/{STAGE.transfer_id}/runs/x.json", body)
    assert run(s3).is_clean


def test_two_uploads_of_one_run_and_key_are_both_remembered(s3: FakeS3) -> None:
    first = journal(s3)
    for upload_id in ("u1", "u2"):
        first.intend(Upload(HOT, "data/a", "e", 45, 10, ""))
        first.begun(Upload(HOT, "data/a", "e", 45, 10, upload_id))
    second = journal(s3)
    list(second.known())
    assert [upload.upload_id for upload in second.left] == ["u1", "u2"]


def test_what_is_to_be_read_is_known_only_where_it_was_read(s3: FakeS3) -> None:
    s3.put(LAKE, "data/one", b"1", sums={"CRC32": crc32(b"1")})
    assert run(s3).proofs == {"checksum": 1}
    report = run(s3, verify="read")
    assert (report.copied, report.proofs) == (0, {"read": 1})
    assert (run(s3, verify="read").known, run(s3).known) == (1, 1)


# Other runs


def other_run(s3: FakeS3, *, age: float = 0.0, **said: Any) -> None:
    told = {"state": "running", "host": "elsewhere", "pid": 1, "began": "1"} | said
    s3.put_object(Bucket=LAKE, Key=f".training-storage/transfers/{STAGE.transfer_id}/runs/other.json",
                  Body=json.dumps(told).encode())  # fmt: skip
    s3.now += timedelta(seconds=age)


def test_another_run_at_work_is_said(s3: FakeS3) -> None:
    other_run(s3, age=ALIVE_S / 2)
    (note,) = run(s3).notes
    assert "another run of this transfer is at work on elsewhere" in note


@pytest.mark.parametrize(
    ("age", "said"),
    [(2 * ALIVE_S, {}), (0, {"state": "finished"}), (0, {"state": "interrupted"})],
    ids=["long ago", "finished", "interrupted"],
)
def test_a_run_that_ended_is_not(s3: FakeS3, age: float, said: dict[str, Any]) -> None:
    other_run(s3, age=age, **said)
    assert run(s3).notes == []


def test_a_run_of_this_machine_that_was_killed_is_not(s3: FakeS3) -> None:
    other_run(s3, host=socket.gethostname(), pid=os.getpid(), began="not when this one began")
    assert run(s3).notes == []


def test_a_run_says_that_it_is_alive_and_that_it_has_ended(s3: FakeS3, clock: Clock) -> None:
    kept = journal(s3, clock)
    kept.start()
    clock.now += HEARTBEAT_S
    kept.tick()
    assert s3.count("PutObject") == 2
    kept.close("interrupted")
    (record,) = [item for key, item in s3.buckets[LAKE].items() if "/runs/" in key]
    assert json.loads(record.body)["state"] == "interrupted"


def test_uploads_of_a_run_at_work_are_left_to_it(s3: FakeS3) -> None:
    other = Journal(s3, LAKE, STAGE.transfer_id)  # type: ignore[arg-type]
    other.run_id = "other"
    other.begun(Upload(HOT, "data/large", "e", 45, 10, "u1"))
    other_run(s3)
    mine = Journal(s3, LAKE, STAGE.transfer_id)  # type: ignore[arg-type]
    mine.start()
    assert list(mine.known()) == []
    assert mine.left == []


# The index


def test_the_index_knows_what_is_verified_on_both_sides() -> None:
    index = TransferIndex()
    index.verified([("same", 7, "e", "c"), ("expired", 7, "e", "c"), ("overwritten", 7, "e", "c")])
    index.there([("same", 7, "c"), ("overwritten", 8, "x"), ("stranger", 7, "c")])
    assert index.state("same", 7, "e")[0]
    assert index.state("same", 7, "e")[1]
    assert index.state("same", 7, "changed") == (True, "")
    assert index.state("expired", 7, "e") == (False, "")
    assert index.state("overwritten", 7, "e") == (True, "")
    assert index.state("stranger", 7, "e") == (True, "")
    assert index.state("unknown", 7, "e") == (False, "")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_of_several_sources_that_hold_a_key_the_right_one_speaks_for_it_or_else_the_first(order: Any) -> None:
    index = TransferIndex()
    held = {0: [("no right one", False), ("both", False)], 1: [("both", True), ("one", True)],
            2: [("no right one", False), ("both", False)]}  # fmt: skip
    for number in order:
        index.held(number, held[number])
    assert [index.holder(key, 2) for key in ("no right one", "both", "one", "new")] == [(0, 2), (1, 3), (1, 1), (2, 1)]


def test_a_temporary_file_without_room_is_refused_with_the_way_out() -> None:
    index = TransferIndex()
    index._database.execute("PRAGMA max_page_count=20")
    with pytest.raises(RefusedError, match=r"temporary file.*TMPDIR"):
        index.verified((f"{number}", 1, f"{number}", f"{number}") for number in range(50_000))


def test_the_index_takes_less_than_64_bytes_an_object() -> None:
    index = TransferIndex()
    for start in range(0, 20_000, 1000):
        index.verified(
            (f"datasets/v3/shard-{n:06d}.tar", n, f"{n:032x}", f"{n + 1:032x}") for n in range(start, start + 1000)
        )
    database = index._database
    pages, size = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    assert pages * size / 20_000 < 64
