"""``training-storage checkpoints``, down to the agent of a node: what it says, changes, and leaves alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from tests.life.commands import run_agent, said, sign_in, told
from tests.life.release_world import LAKE, NAME, TAGS, World
from training_storage.cli import checkpoints as command
from training_storage.node import calls, places

ROOT = Path(__file__).resolve().parents[2]


class Nodes(World):
    """A run whose nodes have the real agent."""

    def _run(self, instance: str, text: str) -> tuple[int, str, str]:
        settings = {**self.settings.to_dict(), "max_restore_s": self.max_restore_s}
        return run_agent(self.root, instance, text, settings, self.node_aws, self.aws.sleep)

    max_restore_s = 300.0


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nodes:
    made = Nodes(tmp_path, fleet=2)
    made.aws.cloudformation.make(f"{NAME}-lake", {"DataLakeBucketName": LAKE})
    for step in range(1, 8):
        made.checkpoint(step)
    made.checkpoint(9, complete=False)
    sign_in(monkeypatch, made.aws)
    return made


def test_every_action_of_the_help_is_done_by_something() -> None:
    assert set(command._ACTIONS) == {"list", "promote", "prune", "verify", "restore-drill", "advise"}


def test_list_shows_both_sides_and_what_the_policy_says(run: Nodes) -> None:
    found = told("list", NAME)
    assert found["live"] is True
    assert {each["path"]: (each["number"], each["due"], each["complete"]) for each in found["hot"]} == {
        **{f"run1/step-{n}": (n, "every" if n in (3, 6) else "", True) for n in range(1, 8)},
        "run1/step-9": (None, "", False),
    }
    assert found["unsaved"] == ["run1/step-3", "run1/step-6"]
    assert found["lake"] == []
    text = said("list", NAME)
    assert "run1/step-9  half-written" in text
    assert "not in the lake yet: run1/step-3, run1/step-6" in text


def test_promote_prune_and_verify_by_hand(run: Nodes) -> None:
    before = run.content()
    text = said("promote", NAME, "--dry-run")
    assert "would be promoted: run1/step-3, 3 files" in text
    assert run.content() == before
    assert run.aws.s3.content(LAKE, "checkpoints/") == {}

    text = said("promote", NAME, "--path", "run1/step-2", "--last")
    assert [line.split(",")[0] for line in text.splitlines()] == [f"promoted: run1/step-{n}" for n in (2, 3, 6, 7)]
    lake = run.aws.s3.content(LAKE, "checkpoints/run1/")
    hot = {
        path: body for path, body in run.content().items() if path.split("/")[2] in {f"step-{n}" for n in (2, 3, 6, 7)}
    }
    assert lake == hot

    assert "12 objects compared with lake" in said("verify", NAME)
    text = said("prune", NAME)
    # The newest two stay; what is due is in the lake; the half-written one is newer than every complete one.
    assert [line.split(",")[0] for line in text.splitlines()] == [
        f"removed from the hot tier: run1/step-{n}" for n in range(1, 6)
    ]
    left = {path.split("/")[2] for path in run.content() if path.startswith("checkpoints/run1/step-")}
    assert left == {"step-6", "step-7", "step-9"}
    assert {each["path"] for each in told("list", NAME)["lake"]} == {f"run1/step-{n}" for n in (2, 3, 6, 7)}
    assert "nothing to prune" in said("prune", NAME)


def test_an_object_that_is_gone_from_the_lake_is_found_and_promoted_again(run: Nodes) -> None:
    said("promote", NAME)
    run.aws.s3.delete_object(Bucket=LAKE, Key="checkpoints/run1/step-6/rank1.pt")
    text = said("verify", NAME, code=1)
    assert "run1/step-6/rank1.pt is not there" in text
    said("promote", NAME, code=3)  # the node says what was wrong, and promotes it again
    assert "everything is as it was verified" in said("verify", NAME)


def test_a_half_written_one_is_not_promoted_by_name_either(run: Nodes) -> None:
    assert "half-written" in said("promote", NAME, "--path", "run1/step-9", code=3)
    assert not run.aws.s3.content(LAKE, "checkpoints/run1/step-9")


def test_without_a_node_the_last_look_is_shown_and_nothing_is_done(run: Nodes) -> None:
    said("promote", NAME)
    run.aws.machines.group(f"{NAME}-fleet", TAGS, 0, 8)
    found = told("list", NAME)
    assert found["live"] is False
    assert found["why_not_live"].startswith("no node was asked: no node of run is running: its fleet is at zero")
    assert len(found["hot"]) == 8
    assert len(found["lake"]) == 2
    assert "fix: start the storage node" in said("prune", NAME, code=1)
    assert "everything is as it was verified" in said("verify", NAME)  # needs no node


def test_a_node_that_was_asked_and_could_not_look_is_named(run: Nodes) -> None:
    said("promote", NAME)
    run.settings = run.settings.from_dict({**run.settings.to_dict(), "policy": None})
    text = said("list", NAME)
    assert "gave no answer: run has no checkpoint policy" in text
    assert "no node was asked" not in text


def test_a_drill_in_which_a_node_reads_nothing_is_no_restore_time(run: Nodes) -> None:
    """Its share was read by nobody, so that the other's time says nothing."""
    said("promote", NAME)
    run_ = run.aws.machines.run
    nodes: list[str] = []

    def loses_one(instance: str, text: str) -> tuple[int, str, str]:
        if nodes and instance not in nodes:
            for key in run.aws.s3.content(LAKE, places.RECORDS):
                run.aws.s3.delete_object(Bucket=LAKE, Key=key)
        nodes.append(instance)
        return run_(instance, text)

    run.aws.machines.run = loses_one
    found = told("restore-drill", NAME)
    assert [each["source"] for each in found["drills"]] == ["hot"]
    assert found["skipped"] == ["lake: no checkpoint was promoted to the lake yet"]


