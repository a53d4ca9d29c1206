"""Loading from the command line through nodes: in memory, with faults at any call, and the schedule's steps."""

from __future__ import annotations

import json
import os
import random
import shlex
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.life.fake_aws import FakeAws
from tests.life.faults import Faulty, Killed, draw
from tests.life.lfs import Lfs
from training_storage.cli import main
from training_storage.errors import AwsError, RefusedError, ValidationError
from training_storage.node import agent, calls, hsm, places, preload_steps, run_command
from training_storage.node.functions.preload.index import handler
from training_storage.operations import preload_data as operation
from training_storage.operations.node_commands import choose_nodes
from training_storage.operations.preload_data import PreloadResult, preload_data, read_list

WORKLOAD = "vision"
TAGS = {run_command.WORKLOAD_TAG: WORKLOAD}
STORAGE_NODE = {**TAGS, run_command.ROLE_TAG: run_command.STORAGE_NODE}
GROUP = f"{WORKLOAD}-storage-node"
SIZE = 20_000
SETTINGS = {
    "workload": WORKLOAD, "region": "us-east-1", "tier": "lustre", "lake_bucket": "lake", "mount": "/fsx",
    "links": [{"path": "/datasets", "bucket": "lake", "prefix": "datasets/", "imports": True, "exports": False}],
}  # fmt: skip


