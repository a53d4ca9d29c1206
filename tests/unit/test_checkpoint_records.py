"""Records and ledgers in the lake."""

from __future__ import annotations

from dataclasses import replace

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.life.fake_aws import FakeAws
from tests.life.faults import Fault, Faulty
from training_storage.node.checkpoints import ledgers, records
from training_storage.node.checkpoints.model import Ledger, Record, RecordedFile
from training_storage.node.checkpoints.names import quoted

LAKE = "lake"
RECORD = Record(
    path="run1/step-300",
    series="run1",
    layout="dcp",
    step=300,
    number=10,
    fingerprint="0123456789abcdef",
    reason="every",
    method="export-task",
    promoted_at="2026-01-01T00:00:00Z",
    metrics={"eval_loss": 1.5},
    files=(
        RecordedFile("run1/step-300/.metadata", 6, 1_700_000_000_000_000_001, "e1", "v1", "CRC64NVME=AAA="),
        RecordedFile("run1/step-300/__0_0.distcp", 5, 1_700_000_000_000_000_000, "e2"),
    ),
)
KEY = ".training-storage/checkpoints/records/run1/step-300@0123456789abcdef.jsonl"


def lake() -> FakeAws:
    aws = FakeAws()
    aws.s3.make(LAKE)
    return aws


def test_record_is_lines_that_people_can_read() -> None:
    aws = lake()
    assert records.write(aws, LAKE, RECORD)
    lines = aws.s3.content(LAKE)[KEY].decode().splitlines()
    assert len(lines) == 3
    assert '"path": "run1/step-300"' in lines[0]
    assert '"bytes": 11' in lines[0]
    assert lines[2].startswith('{"path": "run1/step-300/__0_0.distcp", "size": 5, "modified_ns": 1700000000000000000')
    assert records.read_all(aws, LAKE) == [RECORD]


def test_record_is_written_once() -> None:
    aws = lake()
    assert records.write(aws, LAKE, RECORD)
    assert not records.write(aws, LAKE, replace(RECORD, promoted_at="later"))
    assert records.read_all(aws, LAKE) == [RECORD]


def test_record_of_a_promotion_after_a_loss_replaces_the_first() -> None:
    aws = lake()
    records.write(aws, LAKE, RECORD)
    again = replace(RECORD, files=tuple(replace(each, etag="new") for each in RECORD.files))
    assert records.write(aws, LAKE, again)
    assert records.read_all(aws, LAKE) == [again]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "unpack"),
        (b"{}\n", "KeyError"),
        (b"\xff\xfe", "utf-8"),
        (b"[1]\n", "TypeError"),
        (records.encode(RECORD)[:-20], ""),
        (records.encode(RECORD).rsplit(b"\n", 2)[0] + b"\n", "1 files with 6 bytes; the first line says 2"),
        (records.encode(RECORD).replace(b'"format": 1', b'"format": 2'), "newer version"),
        (records.encode(RECORD).replace(b'"number": 10', b'"number": "x"'), "is no number"),
        (records.encode(replace(RECORD, path="other")), "it is the record of 'other'"),
    ],
)
def test_damaged_record_is_named_and_never_silently_dropped(content: bytes, words: str) -> None:
    aws = lake()
    good = replace(RECORD, path="run1/step-400")
    records.write(aws, LAKE, good)
    aws("s3").put_object(Bucket=LAKE, Key=KEY, Body=content)
    with pytest.raises(records.RecordDamagedError, match="cannot be read") as caught:
        records.read_all(aws, LAKE)
    assert caught.value.keys == (KEY,)
    assert words in str(caught.value)
    damaged: list[str] = []
    assert records.read_all(aws, LAKE, damaged=damaged) == [good]
    assert damaged == [KEY]
    # The next promotion of the same files heals it.
    assert records.write(aws, LAKE, RECORD)
    assert records.read_all(aws, LAKE) == sorted([RECORD, good], key=lambda each: each.path)


def test_many_records_are_read_page_by_page() -> None:
    aws = lake()
    many = [replace(RECORD, path=f"run1/step-{step:05d}") for step in range(1010)]
    for each in many:
        records.write(aws, LAKE, each)
    assert records.read_all(aws, LAKE) == many
    assert records.read_all(lake(), LAKE) == []


TEXT = st.text(st.characters(min_codepoint=1, codec=None, exclude_characters="\0"), max_size=30)


