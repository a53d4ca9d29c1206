"""The release of directory buckets and of local disks: the same promise, with what each tier can say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.life.fake_aws import FakeAws
from tests.life.fake_s3 import moment
from tests.life.release_world import LAKE, NAME, TAGS, drive
from training_storage.node import places
from training_storage.node.checkpoints import records
from training_storage.node.checkpoints.model import Record, RecordedFile
from training_storage.node.checkpoints.run_once import run_once
from training_storage.node.checkpoints.tree import BucketTree
from training_storage.node.release import proof as proofs
from training_storage.node.settings import Settings
from training_storage.node.sharding import bucket_index

HOT = ("hot-0--use1-az4--x-s3", "hot-1--use1-az4--x-s3")


class Tier:
    """A run without a shared file system."""

    def __init__(self, tier: str) -> None:
        self.aws = FakeAws()
        for name in (LAKE, *HOT):
            self.aws.s3.make(name)
        self.settings = Settings.from_dict(
            {
                "workload": NAME,
                "region": "us-east-1",
                "tier": tier,
                "lake_bucket": LAKE,
                "hot_buckets": HOT if tier == "express" else (),
                "checkpoints": "" if tier == "express" else "/opt/dlami/nvme/checkpoints",
                "policy": {"keep_hot": 2, "promote_every": 3},
            }
        )
        self.status()
        stacks = self.aws.cloudformation
        stacks.make(f"{NAME}-compute")
        if tier == "express":
            resources = [
                {
                    "ResourceType": "AWS::S3Express::DirectoryBucket",
                    "PhysicalResourceId": each,
                    "LogicalResourceId": each,
                }
                for each in HOT
            ]
            stacks.make(f"{NAME}-hot", {"DirectoryBucketNames": ",".join(HOT)}, resources)
        stacks.on_delete = self._goes
        self.aws.machines.group(f"{NAME}-fleet", TAGS, 2 if tier == "nvme" else 0, 8)
        self.lost: dict[str, bytes] = {}
        self.aws.sleep(3600)

    def status(self, **more: Any) -> None:
        """Write the status that an agent leaves."""
        body = {"workload": NAME, "written_at": self.aws.now, "settings": self.settings.to_dict(), **more}
        self.aws.s3.put_object(Bucket=LAKE, Key=places.status_key(NAME), Body=json.dumps(body))

    def _goes(self, name: str) -> None:
        if name.endswith("-hot"):
            self.lost = self.hot()
        if name.endswith("-compute"):
            self.aws.machines.group(f"{NAME}-fleet", TAGS, 0, 8)

    def hot(self) -> dict[str, bytes]:
        """Return every object of the directory buckets."""
        return {key: body for each in HOT for key, body in self.aws.s3.content(each).items()}

    def put(self, key: str, body: bytes = b"x", *, lake: bool = False) -> None:
        """Put an object into its directory bucket, and into the lake before."""
        if lake:
            self.aws.s3.put_object(Bucket=LAKE, Key=key, Body=body)
        self.aws.s3.put_object(Bucket=HOT[bucket_index(key, 2)], Key=key, Body=body)

    def fill(self) -> None:
        """Write what a run leaves."""
        self.put("datasets/a.tar", b"data", lake=True)
        for step in range(1, 6):
            for name in ("rank0.pt", "rank1.pt", "COMPLETE"):
                self.put(f"checkpoints/run1/step-{step}/{name}", f"{step} {name}".encode())
            self.aws.sleep(60)
        self.put("checkpoints/run1/config.json", b"{}")
        self.put("scratch/tmp", b"0")
        self.aws.sleep(600)

    def release(self, action: str = "release", before: Any = lambda _step: None, **given: Any) -> dict[str, Any]:
        """Drive the steps."""
        return drive(self.aws, NAME, action, before=before, **given)


def test_directory_buckets_go_when_the_lake_holds_what_they_must_leave() -> None:
    made = Tier("express")
    made.fill()
    state = made.release()
    assert state["status"] == "done", state
    assert made.aws.cloudformation.deleted == [f"{NAME}-compute", f"{NAME}-hot"]
    lake = made.aws.s3.content(LAKE)
    kept = {
        key for key in made.lost if "/step-3/" in key or "/step-5/" in key or key.endswith(("config.json", "a.tar"))
    }
    assert {key: lake[key] for key in kept} == {key: made.lost[key] for key in kept}
    assert not any("/step-4/" in key for key in lake)
    found = proofs.read(made.aws, LAKE, NAME)
    assert found is not None
    assert (found.files, found.left["unpromoted"]["files"], found.left["scratch"]["files"]) == (8, 9, 1)


def test_an_object_that_is_not_in_the_lake_keeps_the_buckets_unless_it_is_named() -> None:
    made = Tier("express")
    made.fill()
    made.put("datasets/new.tar", b"0" * 3000)
    made.put("datasets/other.tar", b"one", lake=True)
    made.aws.s3.put_object(Bucket=LAKE, Key="datasets/other.tar", Body=b"another")
    made.aws.sleep(60)
    state = made.release()
    assert state["status"] == "refused"
    assert "2 objects (3.0 kB)" in state["refused"]
    assert sorted(each.partition(": ")[0].rpartition("/")[2] for each in state["blocking"]) == ["new.tar", "other.tar"]
    assert made.aws.cloudformation.deleted == []
    assert made.release("check", leave=["datasets/new.tar", "/datasets/other.tar"])["status"] == "done"
    assert made.release(leave=["datasets"])["status"] == "done"


@pytest.mark.parametrize("step", ["compare", "quiet-again"])
def test_an_object_written_while_the_release_runs_keeps_the_buckets(step: str) -> None:
    made = Tier("express")
    made.fill()
    state = made.release(before=lambda now: made.put("checkpoints/run1/late.txt") if now == step else None)
    assert state["status"] == "refused"
    assert "checkpoints/run1/late.txt was written" in state["refused"]
    assert f"{NAME}-hot" in made.aws.cloudformation.stacks
    made.aws.sleep(60)
    assert made.release()["status"] == "done"
    assert made.aws.s3.content(LAKE)["checkpoints/run1/late.txt"] == b"x"


def test_a_release_of_buckets_goes_on_where_a_call_had_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.life.fake_s3.PAGE", 3)
    monkeypatch.setattr("training_storage.node.release.steps.CALL_S", 0.0)
    made = Tier("express")
    made.fill()
    state = made.release("check")
    assert state["status"] == "done", state
    assert state["found"]["keep"]["files"] == 8


def test_a_proof_of_buckets_is_confirmed_and_worthless_once_somebody_wrote() -> None:
    made = Tier("express")
    made.fill()
    proven = made.release("prove")["proof"]["valid_from"]
    made.aws.sleep(60)
    made.put("checkpoints/run1/late.txt")
    assert made.release(proof=proven)["status"] == "refused"
    made.aws.sleep(60)
    proven = made.release("prove")["proof"]["valid_from"]
    assert made.release(proof=proven)["status"] == "done"


def test_without_a_status_nobody_knows_what_to_keep() -> None:
    made = Tier("express")
    made.aws.s3.delete_object(Bucket=LAKE, Key=places.status_key(NAME))
    state = made.release()
    assert state["status"] == "refused"
    assert "has left no status" in state["refused"]
    assert "`training-storage checkpoints promote" in state["refused"]


# -- local disks


def _promoted(made: Tier, path: str) -> dict[str, Any]:
    """Put a checkpoint and its record into the lake, and return what a status says of it."""
    files = []
    for name in ("rank0.pt", "rank1.pt", "COMPLETE"):
        stored = made.aws.s3.put_object(Bucket=LAKE, Key=f"checkpoints/{path}/{name}", Body=b"abc")
        files.append(RecordedFile(f"{path}/{name}", 3, 1, stored["ETag"].strip('"')))
    record = Record(path, "run1", "marker", 3, 1, "5eed", "every", "upload", "", {}, tuple(files))
    records.write(made.aws, LAKE, record)
    about = {"path": path, "series": "run1", "promoted": True, "complete": True, "files": 3, "size": 9}
    return {**about, "due": "every", "fingerprint": "5eed", "modified_ns": 1, "missing": ""}


def flushing(made: Tier, *, unsaved: tuple[str, ...] = (), new_later: bool = False) -> list[str]:
    asked: list[str] = []

    def flush(instance: str, text: str) -> tuple[int, str, str]:
        asked.append(text)
        command_id = text.split()[-1]
        steps = [3, 5, *([7] if new_later and "flush-again" in text else [])]
        seen = [_promoted(made, f"run1/step-{each}") for each in steps]
        made.status(checkpoints=seen, unsaved=list(unsaved))
        counts = {"files": 6, "bytes": 18}
        answer = {
            "elected": True,
            "checkpoints": seen,
            "unsaved": list(unsaved),
            "disk": {**counts, "classes": {"keep": counts}},
        }
        body = json.dumps({"state": "done", "exit_code": 0, "answer": answer, "message": ""})
        made.aws.s3.put_object(Bucket=LAKE, Key=f"{places.ANSWERS}{command_id}/{instance}.json", Body=body)
        return 0, "", ""

    made.aws.machines.run = flush
    return asked


def test_local_disks_go_when_every_node_has_uploaded_what_is_due() -> None:
    made = Tier("nvme")
    asked = flushing(made)
    state = made.release()
    assert state["status"] == "done", state
    assert made.aws.cloudformation.deleted == [f"{NAME}-compute"]
    assert state["proof"]["files"] == 6
    assert len(asked) == 4  # two nodes, before the proof and before they go


def test_a_checkpoint_that_could_not_be_saved_keeps_the_nodes() -> None:
    made = Tier("nvme")
    flushing(made, unsaved=("run1/step-9",))
    state = made.release()
    assert (state["status"], state["blocking"]) == ("refused", ["run1/step-9"])
    assert made.aws.cloudformation.deleted == []


def test_a_job_that_goes_on_keeps_the_nodes() -> None:
    made = Tier("nvme")
    flushing(made, new_later=True)
    state = made.release()
    assert state["status"] == "refused"
    assert "written after the proof" in state["refused"]
    assert made.aws.cloudformation.deleted == []


def test_a_node_that_takes_no_commands_keeps_the_nodes() -> None:
    made = Tier("nvme")
    flushing(made)
    made.aws.machines.online = False
    state = made.release()
    assert state["status"] == "refused"
    assert "take no commands" in state["refused"]


def test_what_nodes_that_are_gone_never_brought_has_to_be_named() -> None:
    made = Tier("nvme")
    made.status(unsaved=["run1/step-9"])
    made.aws.machines.group(f"{NAME}-fleet", TAGS, 0, 8)
    state = made.release()
    assert (state["status"], state["blocking"]) == ("refused", ["run1/step-9: it was never in the lake"])
    assert "nodes that are gone, and are lost" in state["refused"]
    assert made.aws.cloudformation.deleted == []
    assert made.release(leave=["/opt/dlami/nvme/checkpoints/run1/step-9"])["status"] == "done"
    assert made.aws.cloudformation.deleted == [f"{NAME}-compute"]


# -- directory buckets: what was promoted before, what is large, what an earlier run proved


def _promoted_by_hand(made: Tier) -> None:
    run_once(
        made.aws,
        made.settings,
        BucketTree(made.aws, HOT, "checkpoints/"),
        node="i-1",
        clock=made.aws.clock,
        sleep=made.aws.sleep,
        prune=False,
        asked=frozenset({"run1/step-4"}),
    )
    made.aws.sleep(600)


@pytest.mark.parametrize("step", ["step-3", "step-4"])
def test_what_was_promoted_and_is_no_longer_in_the_lake_is_brought_there_again(step: str) -> None:
    """Also what the policy would not want there: somebody promoted it by hand."""
    made = Tier("express")
    made.fill()
    _promoted_by_hand(made)
    for name in ("rank0.pt", "COMPLETE"):
        made.aws.s3.delete_object(Bucket=LAKE, Key=f"checkpoints/run1/{step}/{name}")
    state = made.release()
    assert state["status"] == "done", state
    lake = made.aws.s3.content(LAKE)
    assert {key: lake[key] for key in made.lost if f"/{step}/" in key} == {
        key: body for key, body in made.lost.items() if f"/{step}/" in key
    }


@pytest.mark.parametrize("step", ["step-3", "step-4"])
def test_what_was_promoted_and_went_from_the_lake_after_the_proof_keeps_the_buckets(step: str) -> None:
    made = Tier("express")
    made.fill()
    _promoted_by_hand(made)
    proven = made.release("prove")["proof"]["valid_from"]
    made.aws.s3.delete_object(Bucket=LAKE, Key=f"checkpoints/run1/{step}/rank0.pt")
    state = made.release(proof=proven)
    assert state["status"] == "refused"
    assert step in json.dumps(state["blocking"])
    assert made.release()["status"] == "done"


def test_a_large_object_that_belongs_to_no_checkpoint_is_copied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training_storage.node.checkpoints.promotion_copy.LARGEST", 10)
    monkeypatch.setattr("training_storage.node.checkpoints.promotion_copy.PART", 8)
    made = Tier("express")
    made.fill()
    made.put("checkpoints/run1/tokenizer.bin", b"0123456789abcdef0")
    made.aws.sleep(600)
    state = made.release()
    assert state["status"] == "done", state
    assert made.aws.s3.content(LAKE)["checkpoints/run1/tokenizer.bin"] == b"0123456789abcdef0"


def test_a_proof_of_an_earlier_run_of_the_same_name_is_none_of_this_one() -> None:
    """Buckets have no id that tells runs apart; a delete by hand had begun, so that a proof was looked for."""
    made = Tier("express")
    made.fill()
    assert made.release()["status"] == "done"
    again = Tier("express")
    again.aws.now = made.aws.now + 86_400
    proof = made.aws.s3.get_object(Bucket=LAKE, Key=places.proof_key(NAME))["Body"].read()
    again.aws.s3.put_object(Bucket=LAKE, Key=places.proof_key(NAME), Body=proof)
    for name in (f"{NAME}-compute", f"{NAME}-hot"):
        again.aws.cloudformation.stacks[name]["CreationTime"] = moment(again.aws.now)
    again.aws.cloudformation.stacks[f"{NAME}-compute"]["StackStatus"] = "DELETE_FAILED"
    again.fill()
    state = again.release()
    assert state["status"] == "done", state
    assert again.aws.s3.content(LAKE)["checkpoints/run1/step-5/rank0.pt"]


def test_what_was_written_after_a_proof_that_was_acted_on_is_proven_anew() -> None:
    made = Tier("express")
    made.fill()
    made.aws.cloudformation.refusing = {f"{NAME}-compute": "busy"}
    assert "busy" in made.release()["refused"]
    made.aws.sleep(60)
    made.put("checkpoints/run1/late.txt")
    made.aws.sleep(60)
    made.aws.cloudformation.refusing = {}
    state = made.release()
    assert state["status"] == "done", state
    assert made.aws.s3.content(LAKE)["checkpoints/run1/late.txt"] == b"x"


def test_an_object_that_was_changed_in_place_is_told_by_its_checksum() -> None:
    made = Tier("express")
    made.fill()
    made.put("datasets/index.bin", b"first", lake=True)
    made.put("datasets/index.bin", b"other")
    made.aws.sleep(600)
    state = made.release()
    assert state["status"] == "refused", state
    assert "index.bin: has another content" in json.dumps(state["blocking"])
    assert made.release(leave=["/datasets/index.bin"])["status"] == "done"


def test_buckets_of_this_run_are_looked_at_and_not_those_of_the_run_before() -> None:
    """Names end in a part of the stack's id: what the agent of an earlier run left speaks of buckets that are gone."""
    made = Tier("express")
    made.fill()
    status = json.loads(made.aws.s3.get_object(Bucket=LAKE, Key=places.status_key(NAME))["Body"].read())
    status["settings"]["hot_buckets"] = ["old-0--use1-az4--x-s3", "old-1--use1-az4--x-s3"]
    made.aws.s3.put_object(Bucket=LAKE, Key=places.status_key(NAME), Body=json.dumps(status))
    state = made.release()
    assert state["status"] == "done", state
    assert made.aws.s3.content(LAKE)["checkpoints/run1/step-5/rank0.pt"]
    assert state["proof"]["files"] == 8


