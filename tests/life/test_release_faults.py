"""Whatever goes wrong at whatever call of a release: nothing that had to be kept is lost, and a second run ends."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from tests.life.fake_s3 import error
from tests.life.faults import KINDS, Fault, Faulty, Killed
from tests.life.release_world import LAKE, World, world

RUNS = 200
KINDS_OF_EXPORT = ("report", "task-failed")
"""What FSx does by itself: some files of a task fail, or the whole task."""


def _calls() -> int:
    """Return how many calls of AWS a release makes, those of its nodes included."""
    with world() as made:
        made.fill()
        faulty = Faulty(made.aws, None)
        made.node_aws = faulty
        assert made.release(aws=faulty)["status"] == "done"
        return len(faulty.calls)


def _nothing_lost(made: World, told: str) -> None:
    """Look whether everything that had to be kept is in the lake, if the file system is gone."""
    if not made.gone:
        assert made.content(), told
        return
    lake = made.aws.s3.content(LAKE)
    for path in made.kept():
        assert lake.get(path) == made.lost[path], f"{told}: {path} is lost"


class _Faulty(Faulty):
    kind = ""


def _first(made: World, faulty: _Faulty) -> dict[str, Any] | None:
    """Run a release that something happens to; None where its process or its state machine ended."""
    try:
        return made.release(aws=faulty, tries=1 if faulty.kind.startswith("killed") else 6)
    except Killed:
        return None


def _one(seed: int, calls: int) -> str:
    chance = random.Random(seed)
    kind = chance.choice(KINDS + KINDS_OF_EXPORT)
    with world(fleet=chance.choice((0, 2))) as made:
        made.fill()
        fault = Fault(at=chance.randrange(calls), kind=kind) if kind in KINDS else None
        faulty = _Faulty(made.aws, fault)
        faulty.kind = kind
        made.node_aws = faulty
        if kind == "report":
            made.aws.fsx.failing = {chance.choice(sorted(made.kept())): "S3AccessDenied"}
        made.aws.fsx.fail_next_task = kind == "task-failed"
        state = _first(made, faulty)
        told = f"seed {seed}, {faulty.hit or kind}"
        _nothing_lost(made, told)
        if kind in KINDS_OF_EXPORT:
            assert state is not None, told
            assert state["status"] == "refused", told
            assert not made.aws.cloudformation.deleted, told
        elif kind == "throttle" or kind.startswith("timeout"):
            assert state is not None, told
        if not made.gone:
            assert "run-hot" in made.aws.cloudformation.stacks, told
        if chance.random() < 0.3:  # something happens to the second run too
            made.aws.sleep(chance.choice((0, 600)))
            second = _Faulty(made.aws, Fault(at=chance.randrange(calls), kind=chance.choice(KINDS)))
            second.kind = second.hit
            made.node_aws = second
            _first(made, second)
            told += f", then {second.hit}"
            _nothing_lost(made, told)
        # A run with nothing in its way ends.
        made.node_aws = made.aws
        made.aws.sleep(600)
        again = made.release()
        if again["status"] == "refused" and "has not ended" in again["refused"]:
            made.aws.sleep(600)
            again = made.release()
        assert again["status"] == "done", f"{told}: {again}"
        assert made.gone, told
        assert made.aws.cloudformation.deleted == ["run-monitoring", "run-compute", "run-hot"], told
        assert not made.aws.machines.instances, told
        _nothing_lost(made, told)
        return kind if faulty.hit or fault is None else ""


def test_nothing_is_lost_whatever_fails_once() -> None:
    calls = _calls()
    seen: dict[str, int] = {}
    for seed in range(RUNS):
        kind = _one(seed, calls)
        seen[kind] = seen.get(kind, 0) + 1
    # Each way was met often, and hardly a run went without.
    assert set(seen) - {""} == set(KINDS + KINDS_OF_EXPORT)
    assert seen.get("", 0) < RUNS // 4


@pytest.mark.parametrize("step", ["survey", "export", "manifest", "quiet"])
def test_a_trainer_that_writes_during_the_release_stops_it(step: str) -> None:
    with world() as made:
        made.fill()

        def trains(now: str) -> None:
            if now == step:
                made.train("checkpoints/run1/late.txt")

        state = made.release(before=trains)
        if step == "survey":  # it ended before the export began, and is a part of what was exported
            assert state["status"] == "done"
            return
        assert state["status"] == "refused"
        assert not made.aws.cloudformation.deleted
        assert made.release()["status"] == "done"
        _nothing_lost(made, step)
        assert made.aws.s3.content(LAKE)["checkpoints/run1/late.txt"] == made.lost["checkpoints/run1/late.txt"]


def test_a_trainer_that_goes_on_writing_is_told_to_stop() -> None:
    with world() as made:
        made.fill()
        sleep = made.aws.sleep

        def busy(seconds: float) -> None:
            sleep(seconds)
            made.train("checkpoints/run1/log.txt", b"line")

        made.aws.sleep = busy  # type: ignore[method-assign]  # a trainer that writes as time goes by
        state = made.release()
        assert state["status"] == "refused"
        assert "Stop the training job" in state["refused"]
        assert not made.aws.cloudformation.deleted


@pytest.mark.parametrize("step", ["delete-monitoring", "delete-compute", "quiet-again"])
def test_a_trainer_that_writes_between_proof_and_delete_keeps_its_file_system(step: str) -> None:
    with world(fleet=1) as made:
        made.fill()
        state = made.release(before=lambda now: made.train("checkpoints/run1/late.txt") if now == step else None)
        assert state["status"] == "refused"
        assert re.search(r"written to fs-\S+ after", state["refused"])
        assert not made.gone
        assert "run-hot" in made.aws.cloudformation.stacks
        again = made.release()
        assert again["status"] == "done"
        assert made.aws.s3.content(LAKE)["checkpoints/run1/late.txt"] == made.lost["checkpoints/run1/late.txt"]


def test_a_part_of_a_file_system_that_cannot_be_read_is_not_taken_for_an_empty_one() -> None:
    with world() as made:
        made.fill()

        class Closed(Faulty):
            def __call__(self, service: str) -> Any:
                raise error("SlowDown", "HeadObject", "", 503)

        made.node_aws = Closed(made.aws, None)
        state = made.release()
        assert state["status"] == "refused"
        assert "tried 3 times" in state["refused"]
        assert not made.gone