class World:
    """A deployed workload: stacks, nodes that run the real agent, a file system of files."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.aws, self.lfs = root, FakeAws(), Lfs(root / "state")
        self.seen: Callable[[str], Any] = self.aws
        self.region_name = "us-east-1"
        self.aws.s3.make("lake")
        self.aws.cloudformation.make(f"{WORKLOAD}-lake", {"DataLakeBucketName": "lake"})
        self.aws.cloudformation.make(f"{WORKLOAD}-hot", {"FileSystemId": "fs-1"})
        self.aws.machines.group(GROUP, STORAGE_NODE, 0, 1)
        self.aws.machines.run = self._run
        (root / "etc/training-storage").mkdir(parents=True)
        (root / "etc/training-storage/agent.json").write_text(json.dumps(SETTINGS))
        (root / "fsx/datasets").mkdir(parents=True)
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("TS_ROOT", str(root))
        monkeypatch.setattr(hsm, "run_program", self.lfs)
        monkeypatch.setattr(time, "sleep", lambda _: None)
        monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_frsize=1, f_bavail=10**9, f_blocks=10**9))
        self.booting = 0

    def client(self, name: str, **_: Any) -> Any:
        return self.seen(name)

    def _run(self, instance: str, text: str) -> tuple[int, str, str]:
        if self.booting:
            self.booting -= 1
            return 127, "", "/opt/training-storage/bin/agent: No such file or directory"
        assert text.startswith(run_command.AGENT)
        self._monkeypatch.setenv("TRAINING_STORAGE_INSTANCE_ID", instance)
        try:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                return agent.main(shlex.split(text)[1:], aws=self.seen, sleep=lambda _: None), "", ""
        except Killed:
            return 137, "", ""

    def files(self, count: int, *, looks: int = 0) -> None:
        for number in range(count):
            self.aws.s3.put_object(Bucket="lake", Key=f"datasets/{number}", Body=b"")
            self.lfs.release(self.root / f"fsx/datasets/{number}", SIZE, looks)

    def load(self, **options: Any) -> PreloadResult:
        return preload_data(
            self,  # type: ignore[arg-type]  # as much of a session as is used
            WORKLOAD,
            aws=self.seen,
            **{"sleep": self.aws.sleep, "clock": self.aws.clock, **options},
        )


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_several_nodes_share_the_work(world: World) -> None:
    for _ in range(3):
        world.aws.machines.start(TAGS)
    world.files(40)
    looks: list[Any] = []
    result = world.load(on_look=looks.append)
    assert (result.counts["loaded"], result.counts["loaded_bytes"], result.is_clean) == (40, 40 * SIZE, True)
    assert [each.answer["loaded"] > 0 for each in result.run.answers if each.answer] == [True] * 3
    assert len(looks) > 1
    assert world.load().counts["there"] == 40


def test_nodes_can_be_fewer_and_a_dry_run_asks_one(world: World) -> None:
    for _ in range(6):
        world.aws.machines.start(TAGS)
    world.files(4)
    assert len(world.load(dry_run=True).run.answers) == 1
    assert world.lfs.released() == 4
    assert len(world.load(nodes=2).run.answers) == 2
    assert len(world.load(nodes=None).run.answers) == 6


def test_the_storage_node_is_asked_last(world: World) -> None:
    storage = world.aws.machines.start(STORAGE_NODE)
    fleet = world.aws.machines.start(TAGS)
    world.aws.machines.start({run_command.WORKLOAD_TAG: "another"})
    assert run_command.online_nodes(world.aws, WORKLOAD) == (fleet, storage)


def test_without_a_node_it_says_how_to_start_one(world: World) -> None:
    with pytest.raises(RefusedError, match="fleet is at zero") as caught:
        world.load()
    assert f"--auto-scaling-group-name {GROUP} --desired-capacity 1" in str(caught.value)
    world.aws.machines.start(TAGS)
    world.aws.machines.online = False
    with pytest.raises(RefusedError, match="none is online in Systems Manager"):
        choose_nodes(world.aws, WORKLOAD, None)


def test_nothing_deployed_is_refused(world: World) -> None:
    with pytest.raises(RefusedError, match="no stack nobody-hot"):
        preload_data(world, "nobody", aws=world.aws)  # type: ignore[arg-type]  # as above


def test_what_does_not_fit_is_refused_with_the_words_of_the_node(world: World) -> None:
    world.aws.machines.start(TAGS)
    world.lfs.release(world.root / "fsx/datasets/huge", 10**12)
    with pytest.raises(RefusedError, match=r"1\.00 TB in 1 files have to be loaded, and there is room for"):
        world.load()


def test_an_interrupted_follower_is_joined(world: World) -> None:
    world.aws.machines.start(TAGS)
    world.files(3)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.load(sleep=interrupt)
    started: list[bool] = []
    result = world.load(on_start=lambda _, joined: started.append(joined))
    assert started == [True]
    assert result.counts["loaded"] == 3
    assert len(world.aws.machines.commands) == 1
    world.load(on_start=lambda _, joined: started.append(joined))
    assert started == [True, False]


def test_what_is_not_waited_for_is_told_later(world: World) -> None:
    world.aws.machines.start(TAGS)
    world.files(3)
    assert not world.load(wait=False).run.over
    assert world.load().counts["loaded"] == 3
    assert len(world.aws.machines.commands) == 1


def test_a_node_that_goes_is_lost_and_its_share_is_loaded_by_the_next_run(world: World) -> None:
    first = world.aws.machines.start(TAGS)
    world.aws.machines.start(TAGS)
    world.files(20)
    world.load(wait=False)
    world.aws.machines.stop(first)
    result = world.load()
    assert {each.state for each in result.run.answers} == {"lost", "done"}
    assert not result.is_clean
    assert f"instance {first}" in next(each.message for each in result.run.answers if each.state == "lost")
    result = world.load()
    assert result.is_clean
    assert result.counts["loaded"] + result.counts["there"] == 20
    assert world.lfs.released() == 0


def test_more_than_fifty_nodes_are_asked_in_several_calls(world: World) -> None:
    names = [world.aws.machines.start(TAGS) for _ in range(120)]
    world.aws.machines.run = lambda *_: (0, "", "")
    sent = run_command.send(world.aws, names, ["list"], command_id="list-1", timeout_s=60)
    assert [len(each["instances"]) for each in world.aws.machines.commands.values()] == [50, 50, 20]
    for _ in range(2):
        found = run_command.poll(world.aws, "lake", "list-1", sent, names)
    assert [each.instance_id for each in found] == names
    assert {each.state for each in found} == {"lost"}  # ended, and no answer lies in the lake


def test_answers_of_the_node_are_told_as_they_are(world: World) -> None:
    name = world.aws.machines.start(TAGS)
    told = iter([(127, "", "no such file"), (1, "", "error: the agent's settings /etc is not there"), (9, "", "")])
    world.aws.machines.run = lambda *_: next(told)
    found: list[run_command.NodeAnswer] = []
    for number in range(3):
        sent = run_command.send(world.aws, [name], ["list"], command_id=f"list-{number}", timeout_s=60)
        run_command.poll(world.aws, "lake", f"list-{number}", sent, [name])
        found += run_command.poll(world.aws, "lake", f"list-{number}", sent, [name])
    assert [(each.state, each.exit_code, each.not_ready) for each in found] == [
        ("failed", 127, True), ("failed", 1, True), ("failed", 9, False),
    ]  # fmt: skip


def test_arguments_are_quoted_for_the_shell() -> None:
    line = run_command.command_line(["preload", "--path", "/a b;$(reboot)'"], "preload-1")
    assert shlex.split(line)[1:] == ["preload", "--path", "/a b;$(reboot)'", "--command-id", "preload-1"]
    for bad in ("", "../x", "a b", "x" * 129):
        with pytest.raises(ValueError, match="command_id"):
            run_command.command_line(["list"], bad)


def test_a_lost_answer_of_the_sender_is_found_again(world: World) -> None:
    name = world.aws.machines.start(TAGS)
    sent = run_command.send(world.aws, [name], ["list"], command_id="list-1", timeout_s=60)
    assert run_command.sent_as(world.aws, "list-1", world.aws.clock(), [name]) == sent
    assert run_command.sent_as(world.aws, "list-2", world.aws.clock(), [name]) == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "names no file"),
        (b"a\n../b\n", ":2: is no path"),
        (b"dir/\n", "is no path"),
        (b"a//b\n", "is no path"),
        (b"./a\n", "is no path"),
    ],
)
def test_a_list_is_checked_before_anything_is_sent(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "list.txt"
    file.write_bytes(content)
    with pytest.raises(ValidationError, match=said):
        read_list(file)
    with pytest.raises(ValidationError, match="cannot be read"):
        read_list(tmp_path / "none")


def test_a_list_is_loaded_once_a_path(world: World, tmp_path: Path) -> None:
    world.aws.machines.start(TAGS)
    world.files(4)
    file = tmp_path / "list.txt"
    file.write_bytes(b"/fsx/datasets/1\r\n\n/datasets/2\n/fsx/datasets/1\ncaf\xe9\n")
    result = world.load(listed=read_list(file))
    assert (result.counts["loaded"], result.counts["failed"]) == (2, 1)
    assert result.counts["reasons"]["vanished"]["count"] == 1
    (key,) = world.aws.s3.content("lake", places.PRELOADS)
    assert world.aws.s3.content("lake")[key].splitlines() == [b"/fsx/datasets/1", b"/datasets/2", b"caf\xe9"]


def run_with_fault(world: World, chance: random.Random, most: int, runs: int = 8) -> str:
    """Load with one fault, then again as a person would, until it is clean; return what went wrong."""
    faulty = Faulty(world.aws, draw(chance, most))
    world.seen = faulty
    for _ in range(runs):
        try:
            if world.load().is_clean:
                break
        except (AwsError, Killed):
            world.aws.sleep(60)
    else:
        raise AssertionError(f"not done after {runs} runs: {faulty.hit}")
    return faulty.hit


def test_one_fault_at_any_call_loses_nothing_and_a_second_run_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Throttled, timed out before or after the effect, denied, killed: command line and node share the calls."""
    chance = random.Random(2026)
    hits: dict[str, int] = {}
    most = 0
    for number in range(120):
        world = World(tmp_path / str(number), monkeypatch)
        for _ in range(2):
            world.aws.machines.start(TAGS)
        world.files(3)
        if not most:
            counted = Faulty(world.aws, None)
            world.seen = counted
            assert world.load().is_clean
            most = len(counted.calls)
            continue
        hit = run_with_fault(world, chance, most)
        hits[hit.split(" ")[0]] = hits.get(hit.split(" ")[0], 0) + 1
        assert world.lfs.released() == 0, hit
        call = calls.current(world.aws, "lake", WORKLOAD, ["preload"])
        assert call is not None
        assert call.finished, hit
    assert len([kind for kind in hits if kind]) == 6