def test_nodes_that_read_different_checkpoints_make_no_restore_time(run: Nodes) -> None:
    run_ = run.aws.machines.run
    nodes: list[str] = []

    def saves_between(instance: str, text: str) -> tuple[int, str, str]:
        if nodes and instance not in nodes:
            run.checkpoint(20)
        nodes.append(instance)
        return run_(instance, text)

    run.aws.machines.run = saves_between
    text = said("restore-drill", NAME, "--source", "hot", code=1)
    assert "nodes read different checkpoints (run1/step-20, run1/step-7)" in text
    assert run.aws.cloudwatch.put == []
    run.aws.machines.run = run_
    assert told("restore-drill", NAME, "--source", "hot")["drills"][0]["checkpoint"] == "run1/step-20"


def test_a_record_that_cannot_be_read_stops_no_drill(run: Nodes) -> None:
    said("promote", NAME)
    run.aws.s3.put_object(Bucket=LAKE, Key=f"{places.RECORDS}run1/step-1@0123456789abcdef.jsonl", Body=b"{")
    assert {each["source"] for each in told("restore-drill", NAME)["drills"]} == {"hot", "lake"}


def test_the_drill_reads_every_byte_on_all_nodes_and_holds_it_against_the_file(run: Nodes) -> None:
    said("promote", NAME)
    found = told("restore-drill", NAME)
    sizes = {n: sum(len(body) for path, body in run.content().items() if f"/step-{n}/" in path) for n in (6, 7)}
    drills = {each["source"]: each for each in found["drills"]}
    assert drills["hot"]["checkpoint"] == "run1/step-7"
    assert drills["hot"]["bytes"] == drills["hot"]["size"] == sizes[7]
    assert drills["lake"]["checkpoint"] == "run1/step-6"
    assert drills["lake"]["bytes"] == sizes[6]
    assert drills["lake"]["reader"] == "s3"
    assert drills["hot"]["nodes"] == 2
    assert all(each["in_time"] for each in drills.values())
    # The slowest node's time, once, by the node that was done last.
    assert all(sorted(each["metrics"].values()) == ["emitted", "left to the last node"] for each in drills.values())
    emitted = [data for put in run.aws.cloudwatch.put for data in put["MetricData"]]
    assert [(each["MetricName"], each["Dimensions"][1]["Value"], each["Value"]) for each in emitted] == [
        ("RestoreTime", source, drills[source]["seconds"]) for source in ("hot", "lake")
    ]


