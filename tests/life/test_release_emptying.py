"""A release that empties directory buckets: exactly what is proven goes, after the lake was looked at again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.life.emptying import HOT_STACK, Emptied
from tests.life.fake_s3 import error
from tests.life.faults import Killed
from tests.life.release_world import LAKE, NAME, TAGS
from tests.life.test_release_tiers import HOT, Tier
from training_storage.node import places
from training_storage.node.functions.release import index
from training_storage.node.release import proof as proofs
from training_storage.node.sharding import bucket_index

BEFORE = "empty-hot"
"""The step before which things happen: the last look whether anybody wrote is over."""


def at(step: str, act: Any) -> Any:
    return lambda now: act() if now == step else None


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make listings short, and calls that empty too: each does one thing."""
    monkeypatch.setattr("tests.life.fake_s3.PAGE", 3)
    monkeypatch.setattr("training_storage.node.release.express_empty.CALL_S", 0.0)


def removals(made: Emptied, act: Any, *, at_call: int = 0) -> list[list[str]]:
    """Do something right before a request to delete objects; return the keys of each request."""
    real, asked = made.aws.s3.delete_objects, []

    def delete_objects(**given: Any) -> Any:
        asked.append([each["Key"] for each in given["Delete"]["Objects"]])
        if len(asked) == at_call + 1:
            act()
        return real(**given)

    made.aws.s3.delete_objects = delete_objects  # type: ignore[method-assign]  # a trainer that writes meanwhile
    return asked


# -- what goes, and where


def test_buckets_are_emptied_of_what_is_proven_and_go_with_their_stack() -> None:
    made = Emptied()
    state = made.release()
    assert state["status"] == "done", state
    assert made.aws.cloudformation.deleted == [f"{NAME}-compute", HOT_STACK]
    assert made.hot() == {}
    made.nothing_lost()
    assert not any("/step-4/" in key for key in made.aws.s3.content(LAKE, "checkpoints/"))
    found = proofs.read(made.aws, LAKE, NAME)
    assert found is not None
    told = {key: found.removes[key] for key in ("objects", "bytes", "buckets")}
    assert told == {
        "objects": len(made.saved), "bytes": sum(map(len, made.saved.values())), "buckets": list(HOT),
    }  # fmt: skip


def test_a_call_does_what_it_can_and_says_how_far_it_is(pages: None) -> None:
    made = Emptied()
    state = made.release()
    assert state["status"] == "done", state
    total = len(made.saved)
    assert any(f"of {total} objects removed" in each for each in made.waits)
    assert any(f"of {total} objects in the lake once more" in each for each in made.waits)
    assert len(json.dumps(state)) < 8000
    made.nothing_lost()


def test_a_look_says_what_would_be_removed() -> None:
    made = Emptied()
    state = made.release("check")
    assert f"after the proof, {len(made.saved)} objects" in state["message"]
    assert "in 2 directory buckets are removed" in state["message"]
    assert "after the proof" not in Tier("express").release("check")["message"]
    assert made.hot() == made.saved
    made.release("prove")
    assert made.hot() == made.saved


@pytest.mark.parametrize("policy", ["Retain", "RetainExceptOnCreate", {"Fn::If": ["a", "Delete", "Retain"]}])
def test_buckets_that_the_stack_keeps_are_never_emptied(policy: Any) -> None:
    """Whatever the stack of the release says: it may be of another time than the hot stack."""
    made = Emptied()
    made._goes = lambda name: Tier._goes(made, name)  # type: ignore[method-assign]  # a bucket that is kept may hold anything
    made.aws.cloudformation.on_delete = made._goes
    for each in made.aws.cloudformation.stacks[HOT_STACK]["resources"]:
        each["policy"] = policy
    state = made.release()
    assert state["status"] == "done", state
    assert "removes" not in state["proof"]
    assert made.hot() == made.saved