@given(path=st.lists(TEXT.filter(lambda each: each and "/" not in each), min_size=1, max_size=4), long=st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_path_has_a_key_and_comes_back(path: list[str], long: bool) -> None:
    name = "/".join(path).encode("utf-8", "replace").decode() + ("/" + "ä" * 300 if long else "")
    record = replace(RECORD, path=name, series="/".join(path[:-1]).encode("utf-8", "replace").decode())
    key = records.record_key(name, record.fingerprint)
    assert len(key.encode()) <= 1024
    assert records.decode(records.encode(record)) == record
    ledger = Ledger(record.series, {f"{name}@0123456789abcdef": 1}, 1, {name: "0123456789abcdef"})
    assert ledgers.decode(ledgers.encode(ledger)) == ledger


def test_names_that_are_no_utf8_come_back() -> None:
    path = b"run/caf\xe9".decode("utf-8", "surrogateescape")
    assert quoted(path) == "run/caf%E9"
    record = replace(RECORD, path=path)
    aws = lake()
    records.write(aws, LAKE, record)
    assert records.read_all(aws, LAKE) == [record]
    assert quoted("a@b c") == "a%40b%20c"
    assert quoted("x" * 2000) != quoted("x" * 2001)


# -- ledgers


def test_ledger_is_replaced_on_condition_only() -> None:
    aws = lake()
    first = ledgers.write(aws, LAKE, Ledger("run1", {"run1/step-1@a": 1}, 1))
    assert ledgers.read_all(aws, LAKE) == {"run1": first}
    second = ledgers.write(aws, LAKE, replace(first, last=2))
    assert second.etag != first.etag
    with pytest.raises(ledgers.LedgerTaken, match="has changed since it was read"):
        ledgers.write(aws, LAKE, replace(first, last=3))
    with pytest.raises(ledgers.LedgerTaken):
        ledgers.write(aws, LAKE, Ledger("run1", {}, 9))
    assert ledgers.read_all(aws, LAKE)["run1"].last == 2


def test_ledger_that_is_gone_is_taken() -> None:
    aws = lake()
    first = ledgers.write(aws, LAKE, Ledger("run1", {}, 1))
    aws("s3").delete_object(Bucket=LAKE, Key=ledgers.ledger_key("run1"))
    with pytest.raises(ledgers.LedgerTaken):
        ledgers.write(aws, LAKE, replace(first, last=2))


def test_ledger_write_whose_answer_was_lost_is_recognised() -> None:
    aws = lake()
    ledger = Ledger("run1", {"run1/step-1@a": 1}, 1)
    with pytest.raises(Exception, match="Read timeout"):
        ledgers.write(Faulty(aws, Fault(0, "timeout-after")), LAKE, ledger)
    assert ledgers.write(aws, LAKE, ledger) == ledgers.read_all(aws, LAKE)["run1"]


def test_ledger_of_the_root_has_a_key_of_its_own() -> None:
    assert ledgers.ledger_key("") == ".training-storage/checkpoints/ledgers/@root.json"
    assert ledgers.ledger_key("@root") != ledgers.ledger_key("")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "Expecting"),
        (b"[]", "TypeError"),
        (b'{"format": 1}', "KeyError"),
        (b'{"format": 9}', "newer version"),
        (b'{"format": 1, "series": "run1", "numbers": {"a": 5}, "last": 4, "pruning": {}}', "last is 4, but 5"),
        (b'{"format": 1, "series": "run1", "numbers": {"a": "5"}, "last": 4, "pruning": {}}', "is no int"),
        (b'{"format": 1, "series": "run2", "numbers": {}, "last": 4, "pruning": {}}', "ledger of 'run2'"),
    ],
)
def test_damaged_ledger_stops_everything(content: bytes, words: str) -> None:
    aws = lake()
    aws("s3").put_object(Bucket=LAKE, Key=ledgers.ledger_key("run1"), Body=content)
    with pytest.raises(ledgers.LedgerDamagedError, match=r"ledgers/run1\.json cannot be read") as caught:
        ledgers.read_all(aws, LAKE)
    assert words in str(caught.value)


@pytest.mark.parametrize("what", ["records", "ledgers"])
def test_refusals_of_s3_are_told(what: str) -> None:
    aws = Faulty(lake(), Fault(0, "denied"))
    with pytest.raises(ClientError, match="AccessDenied"):
        (records.read_all if what == "records" else ledgers.read_all)(aws, LAKE)
    with pytest.raises(ClientError, match="AccessDenied"):
        records.write(Faulty(lake(), Fault(0, "denied")), LAKE, RECORD)
    with pytest.raises(ClientError, match="AccessDenied"):
        ledgers.write(Faulty(lake(), Fault(0, "denied")), LAKE, Ledger("x"))
