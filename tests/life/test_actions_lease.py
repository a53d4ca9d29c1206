"""Who runs the agent: never two nodes at a time, and nobody for ever."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.life.actions import LAKE, World
from tests.life.fake_aws import FakeAws
from tests.life.faults import KINDS, Fault, Faulty, Killed
from training_storage.node.checkpoints import lake
from training_storage.node.checkpoints.lease import FileLease, Lease, LeaseLost, ObjectLease, lease_of

Make = Callable[[str], Lease]


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["file", "object"])
def make(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Make:
    if request.param == "file":
        return lambda node: FileLease(str(tmp_path), node, clock, 600)
    aws = FakeAws()
    aws.s3.make(LAKE)
    return lambda node: ObjectLease(aws, LAKE, "training", node, clock, 600)


def died(lease: Lease) -> None:
    """The process is gone: what the kernel frees is free, the lease stands."""
    lease.close()


def test_one_at_a_time(make: Make) -> None:
    one, other = make("i-1"), make("i-2")
    assert one.acquire()
    assert not other.acquire()
    assert other.other is not None
    assert other.other.holder == "i-1"
    one.release()
    assert other.acquire()
    assert not one.acquire()


def test_a_dead_holder_is_waited_for_and_then_followed(make: Make, clock: Clock) -> None:
    one, other = make("i-1"), make("i-2")
    assert one.acquire()
    died(one)
    clock.now += 599
    assert not other.acquire()
    clock.now += 2
    assert other.acquire()


def test_the_same_node_goes_on_at_once_after_a_crash(make: Make, clock: Clock) -> None:
    one, again = make("i-1"), make("i-1")
    assert one.acquire()
    died(one)
    assert again.acquire()
    clock.now += 6
    with pytest.raises(LeaseLost, match="i-1's now"):  # two processes of one node: the older one stops
        one.check()
    again.check()


def test_a_holder_that_works_keeps_it(make: Make, clock: Clock) -> None:
    one, other = make("i-1"), make("i-2")
    assert one.acquire()
    for _ in range(20):
        clock.now += 250
        one.check()
        assert not other.acquire()


def test_a_holder_that_slept_too_long_stops_before_its_next_act(make: Make, clock: Clock) -> None:
    one = make("i-1")
    assert one.acquire()
    clock.now += 601
    with pytest.raises(LeaseLost, match="ended 1 s ago"):
        one.check()
    with pytest.raises(LeaseLost, match="not held"):
        one.check()


def test_a_holder_that_was_followed_stops_though_its_clock_stood_still(make: Make, clock: Clock) -> None:
    one, other = make("i-1"), make("i-2")
    assert one.acquire()
    died(one)
    clock.now += 700
    assert other.acquire()
    clock.now -= 380
    with pytest.raises(LeaseLost, match="i-2's now"):
        one.check()
    other.check()


def test_of_many_takers_of_a_dead_lease_one_wins(make: Make, clock: Clock) -> None:
    for _ in range(5):
        dead = make("dead")
        assert dead.acquire()
        died(dead)
        clock.now += 601
        takers = [make(f"i-{number}") for number in range(8)]
        wins: list[Lease] = []
        gate = threading.Barrier(len(takers))

        def take(lease: Lease, gate: threading.Barrier = gate, wins: list[Lease] = wins) -> None:
            gate.wait()
            if lease.acquire():
                wins.append(lease)

        threads = [threading.Thread(target=take, args=(each,)) for each in takers]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(wins) == 1
        wins[0].check()
        wins[0].release()


def test_without_flock_one_wins_too(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Takers that read the same dead lease and go on at any later moment: the hard link decides."""
    monkeypatch.setattr(FileLease, "_belt", lambda _self: True)
    chance = random.Random(1)
    for _ in range(60):
        takers = [FileLease(str(tmp_path), f"i-{number}", clock, 600) for number in range(4)]
        (tmp_path / ".training-storage/lease").mkdir(parents=True, exist_ok=True)
        for each in takers:
            each._read()
        winners = []
        for each in chance.sample(takers, len(takers)):
            if each._write(each._next(600)):
                winners.append(each)
            if winners and chance.random() < 0.5:
                winners[0]._write(winners[0]._next(600))  # renewed meanwhile, so that old numbers are free again
        assert len(winners) == 1
        clock.now += 700


