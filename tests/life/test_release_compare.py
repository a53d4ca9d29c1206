"""A file and its object: there, of the same size, and made of the file as it is."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from tests.life.fake_aws import FakeAws
from training_storage.node.release.compare import Entry, ManifestChangedError, compare, compare_part, look

NOW = 1_800_000_000


def _look(size: int, mtime_ns: int, metadata: dict[str, str] | None) -> str:
    aws = FakeAws()
    aws.s3.make("lake")
    if metadata is not None:
        aws.s3.put_object(Bucket="lake", Key="a", Body=b"1234", Metadata=metadata)
    return look(aws, Entry("/fsx/a", "lake", "a", size, mtime_ns)).wrong


@pytest.mark.parametrize(
    ("size", "mtime_ns", "metadata", "wrong"),
    [
        (4, NOW * 10**9 - 1, {}, ""),
        (4, (NOW + 4) * 10**9, {}, ""),  # clocks are not exact
        (4, (NOW + 6) * 10**9, {}, "is older than the file"),
        (5, NOW * 10**9, {}, "has 4 bytes, the file 5"),
        (4, NOW * 10**9, None, "is not there"),
        (4, 17, {"file-mtime": "17ns"}, ""),
        (4, (NOW + 600) * 10**9, {"file-mtime": f"{(NOW + 600) * 10**9}ns"}, ""),  # a clock of a client that is ahead
        (4, 1_500_000_001, {"file-mtime": "1500000002ns"}, "another version"),
        (4, 1_500_000_001, {"file-mtime": "1000000000ns"}, ""),  # a server that keeps whole seconds
        (4, 2_500_000_001, {"file-mtime": "1000000000ns"}, "another version"),
        (4, NOW * 10**9, {"file-mtime": "yesterday"}, ""),  # of somebody else: the object's own time counts
    ],
)
def test_an_object_agrees_with_its_file(size: int, mtime_ns: int, metadata: dict[str, str] | None, wrong: str) -> None:
    told = _look(size, mtime_ns, metadata)
    assert wrong in told
    assert bool(told) == bool(wrong)


def _part(aws: FakeAws, count: int) -> dict[str, Any]:
    lines = []
    for number in range(count):
        aws.s3.put_object(Bucket="lake", Key=f"k{number}", Body=b"1234")
        lines.append(
            json.dumps({"path": f"/fsx/{number}", "bucket": "lake", "key": f"k{number}", "size": 4, "mtime_ns": 1})
        )
    body = ("\n".join(lines) + "\n").encode()
    aws.s3.put_object(Bucket="lake", Key="part", Body=body)
    return {"key": "part", "sha256": hashlib.sha256(body).hexdigest(), "files": count}


def test_a_part_is_compared_by_many_at_once_and_disagreements_are_named() -> None:
    aws = FakeAws()
    aws.s3.make("lake")
    part = _part(aws, 100)
    for number in range(30, 60):
        aws.s3.delete_object(Bucket="lake", Key=f"k{number}")
    seen = compare_part(aws, "lake", part)
    assert (seen.files, seen.bytes, seen.wrong) == (70, 280, 30)
    assert list(seen.named) == [f"/fsx/{number}" for number in range(30, 50)]
    assert compare(aws, []).files == 0


@pytest.mark.parametrize("how", ["longer", "other", "lost"])
def test_a_part_that_is_not_what_the_index_says_proves_nothing(how: str) -> None:
    aws = FakeAws()
    aws.s3.make("lake")
    part = _part(aws, 3)
    body = aws.s3.content("lake")["part"]
    if how == "lost":
        aws.s3.delete_object(Bucket="lake", Key="part")
    else:
        aws.s3.put_object(Bucket="lake", Key="part", Body=body + body[:0] + (b"\n" if how == "longer" else b""))
        part = {**part, **({"files": 2} if how == "other" else {})}
    with pytest.raises(ManifestChangedError):
        compare_part(aws, "lake", part)