def test_report_08_the_schedule_hands_over_and_never_waits(world: World) -> None:
    """No call of ours waits: a state machine calls again, also while a node boots for long."""
    world.files(3)
    world.booting = 2
    result = follow(world)
    assert result["status"] == "next"
    assert result["answer"]["loaded"] == 3
    assert world.aws.machines.groups[GROUP]["DesiredCapacity"] == 0
    assert world.aws.machines.instances == {}


def follow(world: World, state: dict[str, Any] | None = None, most: int = 60) -> dict[str, Any]:
    """Call the steps as the state machine does."""
    state = state or {"workload": WORKLOAD, "lake_bucket": "lake", "paths": ["/datasets"]}
    for _ in range(most):
        try:
            state = preload_steps.run(state, world.seen, world.aws.clock)
        except Killed:
            world.aws.sleep(15)
            continue
        except Exception:
            world.aws.sleep(15)
            continue
        assert json.dumps(state)
        if state["status"] != "again":
            return state
        world.aws.sleep(state["wait"])
    raise AssertionError(f"no end: {state} {getattr(world.seen, 'hit', '')}")


def test_a_node_of_the_fleet_is_used_and_left_alone(world: World) -> None:
    world.files(3)
    world.aws.machines.group("fleet", TAGS, 1, 1)
    assert follow(world)["answer"]["loaded"] == 3
    assert world.aws.machines.groups["fleet"]["DesiredCapacity"] == 1