def test_a_file_system_without_flock_has_the_first_belt(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_given: object) -> None:
        raise OSError(38, os.strerror(38))

    monkeypatch.setattr("training_storage.node.checkpoints.lease.fcntl.flock", refuses)
    one, other = (FileLease(str(tmp_path), node, clock, 600) for node in ("i-1", "i-2"))
    assert one.acquire()
    assert not other.acquire()


def test_a_living_holder_with_a_slow_clock_keeps_it_by_flock(tmp_path: Path, clock: Clock) -> None:
    one, other = (FileLease(str(tmp_path), node, clock, 600) for node in ("i-1", "i-2"))
    assert one.acquire()
    clock.now += 10_000  # the other's clock is ahead
    assert not other.acquire()


def test_a_lease_that_never_reached_the_disk_ends_too(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / ".training-storage/lease"
    folder.mkdir(parents=True)
    (folder / "lease-0000000007.json").write_text("")
    os.utime(folder / "lease-0000000007.json", (clock.now, clock.now))
    lease = FileLease(str(tmp_path), "i-1", clock, 600)
    assert not lease.acquire()
    clock.now += 601
    assert lease.acquire()


@pytest.mark.parametrize("kind", KINDS)
def test_calls_that_fail_leave_one_holder(kind: str, clock: Clock) -> None:
    for at in range(6):
        aws = FakeAws()
        aws.s3.make(LAKE)
        faulty = Faulty(aws, Fault(at, kind))
        one = ObjectLease(faulty, LAKE, "training", "i-1", clock, 600)
        held = False
        try:
            held = one.acquire()
            clock.now += 400
            one.check()
        except (Exception, Killed):
            clock.now += 0
        other = ObjectLease(aws, LAKE, "training", "i-2", clock, 600)
        if other.acquire() and held:
            with pytest.raises(LeaseLost):
                one.check()
        clock.now += 700
        other = ObjectLease(aws, LAKE, "training", "i-3", clock, 600)
        assert other.acquire() or other.other is not None


def test_one_node_at_a_time_has_the_lease_of_a_hot_tier(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert lease_of(world.aws, world.settings, "i-1", world.aws.clock).acquire()
    assert not lease_of(world.aws, world.settings, "i-2", world.aws.clock).acquire()
    assert isinstance(lease_of(world.aws, world.settings, "i-1"), FileLease)
    assert isinstance(lease_of(world.aws, World(tmp_path / "x", "express").settings, "i-1"), ObjectLease)
    assert not list(world.checkpoints.glob("[!.]*"))


def test_a_run_that_loses_its_lease_stops_before_its_next_act(tmp_path: Path) -> None:
    world = World(tmp_path, "express")
    for number in range(1, 6):
        world.save(f"run1/step-{number}")
    stolen: list[object] = []

    def steals(progress: dict[str, object]) -> None:
        if progress["state"] == "verifying" and not stolen and "method" in progress:
            world.aws.now += 601
            other = ObjectLease(world.aws, LAKE, "training", "i-2", world.aws.clock)
            stolen.append(other.acquire())

    result = world.run(report=steals)
    assert stolen == [True]
    assert [each for each in result.errors if each.startswith("stopped: the lease")]
    assert world.recorded() == {}
    assert result.pruned == []
    assert world.hot_paths() == set(world.made)


def test_a_node_that_is_not_elected_does_nothing(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number in range(1, 6):
        world.save(f"run1/step-{number}")
    held = lease_of(world.aws, world.settings, "i-9", world.aws.clock)
    assert held.acquire()
    result = world.run()
    assert (result.elected, result.holder, result.errors) == (False, "i-9", [])
    assert world.hot_paths() == set(world.made)
    assert world.aws.s3.content(LAKE) == {}
    held.release()
    assert world.run().elected


# -- file systems that are full, or gone


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """No byte fits any more; names and links do."""

    def refuse(self: Path, *_: object, **__: object) -> int:
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_text", refuse)


@pytest.mark.usefixtures("full")
def test_a_full_file_system_still_elects_one_node_that_can_make_room(tmp_path: Path, clock: Clock) -> None:
    first, second = (FileLease(str(tmp_path), node, clock, 600) for node in ("i-1", "i-2"))
    assert first.acquire()
    clock.now += 301
    first.check()  # renewed
    assert not second.acquire()
    assert second.other is not None
    assert second.other.holder == "i-1"
    first.release()
    assert second.acquire()
    assert not list(tmp_path.rglob("draft-*"))


def test_what_was_taken_while_it_was_full_is_renewed_when_it_is_not(
    tmp_path: Path, clock: Clock, full: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del full
    lease = FileLease(str(tmp_path), "i-1", clock, 600)
    assert lease.acquire()
    monkeypatch.undo()
    clock.now += 301
    lease.check()
    lease.release()
    assert FileLease(str(tmp_path), "i-2", clock, 600).acquire()


def test_no_lease_is_made_beside_a_file_system_that_is_not_mounted(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(FileNotFoundError):
        FileLease(str(tmp_path / "fsx" / "checkpoints"), "i-1", clock, 600).acquire()
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_went_away_within_a_run_takes_no_status_with_it(tmp_path: Path) -> None:
    """What is seen then is the empty folder below the mount: nothing unsaved, says the status to whoever deletes."""
    world = World(tmp_path)
    world.save("run1/step-1")
    world.save("run1/step-2")
    world.run(promote=False)
    assert world.status()["unsaved"] == ["run1/step-2"]
    away = tmp_path / "away"

    class Unmounting:
        """Takes the file system away once the lease is held."""

        def __call__(self, service: str) -> object:
            if list(world.checkpoints.glob(".training-storage/lease/lease-*")):
                world.root.rename(away)
                world.checkpoints.mkdir(parents=True)
            return world.aws(service)

    result = world.run(Unmounting())
    assert away.is_dir()
    assert [each for each in result.errors if "stopped" in each]
    assert world.status()["unsaved"] == ["run1/step-2"]


def test_a_lease_in_the_lake_that_nobody_can_read_ends_too(clock: Clock) -> None:
    aws = FakeAws()
    aws.s3.make(LAKE)
    aws.now = clock.now
    lease = ObjectLease(aws, LAKE, "training", "i-1", clock, 600)
    aws.s3.put_object(
        Bucket=LAKE, Key=".training-storage/checkpoints/leases/training.json", Body=b'{"holder": 1, "x": 2}'
    )
    assert not lease.acquire()
    clock.now += 601
    assert lease.acquire()


# -- what takes longer than a lease lasts


@pytest.mark.parametrize("tier", ["lustre", "express", "nvme"])
def test_neither_a_long_walk_nor_a_long_comparison_lets_the_lease_run_out(
    tmp_path: Path, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten million files on a file system, a million objects to look at: hours pass, and nobody else takes over."""
    monkeypatch.setattr(lake, "WORKERS", 1)
    world = World(tmp_path, tier)
    for step in (1, 2, 3):
        world.save(f"run1/step-{step}", ranks=9)

    class Slow:
        def __call__(self, service: str) -> object:
            client = world.aws(service)
            return SlowClient(client) if service == "s3" else client

    class SlowClient:
        def __init__(self, client: object) -> None:
            self.client = client

        def __getattr__(self, name: str) -> object:
            def call(**given: object) -> object:
                if name in ("head_object", "list_objects_v2"):
                    world.aws.now += 100
                return getattr(self.client, name)(**given)

            return call

    result = world.run(Slow())
    assert result.errors == []
    assert [each["path"] for each in result.promoted] == ["run1/step-2"]
    assert [each["path"] for each in result.pruned] == ["run1/step-1"]


def test_a_long_walk_over_folders_keeps_the_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    for step in range(1, 12):
        world.save(f"run{step}/step-{step}")
    real = os.scandir

    def slow(path: str) -> object:
        world.aws.now += 100
        return real(path)

    monkeypatch.setattr("training_storage.node.checkpoints.tree.os.scandir", slow)
    result = world.run()
    assert result.errors == []
    assert len(result.checkpoints) == 11
