"""The release as the command line sees it: found, started or joined, followed, confirmed; and the override."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.unit._release import MACHINE, RELEASED, World
from training_storage.errors import AwsError, RefusedError
from training_storage.node import places
from training_storage.node.release import proof as proofs
from training_storage.operations.release_abandon import Loss
from training_storage.operations.release_execution import Look
from training_storage.operations.release_find import find_deployed

# ---- what is there


def test_what_is_deployed_is_found_in_the_order_in_which_it_goes() -> None:
    found = find_deployed(World(), "run", "us-east-1")
    assert list(found.stacks) == ["run-monitoring", "run-compute", "run-hot"]
    assert (found.machine_arn, found.lake_bucket, found.hot_tier_id) == (MACHINE, "lake", "fs-1")


def test_an_unknown_workload_is_refused_with_the_names_that_were_looked_for() -> None:
    with pytest.raises(RefusedError, match=r"no stack of a workload 'other' in us-east-1.*other-hot"):
        find_deployed(World(), "other", "us-east-1")


def test_a_lake_of_an_older_version_is_to_be_deployed_again() -> None:
    world = World()
    world.fake("cloudformation").make("run-lake", {"DataLakeBucketName": "lake"})
    with pytest.raises(RefusedError, match=r"no output ReleaseStateMachineArn.*cdk deploy run-lake"):
        world.release()
    del world.fake("cloudformation").stacks["run-lake"]
    with pytest.raises(RefusedError, match=r"is not there.*cdk deploy run-lake"):
        world.release()


# ---- prove, ask, release


def test_a_run_is_released_with_the_proof_that_was_confirmed() -> None:
    world = World()
    ended = world.release(leave=["/checkpoints/old", "/checkpoints/old"])
    assert [each["action"] for each in world.machine.started] == ["prove", "release"]
    assert world.machine.started[1]["proof"] == 5.0
    assert [each["leave"] for each in world.machine.started] == [["/checkpoints/old"]] * 2
    assert (ended.outcome, ended.is_no) == ("released", False)
    assert world.asked[0].proof["files"] == 3


def test_nothing_is_deleted_that_nobody_confirmed() -> None:
    world = World()
    ended = world.release(yes=False)
    assert [each["action"] for each in world.machine.started] == ["prove"]
    assert (ended.outcome, ended.is_no) == ("not-confirmed", True)
    assert ended.to_dict()["proof"]["valid_from"] == 5.0


def test_a_dry_run_starts_a_check_and_asks_nobody() -> None:
    world = World(check={"status": "done", "step": "survey", "found": {"keep": {"files": 2, "bytes": 9}}})
    ended = world.release(dry_run=True)
    assert [each["action"] for each in world.machine.started] == ["check"]
    assert (ended.outcome, world.asked) == ("checked", [])
    assert ended.to_dict()["found"] == {"keep": {"files": 2, "bytes": 9}}


def test_report_19_a_refusal_names_what_blocks_it() -> None:
    refused = {"status": "refused", "step": "preconditions", "refused": "a task runs", "blocking": ["task-1"]}
    ended = World(prove=refused).release()
    assert (ended.outcome, ended.refused, ended.blocking) == ("refused", "a task runs", ("task-1",))


def test_where_nothing_is_deployed_nothing_is_asked() -> None:
    world = World(prove={"status": "done", "step": "preconditions", "message": "nothing is deployed"})
    ended = world.release()
    assert (ended.outcome, ended.is_no, world.asked) == ("nothing-to-release", False, [])


def test_the_steps_are_followed_with_what_they_wait_for() -> None:
    world = World()
    world.release(dry_run=True)
    assert world.looks[0] == Look(step="export", waiting=True, message="task-1 has done 4 of 10 files")


# ---- joining


def test_a_release_that_runs_is_joined_and_no_second_one_started() -> None:
    world = World()
    world.machine.put({"workload": "run", "action": "release", "leave": []})
    ended = world.release()
    assert (ended.outcome, ended.joined) == ("released", True)
    assert world.machine.started == []
    assert world.begun == [("release", True)]


def test_a_proof_that_somebody_else_asked_for_with_other_paths_is_no_answer() -> None:
    world = World()
    world.machine.put({"workload": "run", "action": "prove", "leave": ["/a"]})
    world.release(leave=["/b"])
    assert [each["action"] for each in world.machine.started] == ["prove", "release"]


def test_an_hourly_look_that_finds_the_run_busy_is_waited_for_and_is_no_answer() -> None:
    ends = iter([{"status": "refused", "quiet": True, "step": "preconditions", "refused": "not idle"}, RELEASED])
    world = World(release=lambda: next(ends))
    world.machine.put({"workload": "run", "action": "release", "leave": [], "idle_hours": 12})
    ended = world.release()
    assert [each["action"] for each in world.machine.started] == ["prove", "release"]
    assert ended.outcome == "released"


def test_two_that_start_at_once_start_one() -> None:
    other = World()
    other.machine.put({"workload": "run", "action": "prove", "leave": []}, _name_after(""))
    other.machine.hidden = 2  # neither listing shows it yet
    other.release(yes=False)
    assert other.machine.started == []


def _name_after(last: str) -> str:
    return f"prove-{hashlib.sha256(last.encode()).hexdigest()[:16]}"


def test_another_end_is_no_answer_and_says_where() -> None:
    broken = {"error": "Lambda.Unknown", "cause": json.dumps({"errorMessage": "boom", "stackTrace": []})}
    with pytest.raises(AwsError, match=r"FAILED at step export: Lambda.Unknown: boom; fix: .*run the same command"):
        World(prove=broken).release()


# ---- the override


def test_an_override_says_who_and_why_and_then_the_stacks_go_in_order() -> None:
    world = World()
    ended = world.abandon()
    assert world.fake("cloudformation").deleted == ["run-monitoring", "run-compute", "run-hot"]
    written = proofs.read(world, "lake", "fs-1")
    assert written is not None
    assert (written.kind, written.reason, written.written_at) == ("override", "the run was a test", 1000.0)
    assert written.by.endswith("user/operator")
    assert (ended.outcome, ended.is_no) == ("abandoned", False)


def test_what_is_given_up_is_shown_before_anything_is_written() -> None:
    world = World()
    body = json.dumps({"workload": "run", "written_at": 900.0, "unsaved": ["step-40"]}).encode()
    world.fake("s3").put_object(Bucket="lake", Key=places.status_key("fs-1"), Body=body)
    ended = world.abandon(yes=False)
    (loss,) = world.asked
    assert isinstance(loss, Loss)
    assert (loss.unsaved, loss.seen_at) == (("step-40",), 900.0)
    assert ended.outcome == "not-confirmed"
    assert proofs.read(world, "lake", "fs-1") is None
    assert world.fake("cloudformation").deleted == []


def test_a_stack_that_does_not_go_says_why_and_a_second_run_goes_on() -> None:
    world = World()
    world.fake("cloudformation").refusing["run-hot"] = "the file system is in use"
    with pytest.raises(RefusedError, match=r"run-hot is DELETE_FAILED: Guard: the file system is in use"):
        world.abandon()
    world.fake("cloudformation").refusing.clear()
    assert world.abandon().outcome == "abandoned"
    assert world.fake("cloudformation").deleted == ["run-monitoring", "run-compute", "run-hot"]


def test_a_release_that_runs_is_not_cut_off() -> None:
    world = World()
    world.machine.put({"workload": "run", "action": "release", "leave": []})
    with pytest.raises(RefusedError, match="a release of run is running"):
        world.abandon()
    assert world.fake("cloudformation").deleted == []


def test_names_of_executions_that_are_taken_by_ended_ones_do_not_stop_it() -> None:
    """A machine that was deleted and made anew, or a listing that is late: names stay taken for 90 days."""
    world = World()
    assert world.release().outcome == "released"
    world.machine.hidden = 10**6
    before = [each["name"] for each in world.machine.executions]
    world.machine.executions.insert(0, {**world.machine.executions[0], "name": "of another one"})
    assert world.release().outcome == "released"
    assert len({each["name"] for each in world.machine.executions}) == len(before) + 3


def test_an_override_reaches_the_file_system_of_a_stack_whose_creation_failed() -> None:
    world = World()
    stack = world.fake("cloudformation").stacks["run-hot"]
    stack.update(StackStatus="ROLLBACK_FAILED", Outputs=[])
    stack["resources"] = [{"ResourceType": "AWS::EC2::Subnet", "PhysicalResourceId": f"{each}"} for each in range(100)]
    stack["resources"] += [{"ResourceType": "AWS::FSx::FileSystem", "PhysicalResourceId": "fs-1"}]
    assert world.abandon().outcome == "abandoned"
    found = proofs.read(world, "lake", "fs-1")
    assert found is not None
    assert found.kind == "override"