def test_a_storage_node_of_somebody_else_is_left_running(world: World) -> None:
    world.files(3)
    world.aws.machines._scale(GROUP, 1)
    assert follow(world)["status"] == "next"
    assert world.aws.machines.groups[GROUP]["DesiredCapacity"] == 1


def test_the_schedule_refuses_what_does_not_fit_and_stops_the_node(world: World) -> None:
    world.lfs.release(world.root / "fsx/datasets/huge", 10**12)
    result = follow(world)
    assert result["status"] == "refused"
    assert "1.00 TB" in result["refused"]
    assert world.aws.machines.groups[GROUP]["DesiredCapacity"] == 0


def test_the_schedule_gives_up_where_no_node_ever_answers(world: World) -> None:
    world.aws.machines.online = False
    result = follow(world, most=300)
    assert result["status"] == "refused"
    assert world.aws.machines.groups[GROUP]["DesiredCapacity"] == 0


def test_the_schedule_gives_up_where_the_agent_never_comes(world: World) -> None:
    """Also after it had failed once, and been there."""
    world.files(1)
    world.aws.machines.group("fleet", TAGS, 1, 1)
    answers = iter([(1, "", "odd")])
    world.aws.machines.run = lambda _instance, _text: next(answers, (127, "", "no such file"))
    result = follow(world, most=300)
    assert result["status"] == "refused"
    assert "still booting" in result["refused"]


def test_a_node_that_goes_late_may_boot_as_long_as_one_at_the_beginning(world: World) -> None:
    world.files(3)
    world.aws.machines.group("fleet", TAGS, 1, 1)
    state = {"workload": WORKLOAD, "lake_bucket": "lake", "paths": ["/datasets"]}
    state = preload_steps.run(state, world.aws, world.aws.clock)
    world.aws.sleep(2 * preload_steps.BOOT_S)
    world.aws.machines.group("fleet", TAGS, 0, 1)
    state.pop("command_id")
    assert preload_steps.run(state, world.aws, world.aws.clock)["status"] == "again"