def test_the_storage_node_reads_only_where_the_fleet_is_at_zero(run: Nodes) -> None:
    """It has a smaller network, and trains nothing: a restart does not wait for it."""
    run.aws.machines.set_desired_capacity(AutoScalingGroupName=f"{NAME}-storage-node", DesiredCapacity=1)
    [storage] = [each for each, about in run.aws.machines.instances.items() if about["group"] == f"{NAME}-storage-node"]
    [hot] = told("restore-drill", NAME, "--source", "hot")["drills"]
    assert hot["nodes"] == 2
    assert storage not in hot["metrics"]
    run.aws.machines.group(f"{NAME}-fleet", TAGS, 0, 8)
    [hot] = told("restore-drill", NAME, "--source", "hot")["drills"]
    assert list(hot["metrics"]) == [storage]
    assert hot["bytes"] == hot["size"]


def test_a_restore_that_takes_too_long_is_an_exit_code(run: Nodes) -> None:
    run.max_restore_s = 0.0
    assert "TOO LONG: the workload file allows 0 s" in said("restore-drill", NAME, "--source", "hot", code=1)


def test_a_drill_of_what_is_not_there_is_refused(run: Nodes) -> None:
    text = said("restore-drill", NAME, "--path", "run1/step-8", code=1)
    assert "there is no checkpoint run1/step-8 on the hot tier" in text
    assert "run1/step-8 was never promoted" in text
    assert "half-written" in said("restore-drill", NAME, "--path", "run1/step-9", "--source", "hot", code=1)


def test_advice_compares_what_was_seen_with_the_workload_file(run: Nodes) -> None:
    workload = ROOT / "examples" / "llama3-70b.yaml"
    found = told("advise", NAME, "--workload", str(workload), code=1)
    assert found["observed"]["saves"] == 7
    assert found["observed"]["interval_s"] == pytest.approx(1.0)
    assert "saves more often than the workload file says" in found["findings"][0]


@pytest.mark.parametrize("path", ["../x", "/", "a/../b", " "])
def test_a_path_that_is_no_checkpoint_is_bad_usage(path: str, run: Nodes) -> None:
    assert "is no checkpoint" in said("promote", NAME, "--path", path, code=2)


@pytest.mark.parametrize("given", [("--failures", "3"), ("--over", "2d")])
def test_failures_go_with_their_time(given: tuple[str, str], run: Nodes) -> None:
    assert "go together" in said("advise", NAME, "--workload", "x.yaml", *given, code=2)


def test_another_workload_is_not_found(run: Nodes) -> None:
    assert "check the name" in said("list", "other", code=1)


def test_an_answer_from_before_is_not_taken_for_one_of_now(run: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who interrupts and asks again hours later is told of now, and gets done what is asked now."""

    real = calls.look

    def interrupt(*given: Any) -> None:
        for _ in range(5):
            real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr("training_storage.operations.node_commands.calls.look", interrupt)
        for action in (["list"], ["promote", "--last"]):
            with pytest.raises(KeyboardInterrupt):
                command.run(command_arguments(action[0], NAME, *action[1:]))
    run.aws.sleep(36_000)
    run.checkpoint(20)
    assert "run1/step-20" in {each["path"] for each in told("list", NAME)["hot"]}
    assert "run1/step-20" in json.dumps(told("promote", NAME, "--last"))


def command_arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(list(words))


@pytest.mark.parametrize("action", ["promote", "restore-drill"])
def test_a_checkpoint_may_be_named_as_nodes_see_it(action: str, run: Nodes) -> None:
    path = f"{run.settings.checkpoints}/run1/step-7"
    assert "run1/step-7" in said(action, NAME, "--path", path)