def test_one_bucket_that_the_stack_keeps_stays_as_it_is() -> None:
    made = Emptied()
    made.aws.cloudformation.stacks[HOT_STACK]["resources"][0]["policy"] = "Retain"
    made.aws.cloudformation.on_delete = lambda name: Tier._goes(made, name)
    kept = made.aws.s3.content(HOT[0])
    state = made.release()
    assert state["status"] == "done", state
    assert kept
    assert (made.aws.s3.content(HOT[0]), made.aws.s3.content(HOT[1])) == (kept, {})
    assert state["proof"]["removes"]["buckets"] == [HOT[1]]


def test_a_bucket_that_the_stack_began_to_keep_after_the_proof_stays() -> None:
    made = Emptied()
    made.aws.cloudformation.on_delete = lambda name: Tier._goes(made, name)

    def keeps() -> None:
        for each in made.aws.cloudformation.stacks[HOT_STACK]["resources"]:
            each["policy"] = "Retain"

    assert made.release(before=at(BEFORE, keeps))["status"] == "done"
    assert made.hot() == made.saved


def test_a_template_that_cannot_be_read_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Emptied()
    made.aws.cloudformation.on_delete = lambda name: Tier._goes(made, name)
    yaml = {"TemplateBody": "Resources:\n  A: {Type: 'AWS::S3Express::DirectoryBucket'}\n"}
    monkeypatch.setattr(made.aws.cloudformation, "get_template", lambda **_given: yaml)
    assert made.release()["status"] == "done"
    assert made.hot() == made.saved


def test_nothing_is_emptied_unless_the_stack_of_the_release_says_so() -> None:
    made = Emptied()
    made.aws.cloudformation.on_delete = lambda name: Tier._goes(made, name)
    assert made.release(empties=False)["status"] == "done"
    assert made.hot() == made.saved


@pytest.mark.parametrize(("said", "empties"), [("true", True), ("false", False), ("", False), (None, False)])
def test_the_input_of_a_release_does_not_say_it(
    monkeypatch: pytest.MonkeyPatch, said: str | None, empties: bool
) -> None:
    given: list[dict[str, Any]] = []

    def work(_step: str, state: dict[str, Any], _aws: Any) -> dict[str, Any]:
        given.append(state)
        return {"status": "next"}

    monkeypatch.setattr(index, "run", work)
    monkeypatch.setattr(index, "_CLIENTS", [lambda _service: None])
    monkeypatch.setenv("WORKLOAD", NAME)
    monkeypatch.setenv("LAKE_BUCKET", LAKE)
    monkeypatch.delenv("EMPTIES_DIRECTORY_BUCKETS", raising=False)
    if said is not None:
        monkeypatch.setenv("EMPTIES_DIRECTORY_BUCKETS", said)
    index.handler({"step": "preconditions", "state": {"action": "release", "empties": not empties}}, None)
    assert given[0]["empties"] is empties


# -- what is not as it was proven


def _refused(made: Emptied, act: Any, name: str, *, step: str = BEFORE) -> None:
    """Let something happen before a step: the release is refused and names it, and nothing is removed."""
    seen: dict[str, bytes] = {}

    def acts() -> None:
        act()
        seen.update(made.hot())

    state = made.release(before=at(step, acts))
    assert state["status"] == "refused", state
    assert name in json.dumps([state["refused"], *state["blocking"]]), state
    assert made.hot() == seen
    assert not made.gone
    made.aws.sleep(60)
    state = made.release()
    assert state["status"] == "done", state
    made.nothing_lost()


def test_an_object_that_is_written_after_the_last_look_keeps_all() -> None:
    made = Emptied()
    _refused(made, lambda: made.put("checkpoints/run1/late.txt"), "checkpoints/run1/late.txt was written")
    assert made.aws.s3.content(LAKE)["checkpoints/run1/late.txt"] == b"x"


def test_an_object_that_is_written_again_after_the_last_look_keeps_all() -> None:
    made = Emptied()
    key = "checkpoints/run1/config.json"
    made.saved[key] = b"new"
    _refused(made, lambda: made.put(key, b"new"), "config.json was written")
    assert made.aws.s3.content(LAKE)["checkpoints/run1/config.json"] == b"new"