def test_a_storage_node_that_goes_with_its_stack_ends_it(world: World) -> None:
    world.files(1)
    state = preload_steps.run(
        {"workload": WORKLOAD, "lake_bucket": "lake", "paths": ["/datasets"]}, world.aws, world.aws.clock
    )
    assert world.aws.machines.groups[GROUP]["DesiredCapacity"] == 1
    world.aws.machines._scale(GROUP, 0)
    del world.aws.machines.groups[GROUP]
    assert follow(world, state)["status"] == "refused"
    world.aws.machines.group(GROUP, STORAGE_NODE, 1, 1)
    assert follow(world)["status"] == "next"
    assert world.aws.machines.groups[GROUP]["DesiredCapacity"] == 1, "this one was started by somebody else"


def test_the_schedule_without_a_stack_is_refused(world: World) -> None:
    world.aws.machines.groups.clear()
    assert "is the stack vision-hot deployed?" in follow(world)["refused"]


def test_the_function_takes_the_state_and_returns_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKLOAD", WORKLOAD)
    monkeypatch.setenv("LAKE_BUCKET", "lake")
    world.files(1)
    state: dict[str, Any] = {"workload": WORKLOAD, "action": "preload", "paths": ["/datasets"]}
    for _ in range(20):
        state = handler({"step": "preload", "state": state}, None, aws=world.aws)
        if state["status"] != "again":
            break
        world.aws.sleep(state["wait"])
    assert (state["status"], state["action"], state["answer"]["loaded"]) == ("next", "preload", 1)


def test_one_fault_at_any_call_of_the_schedule_leaves_no_node_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(8)
    most = 0
    for number in range(100):
        world = World(tmp_path / str(number), monkeypatch)
        world.files(2)
        faulty = Faulty(world.aws, draw(chance, most) if most else None)
        world.seen = faulty
        result = follow(world)
        most = most or len(faulty.calls)
        assert result["status"] == "next", faulty.hit
        assert world.lfs.released() == 0, faulty.hit
        assert world.aws.machines.groups[GROUP]["DesiredCapacity"] == 0, faulty.hit


def cli(world: World, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("training_storage.operations.aws.make_session", lambda *_: world)
    monkeypatch.setattr(operation, "preload_data", partial(preload_data, sleep=world.aws.sleep))
    return main(["preload", WORKLOAD, *arguments])


def test_the_command_ends_with_a_table(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.aws.machines.start(TAGS)
    world.files(3)
    assert cli(world, monkeypatch, "--dry-run") == 0
    assert "would load" in capsys.readouterr().out
    assert cli(world, monkeypatch, "--path", "/datasets") == 0
    out, err = capsys.readouterr()
    assert [line.split()[:-2] for line in out.splitlines()[1:4]] == [
        ["loaded", "3", "files"], ["already", "there", "0", "files"], ["failed", "0", "files"],
    ]  # fmt: skip
    assert "loading from i-" in err


def test_failed_files_are_exit_code_1_with_reasons(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world.aws.machines.start(TAGS)
    world.files(3)
    world.aws.s3.put_object(Bucket="lake", Key="datasets/1", Body=b"", StorageClass="GLACIER")
    world.lfs.never(world.root / "fsx/datasets/1")
    assert cli(world, monkeypatch) == 1
    out = capsys.readouterr().out
    assert "1 archived: the object is archived (S3ObjectInUnsupportedTier): restore it in S3 first" in out
    assert "/fsx/datasets/1: archived" in out
    assert cli(world, monkeypatch, "--format", "json") == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["failed"], told["there"], told["reasons"]["archived"]["count"]) == (False, 1, 2, 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--path", "/a", "--list", "x"],
        ["--path", "/a/../b"],
        ["--nodes", "none"],
        ["--nodes", "0"],
        ["--dry-run", "--no-wait"],
        ["--metadata", "--nodes", "2"],
        ["--metadata", "--dry-run"],
        ["--metadata", "--path", "/a", "--path", "/b"],
    ],
)
def test_bad_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preload", WORKLOAD, *arguments]) == 2
    assert "Try `training-storage preload --help`." in capsys.readouterr().err
