"""The restore drill: every byte is read, by somebody, and memory is not taken for storage."""

from __future__ import annotations

import io
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from training_storage.node.drill import Piece, Reading, read_files, read_objects, resident, share_of


@pytest.mark.parametrize(("readers", "shares"), [(1, 1), (1, 4), (2, 3), (3, 2), (4, 4)])
def test_all_nodes_together_read_every_byte_once_a_replica(readers: int, shares: int) -> None:
    files = [("a", 250), ("b", 99), ("c", 100), ("empty", 0)]
    read: Counter[tuple[str, int]] = Counter()
    for share in range(shares):
        for each in share_of(files, readers=readers, share=share, shares=shares, piece=100):
            read.update((each.path, each.offset + at) for at in range(each.size))
    assert read == Counter({(path, at): readers for path, size in files for at in range(size)})


def test_no_node_reads_a_piece_twice_where_there_are_as_many_nodes_as_replicas() -> None:
    for share in range(3):
        pieces = share_of([("a", 1000)], readers=3, share=share, shares=3, piece=10)
        assert len(set(pieces)) == len(pieces)


def test_a_file_is_read_whole_and_the_rate_is_of_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "shard"
    path.write_bytes(os.urandom(300_000))
    ticks = iter([10.0, 10.5])
    seen: list[int] = []
    pieces = share_of([(str(path), 300_000)], readers=1, share=0, shares=1, piece=70_000)
    found = read_files(pieces, threads=2, clock=lambda: next(ticks), on_bytes=seen.append)
    assert (found.bytes, found.seconds, sum(seen)) == (300_000, 0.5, 300_000)
    assert found.mb_per_s == pytest.approx(0.6)


def test_what_lies_in_memory_is_seen_and_said(tmp_path: Path) -> None:
    path = tmp_path / "shard"
    path.write_bytes(bytes(1 << 20))
    with path.open("rb") as stream:
        stream.read()  # dirty or just read: the pages are there
        assert resident(stream.fileno(), 0, 1 << 20) == 1 << 20
        assert resident(stream.fileno(), 5000, 100) == 100
    # Pages that are not written yet cannot be forgotten, so the reading is one of memory.
    found = read_files([Piece(str(path), 0, 1 << 20)], threads=1)
    assert found.cached_bytes is not None
    assert found.from_memory == (found.cached_bytes > 0.05 * (1 << 20))


@pytest.mark.parametrize(("cached", "warned"), [(None, False), (0, False), (5, False), (6, True), (100, True)])
def test_above_five_percent_the_memory_was_measured(cached: int | None, warned: bool) -> None:
    assert Reading("files", 100, 1.0, cached, 1).from_memory is warned


def test_a_file_that_became_shorter_is_no_restore(tmp_path: Path) -> None:
    path = tmp_path / "shard"
    path.write_bytes(b"12345")
    with pytest.raises(OSError, match="ends after 5 bytes"):
        read_files([Piece(str(path), 0, 6)], threads=1)


class Objects:
    def __init__(self, bodies: dict[str, bytes]) -> None:
        self.bodies = bodies

    def get_object(self, *, Bucket: str, Key: str, Range: str) -> dict[str, Any]:
        first, last = Range.removeprefix("bytes=").split("-")
        return {"Body": io.BytesIO(self.bodies[f"{Bucket}/{Key}"][int(first) : int(last) + 1])}


def test_objects_are_read_in_ranges_and_whole() -> None:
    store = Objects({"lake/checkpoints/a": bytes(250)})
    pieces = share_of([("checkpoints/a", 250)], readers=1, share=0, shares=1, piece=100)
    assert read_objects(lambda _service: store, "lake", pieces).bytes == 250


def test_an_object_that_is_shorter_than_its_record_is_no_restore() -> None:
    store = Objects({"lake/a": bytes(50)})
    with pytest.raises(OSError, match="50 bytes from 0 on, not 51"):
        read_objects(lambda _service: store, "lake", [Piece("a", 0, 51)])