def test_an_object_that_is_renamed_and_so_keeps_its_time_keeps_all() -> None:
    made = Emptied()
    _refused(made, lambda: made.rename("scratch/tmp", "scratch/other"), "scratch/other")


def test_an_object_that_is_removed_by_somebody_else_is_none_to_remove() -> None:
    made = Emptied()
    bucket = HOT[bucket_index("scratch/tmp", 2)]
    state = made.release(before=at(BEFORE, lambda: made.aws.s3.delete_object(Bucket=bucket, Key="scratch/tmp")))
    assert state["status"] == "done", state


def test_more_objects_than_can_be_named_are_refused_without_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training_storage.node.release.express_empty.NAMED", 3)
    made = Emptied()
    state = made.release(before=at(BEFORE, lambda: made.rename("scratch/tmp", "scratch/other")))
    assert "do not hold what the proof covers" in state["refused"]
    assert made.hot().keys() - made.saved.keys() == {"scratch/other"}


@pytest.mark.parametrize("key", ["checkpoints/run1/step-5/rank0.pt", "checkpoints/run1/config.json"])
@pytest.mark.parametrize("change", ["gone", "other"])
def test_an_object_of_the_lake_that_is_not_as_it_was_proven_keeps_all(key: str, change: str) -> None:
    made = Emptied()

    def act() -> None:
        if change == "gone":
            made.aws.s3.delete_object(Bucket=LAKE, Key=key)
        else:
            made.aws.s3.put_object(Bucket=LAKE, Key=key, Body=b"?" * len(made.saved[key]))

    if change == "gone":
        _refused(made, act, key)
        return
    state = made.release(before=at(BEFORE, act))
    assert state["status"] == "refused"
    assert f"{key}: is another object in the lake" in state["blocking"]
    assert made.hot() == made.saved
    # Somebody has put another content there since. A checkpoint is promoted once more; what has no record is told.
    made.aws.sleep(60)
    state = made.release()
    if "step-5" in key:
        assert state["status"] == "done", state
        made.nothing_lost()
        return
    assert "config.json: has another content than in the lake" in json.dumps(state["blocking"])
    assert made.hot() == made.saved
    assert made.release(leave=[key])["status"] == "done"


def test_a_data_set_that_went_from_the_lake_keeps_all() -> None:
    made = Emptied()
    gone = at(BEFORE, lambda: made.aws.s3.delete_object(Bucket=LAKE, Key="datasets/a.tar"))
    assert "datasets/a.tar: is not in the lake" in made.release(before=gone)["blocking"]
    made.aws.sleep(60)
    state = made.release()
    assert state["status"] == "refused"
    assert "datasets/a.tar: is not in the lake" in json.dumps(state["blocking"])
    assert made.hot() == made.saved
    assert made.release(leave=["datasets/a.tar"])["status"] == "done"


def test_an_object_that_is_written_again_while_others_go_stays() -> None:
    made = Emptied()
    late = next(key for key in made.saved if key.endswith("rank1.pt") and "/step-2/" in key)
    asked = removals(made, lambda: made.put(late, b"again"))
    state = made.release()
    assert state["status"] == "refused", state
    assert any(late in each for each in state["blocking"])
    assert made.hot()[late] == b"again"
    made.nothing_lost()
    before = len(asked)
    made.aws.sleep(60)
    assert made.release()["status"] == "done"
    assert len(asked) > before
    made.nothing_lost()


def test_an_object_that_comes_while_others_go_ends_the_release() -> None:
    made = Emptied()
    removals(made, lambda: made.put("results/late.bin", b"late"))
    state = made.release()
    assert state["status"] == "refused", state
    assert "results/late.bin is not among what the proof covers" in state["refused"]
    assert made.hot() == {"results/late.bin": b"late"}
    made.aws.sleep(60)
    state = made.release()
    assert "results/late.bin" in json.dumps(state["blocking"])
    made.put("results/late.bin", b"late", lake=True)
    made.aws.sleep(60)
    assert made.release()["status"] == "done"


