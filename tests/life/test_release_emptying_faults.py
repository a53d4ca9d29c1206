"""Whatever goes wrong at whatever call of a release that empties buckets: nothing is lost, and a second run ends."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.life.emptying import HOT_STACK, Emptied
from tests.life.faults import KINDS, Fault, Faulty, Killed

RUNS = 40
MORE_RUNS = 400
KILLS = ("killed-before", "killed-after")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make listings short, and calls that empty too, so that there are many places to fail."""
    monkeypatch.setattr("tests.life.fake_s3.PAGE", 5)
    monkeypatch.setattr("training_storage.node.release.express_empty.CALL_S", 0.0)


def _calls() -> list[str]:
    made = Emptied()
    faulty = Faulty(made.aws, None)
    assert made.release(aws=faulty)["status"] == "done"
    return faulty.calls


def _try(made: Emptied, fault: Fault) -> tuple[dict[str, Any] | None, str]:
    faulty = Faulty(made.aws, fault)
    try:
        return made.release(aws=faulty, tries=1 if fault.kind.startswith("killed") else 6), faulty.hit
    except Killed:
        return None, faulty.hit


def _looks(made: Emptied, told: str) -> None:
    made.nothing_lost(told)
    made.no_smaller_ones(told)


def _ends(made: Emptied, told: str) -> None:
    """A run with nothing in its way ends."""
    made.aws.sleep(600)
    state = made.release()
    assert state["status"] == "done", f"{told}: {state}"
    assert made.gone, told
    assert made.hot() == {}, told
    made.nothing_lost(told)


def _one(seed: int, calls: int) -> str:
    chance = random.Random(seed)
    made = Emptied()
    # The calls that empty are the last ones: half of the faults are among them.
    first = calls // 2 if chance.random() < 0.5 else 0
    fault = Fault(at=chance.randrange(first, calls), kind=chance.choice(KINDS))
    state, told = _try(made, fault)
    told = f"seed {seed}, {told or fault}"
    _looks(made, told)
    if state is not None and state["status"] == "done":
        assert made.gone, told
    if fault.kind == "throttle" or fault.kind.startswith("timeout"):
        assert state is not None, told
        assert state["status"] == "done", f"{told}: {state}"
    if chance.random() < 0.3:  # something happens to the second run too
        made.aws.sleep(chance.choice((0, 600)))
        _, more = _try(made, Fault(at=chance.randrange(calls), kind=chance.choice(KINDS)))
        told += f", then {more}"
        _looks(made, told)
    stack = made.aws.cloudformation.stacks.get(HOT_STACK, {})
    if stack.get("StackStatus") == "CREATE_COMPLETE" and chance.random() < 0.3:  # another job begins
        made.aws.sleep(60)
        for name in ("rank0.pt", "rank1.pt", "COMPLETE"):
            key = f"checkpoints/run2/step-12/{name}"
            made.put(key, f"12 {name}".encode())
        told += ", then a checkpoint more"
    _ends(made, told)
    return fault.kind


def _many(seeds: range) -> None:
    calls = len(_calls())
    assert {_one(seed, calls) for seed in seeds} == set(KINDS)


def test_nothing_is_lost_whatever_fails_once() -> None:
    _many(range(RUNS))


@pytest.mark.long
def test_nothing_is_lost_whatever_fails_once_more_often() -> None:
    _many(range(RUNS, RUNS + MORE_RUNS))


def _killed_each(every: int) -> None:
    calls = _calls()
    first = next(at for at, name in enumerate(calls) if name == "cloudformation.get_template" and at > len(calls) // 2)
    assert calls[first:].count("s3.delete_objects") > 3
    for number, at in enumerate(range(first, len(calls), every)):
        for kind in KILLS if every == 1 else KILLS[number % 2 :][:1]:
            made = Emptied()
            _, told = _try(made, Fault(at=at, kind=kind))
            _looks(made, told)
            _ends(made, told)


def test_a_release_that_is_killed_while_it_empties_goes_on() -> None:
    _killed_each(9)


@pytest.mark.long
def test_a_release_that_is_killed_at_any_call_that_empties_goes_on() -> None:
    _killed_each(1)