def test_buckets_of_a_stack_without_outputs_are_part_of_it() -> None:
    """A stack whose creation failed has none."""
    made = Tier("express")
    made.fill()
    made.aws.cloudformation.stacks[f"{NAME}-hot"].update(StackStatus="ROLLBACK_FAILED", Outputs=[])
    assert made.release()["status"] == "done"
    assert made.aws.s3.content(LAKE)["checkpoints/run1/step-5/rank0.pt"]


def test_a_delete_that_stopped_between_two_buckets_goes_on() -> None:
    made = Tier("express")
    made.fill()
    made.aws.cloudformation.refusing = {f"{NAME}-hot": "busy"}
    assert "busy" in made.release()["refused"]
    hot = made.aws.cloudformation.stacks[f"{NAME}-hot"]
    hot["resources"][0]["ResourceStatus"] = "DELETE_COMPLETE"
    del made.aws.s3.buckets[HOT[0]]
    made.aws.cloudformation.on_delete = lambda _name: None
    made.aws.cloudformation.refusing = {}
    state = made.release()
    assert state["status"] == "done", state
    assert f"{NAME}-hot" not in made.aws.cloudformation.stacks


def test_a_delete_that_stopped_between_two_buckets_sees_what_was_written_since() -> None:
    made = Tier("express")
    made.fill()
    made.aws.cloudformation.refusing = {f"{NAME}-hot": "busy"}
    assert "busy" in made.release()["refused"]
    hot = made.aws.cloudformation.stacks[f"{NAME}-hot"]
    hot["resources"][0]["ResourceStatus"] = "DELETE_COMPLETE"
    del made.aws.s3.buckets[HOT[0]]
    made.aws.sleep(60)
    made.aws.s3.put_object(Bucket=HOT[1], Key="results/late.bin", Body=b"late")
    made.aws.sleep(60)
    made.aws.cloudformation.refusing = {}
    state = made.release()
    assert state["status"] == "refused", state
    assert f"{NAME}-hot" in made.aws.cloudformation.stacks