@pytest.mark.parametrize("change", ["list", "part"])
def test_a_list_that_is_not_that_of_the_proof_removes_nothing(change: str) -> None:
    made = Emptied()

    def act() -> None:
        (key, *_) = [each for each in made.aws.s3.content(LAKE, places.RELEASES) if "/manifest/" in each]
        body = made.aws.s3.content(LAKE)[key]
        if change == "part":
            made.aws.s3.delete_object(Bucket=LAKE, Key=key)
        else:
            made.aws.s3.put_object(Bucket=LAKE, Key=key, Body=body.splitlines()[0] + b"\n")

    state = made.release(before=at(BEFORE, act))
    assert state["status"] == "refused", state
    assert made.hot() == made.saved
    made.aws.sleep(60)
    assert made.release()["status"] == "done"


@pytest.mark.parametrize("body", [b"??", b"longer"])
def test_what_somebody_put_into_the_lake_since_is_not_replaced(body: bytes) -> None:
    made = Emptied()
    key = "checkpoints/run1/config.json"
    made.aws.s3.put_object(Bucket=LAKE, Key=key, Body=body)
    made.aws.sleep(60)
    for action in ("check", "release"):
        state = made.release(action)
        assert state["status"] == "refused", state
        assert "config.json: has" in json.dumps(state["blocking"])
    assert (made.aws.s3.content(LAKE)[key], made.hot()) == (body, made.saved)


def test_what_is_not_as_it_was_proven_is_proven_anew_also_where_its_stack_began_to_go() -> None:
    made = Emptied()
    key = "checkpoints/run1/config.json"

    def acts() -> None:
        made.aws.s3.delete_object(Bucket=LAKE, Key=key)
        made.aws.cloudformation.stacks[HOT_STACK]["StackStatus"] = "DELETE_FAILED"

    assert made.release(before=at(BEFORE, acts))["status"] == "refused"
    made.aws.sleep(60)
    assert made.release()["status"] == "done"
    made.nothing_lost()


def test_an_object_of_the_lake_that_changes_between_comparing_and_proving_is_told() -> None:
    """A checkpoint whose record agreed a moment ago."""
    made = Emptied()
    key = "checkpoints/run1/step-5/rank0.pt"
    real = made.aws.s3.list_objects_v2

    def list_objects_v2(**given: Any) -> Any:
        listed = real(**given)
        if armed and given["Bucket"] == HOT[0] and "Prefix" not in given:
            armed.clear()
            made.aws.s3.put_object(Bucket=LAKE, Key=key, Body=b"?" * len(made.saved[key]))
        return listed

    armed: list[int] = []
    made.aws.s3.list_objects_v2 = list_objects_v2  # type: ignore[method-assign]  # somebody who writes meanwhile
    state = made.release(before=at("compare", lambda: armed.append(1)))
    assert state["status"] == "refused", state
    assert f"{key}: has another content" in json.dumps(state["blocking"])
    assert made.hot() == made.saved


# -- uploads, odd keys, folders


def test_uploads_of_before_the_proof_are_ended_and_later_ones_keep_all() -> None:
    made = Emptied()
    made.aws.s3.create_multipart_upload(Bucket=HOT[0], Key="checkpoints/run1/step-9/rank0.pt")
    made.aws.sleep(60)

    def begins() -> None:
        made.aws.s3.create_multipart_upload(Bucket=HOT[1], Key="results/new.bin")

    state = made.release(before=at(BEFORE, begins))
    assert state["status"] == "refused"
    assert "results/new.bin (upload" in json.dumps(state["blocking"])
    assert made.hot() == made.saved
    made.aws.sleep(60)
    assert made.release()["status"] == "done"
    assert not any(made.aws.s3.buckets[each].uploads for each in HOT)


