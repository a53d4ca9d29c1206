"""What a release meets beside files: two at once, a fleet that comes back, names that are no text, long runs."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.life.release_world import LAKE, NAME, TAGS, World, world
from training_storage.node.functions.release import index
from training_storage.node.release.hold import held_until
from training_storage.node.release.steps import STEPS, run


def _idle(made: World, **given: Any) -> dict[str, Any]:
    return made.release(idle_hours=12, **given)


def test_a_look_whether_a_run_is_idle_lets_the_hold_of_another_release_stand() -> None:
    with world(fleet=1) as made:
        made.fill()

        def meanwhile(step: str) -> None:
            if step == "compare":
                assert _idle(made)["quiet"] is True
                assert held_until(made.aws, LAKE, made.id, made.aws.clock) is not None

        assert made.release("prove", before=meanwhile)["status"] == "done"


@pytest.mark.parametrize("state", ["running", "pending"])
@pytest.mark.parametrize("step", ["delete-monitoring", "delete-compute"])
def test_a_fleet_that_comes_back_while_an_idle_run_is_released_stays(step: str, state: str) -> None:
    with world() as made:
        made.fill()
        made.aws.sleep(13 * 3600)

        def meanwhile(now: str) -> None:
            if now == step:
                made.aws.machines.group(f"{NAME}-fleet", TAGS, 2, 8)
                for each in made.aws.machines.instances.values():
                    each["State"]["Name"] = state

        ended = _idle(made, before=meanwhile)
        assert (ended["status"], ended.get("quiet")) == ("refused", True), ended
        assert f"{NAME}-compute" in made.aws.cloudformation.stacks
        assert not made.gone


def test_a_node_that_starts_is_no_idle_run() -> None:
    with world() as made:
        made.fill()
        made.aws.sleep(13 * 3600)
        made.aws.machines.group(f"{NAME}-fleet", TAGS, 1, 8)
        for each in made.aws.machines.instances.values():
            each["State"]["Name"] = "pending"
        assert _idle(made)["quiet"] is True
        assert made.aws.cloudformation.deleted == []


def test_a_fleet_that_waits_for_its_capacity_before_the_run_is_not_idle() -> None:
    with world() as made:
        made.aws.machines.groups[f"{NAME}-fleet"]["DesiredCapacity"] = 4
        made.aws.sleep(13 * 3600)
        ended = _idle(made)
        assert (ended["status"], ended.get("quiet")) == ("refused", True), ended
        assert "4 nodes" in ended["refused"]
        made.train("checkpoints/run1/config.json")  # the run has begun, and its nodes went
        made.aws.sleep(13 * 3600)
        assert _idle(made)["status"] == "done"


def test_names_that_are_no_text_are_refused_in_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda answers in UTF-8: a name that is none made the function fail, and the release with it."""
    with world() as made:
        made.fill()
        made.write(os.fsdecode(b"checkpoints/run1/\xff\xfe.bin"))
        monkeypatch.setattr(index, "_CLIENTS", [made.aws])
        monkeypatch.setenv("WORKLOAD", NAME)
        monkeypatch.setenv("LAKE_BUCKET", LAKE)
        state = made.release()
        assert state["status"] == "refused"
        state["status"] = "next"
        made.aws.cloudformation.stacks.clear()
        answered = index.handler({"step": "preconditions", "state": state}, None)
        json.dumps(answered, ensure_ascii=False).encode()


def test_a_long_wait_looks_less_often_so_that_its_history_has_room() -> None:
    """Step Functions ends an execution at 25,000 events; a look and its wait are ten."""
    with world() as made:
        made.fill()
        made.aws.fsx.looks = 10**6
        looks = 0
        began = made.aws.now

        state: dict[str, Any] = {"workload": NAME, "lake_bucket": LAKE, "action": "release"}
        for step in STEPS:
            while True:
                state = run(step, state, made.aws, made.aws.clock, made.aws.sleep, workers=1)
                looks += 1
                if state["status"] != "again":
                    break
                assert state["wait"] <= 600  # the hold and whoever follows want a sign of life
                made.aws.sleep(state["wait"])
            if state["status"] != "next":
                break
        assert "does not end" in state["refused"]
        assert made.aws.now - began > 36 * 3600
        assert looks * 10 < 20_000


class _Partial:
    """CloudWatch of which the newest minute is not whole: the server that was written to has not reported yet."""

    def __init__(self, made: World) -> None:
        self._made = made

    def __call__(self, service: str) -> Any:
        return self if service == "cloudwatch" else self._made.aws(service)

    def get_metric_data(self, **given: Any) -> dict[str, Any]:
        answer = self._made.aws.cloudwatch.get_metric_data(**given)
        for each in answer["MetricDataResults"]:
            if each["Values"]:
                each["Values"][each["Timestamps"].index(max(each["Timestamps"]))] = 0.0
        return answer


def test_the_newest_minute_is_not_whole_and_proves_nothing() -> None:
    with world() as made:
        made.fill()

        def late(step: str) -> None:
            if step == "quiet":
                made.aws.now += -made.aws.now % 60 - 1  # the last second of the minute in which the manifest ended
                made.train("checkpoints/run1/late.json")

        state = made.release("prove", aws=_Partial(made), before=late)
        assert state["status"] == "refused", state
        assert "were written to" in state["refused"]


def test_a_file_that_fsx_takes_for_exported_says_how_to_make_it_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    with world() as made:
        made.fill()
        assert made.release("prove")["status"] == "done"
        made.aws.s3.delete_object(Bucket=LAKE, Key="checkpoints/run1/config.json")
        monkeypatch.setattr(made.aws.fsx, "export", lambda *_: None)  # it is archived and not dirty
        state = made.release("prove")
        assert "cp -p FILE FILE.new && mv FILE.new FILE" in state["refused"]
        assert "config.json" in json.dumps(state["blocking"])


def test_a_file_system_without_links_goes_once_a_node_has_uploaded_what_must_be_kept() -> None:
    with world(links=False) as made:
        for step in range(1, 6):
            made.checkpoint(step)
        made.write("checkpoints/run1/config.json", b"{}")
        made.write("results/only-here.bin")
        made.aws.sleep(1000)
        state = made.release()
        assert state["status"] == "refused"
        assert "results" in json.dumps(state["blocking"])
        assert not made.gone
        made.aws.sleep(600)
        state = made.release(leave=["/fsx/results"])
        assert state["status"] == "done", state
        lake = made.lake()
        assert {name: lake[name] for name in made.kept()} == {name: made.lost[name] for name in made.kept()}


def test_a_path_that_is_left_is_named_as_nodes_or_as_the_file_system_name_it() -> None:
    """The help of --leave says /checkpoints/old, and what blocks is told as /fsx/results."""
    for path in ("/results", "/fsx/results"):
        with world() as made:
            made.fill()
            made.write("results/only-here.bin")
            made.aws.sleep(1000)
            state = made.release("check", leave=[path])
            assert state["status"] == "done", (path, state)
