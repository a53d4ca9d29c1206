"""The steps of a release: what they refuse, what they wait for, and that they delete nothing on doubt."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.life.fake_s3 import error
from tests.life.faults import Faulty
from tests.life.release_world import LAKE, NAME, TAGS, World, world
from training_storage.lifecycle._release_definition import definition
from training_storage.node import places
from training_storage.node.functions.release import index
from training_storage.node.release import proof as proofs
from training_storage.node.release.steps import STEPS

ORDER = [f"{NAME}-monitoring", f"{NAME}-compute", f"{NAME}-hot"]


def _refused(made: World, state: dict[str, Any], *words: str) -> None:
    assert state["status"] == "refused", state
    for each in words:
        assert each in state["refused"] + json.dumps(state["blocking"])
    assert made.aws.cloudformation.deleted == []
    assert not made.gone


def _task(made: World, **given: Any) -> str:
    made.aws.fsx.tasks.append(
        {
            "TaskId": "task-0123456789abcdef0",
            "FileSystemId": made.id,
            "Type": "EXPORT_TO_REPOSITORY",
            "Paths": [],
            "Report": {"Enabled": False},
            "Tags": [],
            "_token": None,
            "_looks": 10**6,
            **given,
        }
    )
    return "task-0123456789abcdef0"


def test_steps_are_the_states_of_the_machine() -> None:
    states = json.loads(definition("arn:aws:lambda:us-east-1:111111111111:function:f", "aws", empties=True))
    assert [each for each in states["States"] if each in STEPS] == list(STEPS)
    assert states["StartAt"] == next(iter(STEPS))


def test_what_is_waited_for_is_no_refusal() -> None:
    """While there is time left, nobody is told that something is over, or what to do then."""
    with world() as made:
        made.fill()
        made.train("checkpoints/run1/late.json")
        assert made.release()["status"] == "done"
        assert any("it has to be quiet for 3 minutes" in each for each in made.waits)
        assert f"stack {NAME}-hot is being deleted" in made.waits
        for each in made.waits:
            assert each
            assert "run the release again" not in each.lower()
            assert "more than" not in each


# -- field report 19: a file system cannot be deleted while a data task is running or cancelling


@pytest.mark.parametrize("lifecycle", ["PENDING", "EXECUTING", "CANCELING"])
def test_report_19_a_task_that_has_not_ended_is_named_and_nothing_is_deleted(lifecycle: str) -> None:
    with world() as made:
        made.fill()
        task = _task(made, Lifecycle=lifecycle, Type="IMPORT_METADATA_FROM_REPOSITORY")
        faulty = Faulty(made.aws, None)
        state = made.release(aws=faulty)
        _refused(made, state, task, "IMPORT_METADATA_FROM_REPOSITORY", "cancels no task")
        assert not {"cloudformation.delete_stack", "fsx.cancel_data_repository_task"} & set(faulty.calls)


def test_report_19_tasks_that_have_ended_and_an_empty_queue_let_it_go_on() -> None:
    with world() as made:
        made.fill()
        _task(made, Lifecycle="SUCCEEDED")
        made.aws.cloudwatch.record("AgeOfOldestQueuedMessage", made.id, 0.0, Publisher="AutoExport")
        made.aws.sleep(180)
        assert made.release()["status"] == "done"
        assert made.aws.cloudformation.deleted == ORDER


def test_report_19_failed_files_stop_it_and_the_report_is_named() -> None:
    with world() as made:
        made.fill()
        made.aws.fsx.failing = {"checkpoints/run1/step-5/rank1.pt": "S3AccessDenied"}
        state = made.release()
        _refused(
            made, state, "rank1.pt (S3AccessDenied)", f"s3://{LAKE}/checkpoints/.training-storage/task-", "failures.csv"
        )
        assert made.release()["status"] == "done"


def test_report_19_an_association_that_is_not_available_stops_it() -> None:
    with world() as made:
        made.fill()
        made.aws.fsx.links[1]["Lifecycle"] = "MISCONFIGURED"
        _refused(made, made.release(), made.aws.fsx.links[1]["AssociationId"], "MISCONFIGURED")


def test_report_19_an_export_queue_that_is_not_empty_stops_it() -> None:
    with world() as made:
        made.fill()
        made.aws.cloudwatch.record("AgeOfOldestQueuedMessage", made.id, 75.0, Publisher="AutoExport")
        made.aws.sleep(180)
        _refused(made, made.release(), "75 seconds", "AgeOfOldestQueuedMessage")


def test_report_19_a_task_that_begins_after_the_proof_keeps_the_file_system() -> None:
    with world() as made:
        made.fill()

        def starts(now: str) -> None:
            if now == "delete-compute":
                _task(made, Lifecycle="EXECUTING")

        state = made.release(before=starts)
        assert state["status"] == "refused"
        assert "task-0123456789abcdef0" in state["refused"]
        assert not made.gone


# -- what would be lost


@pytest.mark.parametrize("path", ["datasets/new.tar", "results/a.csv"])
def test_what_is_not_in_s3_stops_it_unless_it_is_named(path: str) -> None:
    with world() as made:
        made.fill()
        made.write(path, b"0" * 2000)
        _refused(made, made.release("check"), f"/fsx/{path.split('/')[0]}", "2.0 kB", "--leave")
        assert not made.aws.fsx.tasks
        state = made.release(leave=[f"/fsx/{path}"])
        assert state["status"] == "done"
        assert state["proof"]["left"]["left"]["bytes"] == 2000


def test_check_changes_nothing_and_lets_the_storage_node_go() -> None:
    with world() as made:
        made.fill()
        before = made.content(), made.lake()
        state = made.release("check")
        assert (state["status"], state["found"]["keep"]["files"]) == ("done", 7)
        assert (made.content(), made.lake()) == before
        assert not made.aws.machines.instances
        assert proofs.read(made.aws, LAKE, made.id) is None


def test_an_object_that_is_lost_after_the_export_stops_it() -> None:
    with world() as made:
        made.fill()

        def lose(now: str) -> None:
            if now == "compare":
                made.aws.s3.delete_object(Bucket=LAKE, Key="checkpoints/run1/step-5/rank0.pt")

        _refused(made, made.release(before=lose), "step-5/rank0.pt", "is not there")


def test_an_object_of_another_version_of_the_file_stops_it() -> None:
    with world() as made:
        made.fill()

        def swap(now: str) -> None:
            if now == "compare":
                body = made.aws.s3.content(LAKE)["checkpoints/run1/config.json"]
                made.aws.s3.put_object(
                    Bucket=LAKE, Key="checkpoints/run1/config.json", Body=body, Metadata={"file-mtime": "1000000000ns"}
                )

        _refused(made, made.release(before=swap), "another version")


def test_links_that_export_by_themselves_are_waited_for() -> None:
    with world(exports=True) as made:
        made.fill()

        def arrive(now: str) -> None:
            if now == "compare":
                for path in made.aws.fsx.files(made.id, "checkpoints") or ():
                    if ".training-storage" not in path:
                        made.aws.fsx.export(made.id, path)

        state = made.release(before=arrive)
        assert state["status"] == "done"
        assert not made.aws.fsx.tasks
    with world(exports=True) as made:
        made.fill()
        _refused(made, made.release(), "are not in S3")


def test_a_proof_is_confirmed_and_acted_on_without_a_node() -> None:
    with world() as made:
        made.fill()
        proven = made.release("prove")
        assert proven["status"] == "done"
        assert not made.aws.machines.instances
        assert made.aws.cloudformation.deleted == []
        made.aws.sleep(900)
        faulty = Faulty(made.aws, None)
        state = made.release(proof=proven["proof"]["valid_from"], aws=faulty)
        assert state["status"] == "done"
        assert made.aws.cloudformation.deleted == ORDER
        assert not {"ssm.send_command", "fsx.create_data_repository_task"} & set(faulty.calls)


def test_a_proof_is_worthless_once_somebody_wrote() -> None:
    with world() as made:
        made.fill()
        proven = made.release("prove")["proof"]["valid_from"]
        made.aws.sleep(600)
        made.train("checkpoints/run1/late.txt")
        made.aws.sleep(600)
        _refused(made, made.release(proof=proven), "after the proof that was confirmed")
        _refused(made, made.release(proof=proven - 1), "is not the last one")


def test_what_a_proof_rests_on_is_looked_at_once_more() -> None:
    with world() as made:
        made.fill()
        proven = made.release("prove")["proof"]["valid_from"]
        made.aws.s3.delete_object(Bucket=LAKE, Key="checkpoints/run1/config.json")
        _refused(made, made.release(proof=proven), "config.json")


def test_without_datapoints_nothing_is_deleted() -> None:
    with world() as made:
        made.fill()
        made.aws.cloudwatch.silent = True
        _refused(made, made.release(), "no datapoints")


def test_a_stack_that_does_not_go_says_why_and_a_second_run_goes_on() -> None:
    with world() as made:
        made.fill()
        made.aws.cloudformation.refusing = {f"{NAME}-hot": "subnet has dependencies"}
        state = made.release()
        assert state["status"] == "refused"
        assert "Guard: subnet has dependencies" in state["refused"]
        assert made.aws.cloudformation.deleted == ORDER[:2]
        made.aws.cloudformation.refusing = {}
        made.aws.fsx.links.clear()  # they go before the file system, and do not come back
        proven = made.release("prove")
        assert proven["proof"]["valid_from"] == state["proof"]["valid_from"]
        faulty = Faulty(made.aws, None)
        assert made.release(aws=faulty)["status"] == "done"
        assert "ssm.send_command" not in faulty.calls  # the proof still holds
        assert made.gone


def test_a_stack_of_the_same_name_that_was_made_meanwhile_stays() -> None:
    with world() as made:
        made.fill()

        def again(now: str) -> None:
            if now == "delete-compute":
                made.aws.cloudformation.stacks[f"{NAME}-compute"]["StackId"] = "arn:aws:cloudformation:r:1:stack/new/1"

        assert made.release(before=again)["status"] == "done"
        assert made.aws.cloudformation.deleted == [f"{NAME}-monitoring", f"{NAME}-hot"]


def test_denied_calls_are_named() -> None:
    with world() as made:
        made.fill()

        class Denied(Faulty):
            def _call(self, service: str, name: str, method: Any, given: Any) -> Any:
                if name == "create_data_repository_task":
                    raise error("AccessDeniedException", "CreateDataRepositoryTask", "no rights", 400)
                return super()._call(service, name, method, given)

        _refused(made, made.release(aws=Denied(made.aws, None)), "CreateDataRepositoryTask", "Allow it")
        assert not made.aws.machines.instances


def test_a_storage_node_that_does_not_come_is_given_up() -> None:
    with world() as made:
        made.fill()
        made.aws.machines.online = False
        began = made.aws.now
        _refused(made, made.release(), "not online after 45 minutes")
        assert made.aws.now - began < 3600
        assert not made.aws.machines.instances
        del made.aws.machines.groups[f"{NAME}-storage-node"]
        _refused(made, made.release(), "there is no storage node")


def test_a_node_that_is_lost_is_replaced() -> None:
    with world(fleet=2) as made:
        made.fill()
        first = sorted(made.aws.machines.instances)[0]
        run = made.aws.machines.run

        def dies(instance: str, text: str) -> tuple[int, str, str]:
            if instance == first and "manifest" in text:
                made.aws.machines.stop(first)
                return 137, "", ""
            return run(instance, text)

        made.aws.machines.run = dies
        assert made.release()["status"] == "done"


def test_a_node_that_is_gone_when_it_is_asked_is_replaced() -> None:
    with world(fleet=2) as made:
        made.fill()
        first = sorted(made.aws.machines.instances)[0]

        def dies(now: str) -> None:
            if now == "survey":
                made.aws.machines.stop(first)

        assert made.release(before=dies)["status"] == "done"
        assert any(f"{first} is gone" in each for each in made.waits)


def test_a_node_that_boots_for_long_may_fail_once() -> None:
    """What was sent before its agent was there is no try of three."""
    with world(fleet=1) as made:
        made.fill()
        run, sent = made.aws.machines.run, [0]

        def boots(instance: str, text: str) -> tuple[int, str, str]:
            sent[0] += 1
            return (
                (127, "", "no such file") if sent[0] <= 4 else (1, "", "odd") if sent[0] == 5 else run(instance, text)
            )

        made.aws.machines.run = boots
        assert made.release()["status"] == "done"


def test_a_file_system_among_many_resources_is_seen() -> None:
    """CloudFormation lists a hundred at a time."""
    with world() as made:
        made.fill()
        stack = made.aws.cloudformation.stacks[f"{NAME}-hot"]
        many = [
            {
                "ResourceType": "AWS::EC2::Subnet",
                "PhysicalResourceId": f"subnet-{each}",
                "LogicalResourceId": f"S{each}",
            }
            for each in range(250)
        ]
        stack["resources"] = [*many, *stack["resources"]]
        assert made.release("prove")["tier"] == "lustre"


def test_a_manifest_that_another_release_wrote_is_none_of_the_proof() -> None:
    """One that was to leave more behind compared less."""
    with world() as made:
        made.fill()
        proof = made.release("prove")["proof"]
        made.aws.sleep(4000)

        def stop(now: str) -> None:
            if now == "compare":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            made.release("prove", leave=["/checkpoints"], before=stop)
        _refused(made, made.release(proof=proof["valid_from"]), "no longer that of the proof")
        proof = made.release("prove")["proof"]
        assert made.release(proof=proof["valid_from"])["status"] == "done"


def test_a_release_that_began_to_delete_proves_anew_where_its_manifest_is_gone() -> None:
    with world() as made:
        made.fill()
        made.aws.cloudformation.refusing = {f"{NAME}-hot": "subnet has dependencies"}
        first = made.release()["proof"]
        made.aws.cloudformation.refusing = {}
        made.aws.s3.delete_object(Bucket=LAKE, Key=places.manifest_key(made.id))
        made.aws.sleep(4000)
        ended = made.release()
        assert ended["status"] == "done"
        assert ended["proof"]["valid_from"] > first["valid_from"]
        assert made.gone


def test_idle_means_that_nobody_was_there() -> None:
    with world(fleet=1) as made:
        made.fill()
        made.aws.sleep(13 * 3600)
        state = made.release(idle_hours=12)
        _refused(made, state, "not idle")
        assert state["quiet"] is True
        made.aws.machines.group(f"{NAME}-fleet", TAGS, 0, 8)
        made.aws.cloudwatch.record("ClientConnections", made.id, 1.0)
        made.aws.sleep(11 * 3600)
        _refused(made, made.release(idle_hours=12), "clients used")
        made.aws.sleep(2 * 3600)
        assert made.release(idle_hours=12)["status"] == "done"


def test_the_hourly_look_leaves_a_release_that_is_under_way_alone() -> None:
    """Also the half hour in which somebody reads a proof."""
    with world() as made:
        made.fill()
        made.aws.sleep(24 * 3600)
        hourly: list[dict[str, Any]] = []

        def look(now: str) -> None:
            if now == "compare":
                hourly.append(made.release(idle_hours=12))

        proof = made.release("prove", before=look)["proof"]
        hourly.append(made.release(idle_hours=12))
        assert [(each["status"], each["quiet"]) for each in hourly] == [("refused", True)] * 2
        assert made.aws.cloudformation.deleted == []
        assert made.release(proof=proof["valid_from"])["status"] == "done"


def test_nothing_deployed_is_nothing_to_release() -> None:
    with world() as made:
        made.aws.cloudformation.stacks.clear()
        state = made.release()
        assert (state["status"], state["message"]) == (
            "done",
            f"nothing of {NAME} is deployed: there is nothing to release",
        )


def test_a_file_system_of_the_user_stays() -> None:
    with world() as made:
        made.fill()
        made.aws.cloudformation.stacks[f"{NAME}-hot"]["resources"] = []
        made.aws.cloudformation.on_delete = lambda _name: None
        state = made.release()
        assert state["status"] == "done"
        assert f"{made.id} is yours: it stays" in json.dumps(state["proof"])
        assert made.aws.cloudformation.deleted == ORDER
        assert made.content()


def test_a_file_system_that_is_gone_leaves_stacks_to_delete() -> None:
    with world() as made:
        del made.aws.fsx.systems[made.id]
        assert made.release()["status"] == "done"
        assert made.aws.cloudformation.deleted == ORDER


def test_agents_are_held_until_a_proof_can_be_acted_on() -> None:
    from training_storage.node.release.hold import SECONDS, held_until

    with world(fleet=1) as made:
        made.fill()
        seen: dict[str, bool] = {}

        def agent() -> bool:
            """Take the lease, as the agent of a node does each minute: a file on the file system."""
            held = held_until(made.aws, LAKE, made.id, made.aws.clock) is not None
            if not held:
                made.train("checkpoints/.training-storage/lease/lease-0000000001.json")
            return held

        proven = made.release("prove", before=lambda step: seen.update({step: agent()}))
        assert seen["export"]
        assert seen["prove"]
        for _ in range(10):  # somebody reads the proof
            made.aws.sleep(60)
            agent()
        state = made.release(proof=proven["proof"]["valid_from"], before=lambda step: seen.update({step: agent()}))
        assert state["status"] == "done", state
    with world() as made:
        made.fill()
        made.release("prove")
        assert held_until(made.aws, LAKE, made.id, lambda: made.aws.now + SECONDS) is None  # nobody acted on it
        made.release("check")
        assert held_until(made.aws, LAKE, made.id, made.aws.clock) is None
        made.write("results/only-here.bin")
        assert made.release()["status"] == "refused"
        assert held_until(made.aws, LAKE, made.id, made.aws.clock) is None


@pytest.mark.parametrize("body", [b"{", b"{}", b"[]", b'"text"', b"null"])
def test_a_damaged_proof_lets_nothing_go(body: bytes) -> None:
    with world() as made:
        made.fill()
        made.aws.s3.put_object(Bucket=LAKE, Key=places.proof_key(made.id), Body=body)
        _refused(made, made.release(proof=made.aws.now), "cannot be read")


def test_a_stack_that_was_only_reviewed_goes_too() -> None:
    with world() as made:
        made.fill()
        made.aws.cloudformation.stacks[f"{NAME}-monitoring"]["StackStatus"] = "REVIEW_IN_PROGRESS"
        began = made.aws.now
        assert made.release()["status"] == "done"
        assert made.aws.now - began < 3600


def test_the_function_takes_input_and_state(monkeypatch: pytest.MonkeyPatch) -> None:
    with world() as made:
        monkeypatch.setattr(index, "_CLIENTS", [made.aws])
        monkeypatch.setenv("WORKLOAD", NAME)
        monkeypatch.setenv("LAKE_BUCKET", LAKE)
        made.aws.cloudformation.stacks.clear()
        state = index.handler({"step": "preconditions", "state": {"action": "prove", "leave": []}}, None)
        assert state["status"] == "done"
        state = index.handler({"step": "preconditions", "input": {"action": "destroy"}}, None)
        assert "'destroy'; allowed: check, prove, release" in state["refused"]


def test_the_state_stays_small_however_much_there_is() -> None:
    with world() as made:
        made.fill()
        for number in range(300):
            made.write(f"results/{'d' * 60}{number}/a.bin")
        state = made.release("check")
        assert state["status"] == "refused"
        assert len(json.dumps(state)) < 30_000