def test_a_key_that_no_batch_can_name_goes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Emptied()
    made.put("scratch/a\x01b", b"odd")
    made.aws.sleep(60)
    real = made.aws.s3.delete_objects

    def delete_objects(**given: Any) -> Any:
        if any("\x01" in each["Key"] for each in given["Delete"]["Objects"]):
            raise error("MalformedXML", "DeleteObjects")
        return real(**given)

    monkeypatch.setattr(made.aws.s3, "delete_objects", delete_objects)
    assert made.release()["status"] == "done"
    assert made.hot() == {}


@pytest.mark.parametrize(("code", "status"), [("SlowDown", "done"), ("AccessDenied", "refused")])
def test_what_s3_does_not_remove_is_tried_again_or_told(
    monkeypatch: pytest.MonkeyPatch, code: str, status: str
) -> None:
    made = Emptied()
    real, left = made.aws.s3.delete_objects, [1]

    def delete_objects(**given: Any) -> Any:
        if not left:
            return real(**given)
        left.pop()
        first, *rest = given["Delete"]["Objects"]
        answer = real(**{**given, "Delete": {"Objects": rest}}) if rest else {}
        return {**answer, "Errors": [{"Key": first["Key"], "Code": code, "Message": "no"}]}

    monkeypatch.setattr(made.aws.s3, "delete_objects", delete_objects)
    state = made.release()
    assert state["status"] == status, state
    if status == "refused":
        assert f": {code} no" in state["refused"]
        state = made.release()
    assert state["status"] == "done", state
    made.nothing_lost()


def test_names_of_folders_go_and_one_with_bytes_in_it_is_an_object() -> None:
    made = Emptied()
    made.put("scratch/", b"")
    made.put("results/", b"bytes")
    made.aws.sleep(60)
    state = made.release()
    assert state["status"] == "refused"
    assert "results/: is not in the lake" in json.dumps(state["blocking"])
    made.put("results/", b"bytes", lake=True)
    made.aws.sleep(60)
    assert made.release()["status"] == "done"
    assert made.hot() == {}


def test_a_checkpoint_that_nothing_tells_finished_or_not_is_brought_to_the_lake() -> None:
    """A job that writes no marker: there is no record of it, and it has to be kept."""
    made = Emptied()
    for name in ("rank0.pt", "rank1.pt"):
        made.put(f"checkpoints/run2/epoch-1/{name}", b"whole?")
    made.aws.sleep(60)
    assert made.release()["status"] == "done"
    lake = made.aws.s3.content(LAKE)
    assert {lake[f"checkpoints/run2/epoch-1/{name}"] for name in ("rank0.pt", "rank1.pt")} == {b"whole?"}


# -- interrupted, and again


def killed(made: Emptied, call: int) -> None:
    """Run a release that is killed right before a request to delete objects, after it was done."""
    real, count = made.aws.s3.delete_objects, [0]

    def delete_objects(**given: Any) -> Any:
        answer = real(**given)
        count[0] += 1
        if count[0] == call:
            raise Killed
        return answer

    made.aws.s3.delete_objects = delete_objects  # type: ignore[method-assign]  # a process that ends here
    with pytest.raises(Killed):
        made.release()
    made.aws.s3.delete_objects = real  # type: ignore[method-assign]
    made.aws.sleep(60)


def test_a_removal_that_was_interrupted_goes_on_with_its_proof(pages: None) -> None:
    made = Emptied()
    killed(made, 4)
    assert 0 < len(made.hot()) < len(made.saved)
    made.no_smaller_ones()
    proven = proofs.read(made.aws, LAKE, NAME)
    assert proven is not None
    look = made.release("check")
    assert look["status"] == "done"
    assert "has begun to empty" in look["message"]
    confirmed = made.release("prove")["proof"]
    assert confirmed["valid_from"] == proven.valid_from
    state = made.release(proof=confirmed["valid_from"])
    assert state["status"] == "done", state
    assert state["proof"]["removes"] == confirmed["removes"]
    made.nothing_lost()


