"""Objects change, vanish and are overwritten between any two requests, and requests fail: nothing is ever lost."""

from __future__ import annotations

import random
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.unit._fake_s3 import FakeS3, crc32, error
from training_storage.errors import TrainingStorageError
from training_storage.operations.transfer import transfer
from training_storage.operations.transfer_model import VERIFY, Limits, Location, Options, Report, Route

LAKE, OTHER, HOT = "lake", "other-lake", "hot--use1-az6--x-s3"
FAILURES = (
    ("SlowDown", 503),
    ("InternalError", 500),
    ("AccessDenied", 403),
    ("ConditionalRequestConflict", 409),
)
MUTATED = (
    "CopyObject", "HeadObject", "DeleteObject", "UploadPartCopy", "CompleteMultipartUpload", "CreateMultipartUpload",
    "ListParts", "GetObject", "GetObjectAttributes", "AbortMultipartUpload",
)  # fmt: skip


class World:
    """Two buckets, and somebody who writes to both before any request."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.source, self.destination = self.chance.choice([(LAKE, OTHER), (LAKE, HOT), (HOT, LAKE)])
        names = (self.source, self.destination)
        encrypted = self.chance.choice([(), names[:1], names[1:], names])
        self.s3 = FakeS3(*names, encrypted=encrypted, sums=self.chance.random() < 0.7)
        self.last: dict[str, bytes] = {}
        """What was written last to each key of the source and not deleted by its owner."""
        self.foreign: set[str] = set()
        """Keys whose copy somebody else has touched."""
        for number in range(12):
            self.write(f"data/{number}")

    def write(self, key: str) -> None:
        body = self.chance.choice([b"a", b"b", b"c"]) * self.chance.choice([0, 1, 5, 25, 25, 31])
        sums = {"CRC32": crc32(body)} if self.chance.random() < 0.7 else {}
        self.s3.put(self.source, key, body, sums=sums)
        self.last[key] = body

    def happens(self, **_: Any) -> None:
        key, chance = f"data/{self.chance.randrange(12)}", self.chance.random()
        if chance < 0.06:
            self.write(key)
        elif chance < 0.08:
            self.s3.buckets[self.source].pop(key, None)
            self.last.pop(key, None)
        elif chance < 0.12:
            raise error(*self.chance.choice(FAILURES))
        elif chance < 0.13:
            raise ReadTimeoutError(endpoint_url="https://s3")
        elif chance < 0.15:
            self.s3.put(self.destination, key, b"junk!" * self.chance.randrange(6))
            self.foreign.add(key)

    def run(self, **options: Any) -> Report | TrainingStorageError:
        places = (Location(bucket=bucket, prefix="data/") for bucket in (self.source, self.destination))
        route = Route((next(places),), (next(places),))
        limits = Limits(single_copy_bytes=24, part_bytes=10)
        try:
            return transfer(self.s3, route, Options(processes=1, limits=limits, **options), sleep=lambda _: None)
        except TrainingStorageError as error:
            return error


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_meanwhile_nothing_is_lost(seed: int) -> None:
    world = World(seed)
    remove = seed % 2 == 0
    world.s3.always = dict.fromkeys(MUTATED, world.happens)
    for _ in range(3):
        world.run(remove=remove, verify=world.chance.choice(VERIFY), concurrency=world.chance.choice([1, 2, 4]))
        source, copies = world.s3.buckets[world.source], world.s3.buckets[world.destination]
        removed = [key for key in world.last if key not in source]
        assert remove or not removed
        for key in removed:
            assert key in world.foreign or copies[key].body == world.last[key]

    # When everybody rests, the same command brings it to its end.
    world.s3.always.clear()
    report = world.run(remove=remove, concurrency=2)
    assert isinstance(report, Report)
    assert (report.is_clean, world.s3.uploads) == (True, {})
    for key, body in world.last.items():
        assert key in world.foreign or copies[key].body == body
        assert (key in source) != remove
    for key in world.s3.keys(world.source):
        assert copies[key].body == source[key].body