def test_what_is_written_after_an_interrupted_removal_is_proven_with_the_rest(pages: None) -> None:
    made = Emptied()
    killed(made, 4)
    for name in ("rank0.pt", "rank1.pt", "COMPLETE"):
        made.put(f"checkpoints/run1/step-12/{name}", f"12 {name}".encode())
    made.aws.sleep(600)
    look = made.release("check")
    assert look["status"] == "done"
    assert "begun" not in look["message"]
    proof = made.release("prove")["proof"]
    assert proof["removes"]["objects"] == len(made.hot())
    state = made.release(proof=proof["valid_from"])
    assert state["status"] == "done", state
    lake = made.aws.s3.content(LAKE)
    assert lake["checkpoints/run1/step-12/rank1.pt"] == b"12 rank1.pt"
    made.nothing_lost()


def test_the_rest_of_a_checkpoint_stays_where_the_lake_lost_it_after_its_removal_began(pages: None) -> None:
    made = Emptied()
    killed(made, 7)
    torn = "checkpoints/run1/step-3/rank1.pt"
    assert torn in made.hot()
    assert "checkpoints/run1/step-3/COMPLETE" not in made.hot()
    made.aws.s3.delete_object(Bucket=LAKE, Key=torn)
    there = made.hot()
    assert f"{torn}: is not in the lake" in made.release()["blocking"]
    made.aws.sleep(60)
    state = made.release()
    assert state["status"] == "refused", state
    assert torn in json.dumps(state["blocking"])
    assert made.hot() == there
    assert made.release(leave=[torn])["status"] == "done"


def test_an_override_in_the_middle_removes_nothing_and_the_next_release_goes_on(pages: None) -> None:
    made = Emptied()
    killed(made, 4)
    there = made.hot()
    override = proofs.Proof("override", NAME, NAME, made.aws.now, made.aws.now, by="somebody", reason="enough")
    proofs.write(made.aws, LAKE, override)
    made.aws.cloudformation.stacks[HOT_STACK]["StackStatus"] = "DELETE_FAILED"  # its buckets hold something
    assert made.hot() == there
    assert made.release()["status"] == "done"
    made.nothing_lost()


def test_a_mark_of_a_stack_that_is_gone_says_nothing_of_one_of_the_same_name() -> None:
    made = Emptied()
    assert made.release()["status"] == "done"
    made.again_as_new()
    made.aws.sleep(3600)
    made.fill()
    made.put("checkpoints/run1/other.json", b"{}")
    made.aws.sleep(600)
    state = made.release()
    assert state["status"] == "done", state
    assert made.aws.s3.content(LAKE)["checkpoints/run1/other.json"] == b"{}"


@pytest.mark.parametrize("what", ["protected", "fleet"])
def test_a_stack_that_would_not_go_keeps_its_objects(what: str) -> None:
    made = Emptied()

    def act() -> None:
        if what == "protected":
            made.aws.cloudformation.stacks[HOT_STACK]["EnableTerminationProtection"] = True
        else:
            made.aws.cloudformation.make(f"{NAME}-compute")
            made.aws.machines.group(f"{NAME}-fleet", TAGS, 0, 8)

    state = made.release(before=at(BEFORE, act))
    assert state["status"] == "refused", state
    assert "stay as they are" in state["refused"]
    assert made.hot() == made.saved


def test_a_bucket_that_the_stack_began_to_delete_after_the_removal_began_is_proven_too(pages: None) -> None:
    made = Emptied()
    first = made.aws.cloudformation.stacks[HOT_STACK]["resources"][0]
    first["policy"] = "Retain"
    killed(made, 2)
    del first["policy"]
    state = made.release()
    assert state["status"] == "done", state
    assert state["proof"]["removes"]["buckets"] == list(HOT)
    made.nothing_lost()


def test_a_proof_that_says_nothing_of_a_removal_is_made_anew() -> None:
    """Of a release that came before, or from before the stack said that the buckets go."""
    made = Emptied()
    proven = made.release("prove", empties=False)["proof"]["valid_from"]
    state = made.release(proof=proven)
    assert state["status"] == "refused"
    assert "confirm what it shows then" in state["refused"]
    assert made.release()["status"] == "done"
