"""Loading on a node: the agent with an ``lfs`` that keeps state, fails on demand and really runs as a program."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.life.fake_aws import FakeAws
from tests.life.lfs import Lfs
from training_storage.node import agent, hsm, preload
from training_storage.node.errors import Refusal
from training_storage.node.preload_files import Share, below_mount, listed, look, walk
from training_storage.node.preload_reasons import Reasons, shown
from training_storage.node.settings import Settings

LINKS = [
    {"path": "/datasets", "bucket": "lake", "prefix": "datasets/", "imports": True, "exports": False},
    {"path": "/checkpoints", "bucket": "lake", "prefix": "checkpoints/", "imports": True, "exports": False},
]
SETTINGS = {
    "workload": "vision", "region": "us-east-1", "tier": "lustre", "lake_bucket": "lake", "mount": "/fsx",
    "checkpoints": "/fsx/checkpoints", "links": LINKS,
}  # fmt: skip
SIZE = 20_000


class Node:
    """A node of files: its mount, an ``lfs``, a lake, and room on the file system as a test sets it."""

    def __init__(self, root: Path) -> None:
        self.root, self.mount = root, root / "fsx"
        self.lfs, self.aws = Lfs(root / "state"), FakeAws()
        self.aws.s3.make("lake")
        (root / "etc/training-storage").mkdir(parents=True)
        (root / "etc/training-storage/agent.json").write_text(json.dumps(SETTINGS))
        (self.mount / "datasets").mkdir(parents=True)
        self.free = 10**12
        self.slept: list[float] = []
        self.reports: list[dict[str, Any]] = []
        self.now = 0.0

    def file(self, name: str, size: int = SIZE, *, released: bool = True, stored: str = "STANDARD") -> Path:
        place = self.mount / name
        self.aws.s3.put_object(Bucket="lake", Key=name, Body=b"", StorageClass=stored)
        if released:
            self.lfs.release(place, size)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(b"x" * size)
        return place

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def statvfs(self, _: str) -> Any:
        return SimpleNamespace(f_frsize=1, f_bavail=self.free, f_blocks=2 * 10**12)

    def load(self, *, share: str = "1/1", lines: list[bytes] | None = None, **options: Any) -> dict[str, Any]:
        settings = preload.real(Settings.from_dict(SETTINGS), str(self.mount))
        roots = [str(self.mount / "datasets")]
        return preload.preload(
            self.aws,
            settings,
            lambda: walk(roots, str(self.mount)) if lines is None else listed(lines, str(self.mount)),
            share=Share.parse(share),
            **{
                "run": self.lfs, "statvfs": self.statvfs, "clock": lambda: self.now, "sleep": self.sleep,
                "report": self.reports.append, **options,
            },
        )  # fmt: skip


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def agent_of(node: Node, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """The agent as Systems Manager starts it, with the program on ``PATH``."""
    node.lfs.install(node.root / "bin")
    monkeypatch.setenv("TS_ROOT", str(node.root))
    monkeypatch.setenv("TRAINING_STORAGE_INSTANCE_ID", "i-1")
    monkeypatch.setenv("PATH", f"{node.root / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "statvfs", node.statvfs)

    def run(*argv: str) -> tuple[int, Any]:
        code = agent.main(["preload", *argv], aws=node.aws)
        told = capsys.readouterr()
        return code, json.loads(told.out) if code == 0 else told.err

    return run


def test_loads_what_is_released_and_nothing_twice(node: Node, agent_of: Any) -> None:
    for number in range(5):
        node.file(f"datasets/v1/{number}.tar")
    node.file("datasets/v1/here.tar", released=False)
    node.file("datasets/small", 100, released=False)
    code, answer = agent_of("--path", "/datasets")
    assert code == 0
    assert (answer["loaded"], answer["loaded_bytes"], answer["there"], answer["failed"]) == (5, 5 * SIZE, 2, 0)
    assert node.lfs.released() == 0
    assert (node.mount / "datasets/v1/3.tar").read_bytes() == b"x" * SIZE
    code, answer = agent_of("--path", "/fsx/datasets/v1")
    assert (answer["loaded"], answer["there"]) == (0, 6)
    assert node.lfs.restores() == 5


def test_the_default_is_every_link_that_imports_but_checkpoints(node: Node, agent_of: Any) -> None:
    node.file("datasets/a")
    node.file("checkpoints/run1/old")
    assert agent_of()[1]["loaded"] == 1
    assert node.lfs.released() == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--path", "/datasets/../../etc"], "leads out of"),
        (["--path", "/nothing"], "/nothing is not on the file system"),
        (["--path", "/datasets", "--list-key", "x"], "exclude each other"),
        (["--list-key", ".training-storage/preload/lists/none.txt"], "is not there"),
        (["--share", "3/2"], "allowed: I/N"),
        (["--among", "i-2,i-3"], "does not name this instance"),
        (["--processes", "0"], "allowed: 1 to 64"),
    ],
)
def test_refuses_before_anything_is_asked_for(node: Node, agent_of: Any, arguments: list[str], said: str) -> None:
    node.file("datasets/a")
    code, text = agent_of(*arguments)
    assert code == 1
    assert said in text
    assert node.lfs.restores() == 0


def test_refuses_what_does_not_fit_with_both_numbers(node: Node) -> None:
    node.file("datasets/a", 10 * 10**9)
    node.file("datasets/b", 15 * 10**9)
    node.free = 120 * 10**9  # less 5 % of 2 TB: room for 20 GB
    with pytest.raises(Refusal, match=r"25.0 GB in 2 files have to be loaded, and there is room for 20.0 GB"):
        node.load()
    assert node.lfs.restores() == 0
    answer = node.load(dry_run=True)
    assert (answer["fits"], answer["to_load"], answer["to_load_bytes"]) == (False, 2, 25 * 10**9)


def test_what_is_there_needs_no_room(node: Node) -> None:
    node.file("datasets/a", released=False)
    node.free = 0
    assert node.load()["there"] == 1


def test_the_room_is_for_the_shares_of_all_nodes(node: Node) -> None:
    for number in range(20):
        node.file(f"datasets/{number}", 10**9)
    node.free = 110 * 10**9  # room for 10 GB; each of four shares would fit
    with pytest.raises(Refusal, match=r"20\.0 GB in 20 files"):
        node.load(share="1/4")


@pytest.mark.parametrize("code", ["EBUSY", "ENOMEM"])
def test_a_busy_file_system_is_asked_again_later_and_later(node: Node, code: str) -> None:
    node.file("datasets/a")
    node.lfs.fail(6, code)
    answer = node.load()
    assert (answer["loaded"], answer["failed"]) == (1, 0)
    assert node.slept[5] > 4 * node.slept[0]


def test_a_file_system_that_stays_busy_is_a_reason_and_no_endless_wait(node: Node) -> None:
    node.file("datasets/a")
    node.lfs.fail(10_000, "EBUSY")
    answer = node.load()
    assert answer["reasons"] == {"busy": 1}
    assert sum(node.slept) < 900


def test_reasons_by_file(node: Node) -> None:
    archived = node.file("datasets/archived", stored="GLACIER")
    gone = node.file("datasets/gone")
    node.aws.s3.delete_object(Bucket="lake", Key="datasets/gone")
    odd = node.file("datasets/odd")
    for each in (archived, gone, odd):
        node.lfs.never(each)
    node.file("datasets/fine")
    answer = node.load()
    assert {Path(each["path"]).name: each["code"] for each in answer["failures"]} == {
        "archived": "archived", "gone": "gone-from-s3", "odd": "other",
    }  # fmt: skip
    assert (answer["loaded"], answer["failed"], answer["failed_bytes"]) == (1, 3, 3 * SIZE)
    # An archived object is not asked for again and again; one without a reason is.
    assert node.lfs.restores() == 4 + 2


def test_no_space_is_a_reason(node: Node) -> None:
    node.file("datasets/a")
    node.lfs.fail(10, "ENOSPC")
    assert node.load()["reasons"] == {"no-space": 1}


def test_space_that_runs_out_meanwhile_is_a_reason(node: Node) -> None:
    node.lfs.never(node.file("datasets/a"))
    frees = iter([10**12, 100, 100, 100])
    answer = node.load(statvfs=lambda _: SimpleNamespace(f_frsize=1, f_bavail=next(frees), f_blocks=10**12))
    assert answer["reasons"] == {"no-space": 1}


def test_other_errors_keep_their_text(node: Node) -> None:
    node.file("datasets/a")
    node.lfs.fail(1, "EPERM")
    (failure,) = node.load()["failures"]
    assert failure["code"] == "other"
    assert "Operation not permitted" in failure["text"]


def test_files_that_vanish_meanwhile_fail_alone(node: Node) -> None:
    places = [node.file(f"datasets/{number}") for number in range(4)]

    def run(argv: Any) -> Any:
        if argv[1] == "hsm_restore" and places[1].exists():
            places[1].unlink()
            node.aws.s3.delete_object(Bucket="lake", Key="datasets/1")
        return node.lfs(argv)

    answer = node.load(run=run)
    assert (answer["loaded"], answer["reasons"]) == (3, {"vanished": 1})


def test_a_restore_that_stands_still_ends(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "STALL_S", 200.0)
    place = node.file("datasets/a")
    node.lfs.release(place, SIZE, looks=10**6)

    def run(argv: Any) -> Any:
        code, out, err = node.lfs(argv)
        return code, out.split(b"(")[0] + b"(from 0 to EOF)\n" if b"RESTORE" in out else out, err

    answer = node.load(run=run)
    assert answer["reasons"] == {"stalled": 1}
    assert 200 < node.now < 1_000


@pytest.mark.parametrize("name", [b"line\nbreak", b"caf\xe9", b"caf\xc3\xa9", b"-option", b"a: (0x0) b", b" space "])
def test_names_of_any_bytes(node: Node, name: bytes) -> None:
    node.lfs.release(os.fsdecode(os.fsencode(node.mount) + b"/datasets/" + name), SIZE)
    node.file("datasets/zz")
    answer = node.load()
    assert (answer["loaded"], answer["failed"]) == (2, 0)


def test_names_of_any_bytes_reach_the_program(node: Node, agent_of: Any) -> None:
    for name in (b"line\nbreak", b"caf\xe9"):
        node.lfs.release(os.fsdecode(os.fsencode(node.mount) + b"/datasets/" + name), SIZE)
    code, answer = agent_of()
    assert (code, answer["loaded"], answer["failed"]) == (0, 2, 0)


def test_names_in_answers_are_text(node: Node) -> None:
    place = os.fsdecode(os.fsencode(node.mount) + b"/datasets/caf\xe9")
    node.lfs.release(place, SIZE)
    node.lfs.never(place)
    (failure,) = node.load()["failures"]
    assert failure["path"].endswith("caf\\xe9")
    assert json.dumps(failure).encode()


def test_shares_are_all_of_it_and_none_twice(node: Node) -> None:
    for number in range(60):
        node.file(f"datasets/{number:02}")
    answers = [node.load(share=f"{index}/3") for index in (1, 2, 3)]
    assert [each["loaded"] for each in answers] == [each["files"] for each in answers]
    assert sum(each["loaded"] for each in answers) == 60
    assert min(each["loaded"] for each in answers) > 8
    assert node.lfs.restores() == 60


def test_nodes_find_their_share_by_their_place() -> None:
    assert Share.among("i-b", "i-a,i-b") == Share(2, 2)
    # Nodes may have the file system in different places, and still share the files without a gap.
    for number in range(20):
        held = [Share(1, 2, "/fsx").holds(f"/fsx/a/{number}"), Share(2, 2, "/mnt/x").holds(f"/mnt/x/a/{number}")]
        assert sorted(held) == [False, True]


def test_lists(node: Node, agent_of: Any) -> None:
    node.file("datasets/a")
    node.file("datasets/b")
    node.file("datasets/not-listed")
    node.aws.s3.put_object(Bucket="lake", Key="datasets/unknown", Body=b"1")
    (node.mount / "datasets/out").symlink_to("/etc")
    lines = [
        "/fsx/datasets/a", "datasets/b", "", "datasets/unknown", "datasets/nothing", "datasets", "../etc/passwd",
        "datasets/out/passwd",
    ]  # fmt: skip
    node.aws.s3.put_object(Bucket="lake", Key="list", Body="\n".join(lines).encode())
    code, answer = agent_of("--list-key", "list")
    assert (code, answer["loaded"]) == (0, 2)
    assert answer["reasons"] == {"not-a-file": 1, "not-imported": 1, "outside": 2, "vanished": 1}


def test_links_are_not_followed(node: Node) -> None:
    node.file("elsewhere/a")
    node.file("datasets/b")
    (node.mount / "datasets/link").symlink_to(node.mount / "elsewhere")
    (node.mount / "datasets/link2").symlink_to(node.mount / "elsewhere/a")
    assert node.load()["files"] == 1


def test_a_root_that_leads_out_is_said(node: Node) -> None:
    (node.mount / "out").symlink_to("/etc")
    (found,) = walk([str(node.mount / "out")], str(node.mount))
    assert found.problem == "outside"


def test_files_with_blocks_are_not_asked_about(node: Node) -> None:
    for number in range(50):
        node.file(f"datasets/{number}", released=False)
    asked = []

    def run(argv: Any) -> Any:
        asked.append(argv)
        return node.lfs(argv)

    assert node.load(run=run)["there"] == 50
    assert [each for each in asked if each[1] != "df"] == []
    assert not look(str(node.mount / "datasets/1")).maybe_released


def test_a_full_target_is_warned_of(node: Node) -> None:
    node.file("datasets/a", 40_000)
    (node.lfs.state / "targets").write_text(json.dumps([[10**6, 10**6], [10**6, 10_240]]))
    (warning,) = node.load()["warnings"]
    assert "fsx-OST0001 has 10.2 KB free, and its part of the load is about 20.0 KB" in warning


def test_the_room_is_that_of_the_storage_targets(node: Node) -> None:
    node.file("datasets/a", 40_000)
    (node.lfs.state / "targets").write_text(json.dumps([[409_600, 40_960], [409_600, 20_480]]))
    with pytest.raises(Refusal, match=r"40\.0 KB in 1 files have to be loaded, and there is room for 20\.5 KB"):
        node.load()  # 61,440 bytes are free, less 5 % of 819,200


def test_progress_has_files_and_bytes(node: Node) -> None:
    for number in range(3):
        node.lfs.release(node.mount / f"datasets/{number}", SIZE, looks=3)
    node.load()
    loading = [each for each in node.reports if each["phase"] == "loading"]
    assert {each["files"] for each in loading} == {3}
    done = [each["done_bytes"] for each in loading]
    assert done == sorted(done)
    assert 0 < next(each for each in done if each) < done[-1] == 3 * SIZE


def test_a_run_that_was_killed_is_gone_on_with(node: Node) -> None:
    for number in range(200):
        node.file(f"datasets/{number}")
    calls = 0

    class Killed(BaseException):
        pass

    def run(argv: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 9:
            raise Killed
        return node.lfs(argv)

    with pytest.raises(Killed):
        node.load(run=run, processes=2)
    before = node.lfs.released()
    answer = node.load()
    assert (answer["loaded"], answer["there"]) == (before, 200 - before)
    assert node.lfs.released() == 0


def test_without_a_lustre_client_it_says_so(node: Node) -> None:
    node.file("datasets/a")

    def run(argv: Any) -> Any:
        return hsm.run_program(["no-such-program-at-all", *argv[1:]])

    with pytest.raises(Refusal, match="no Lustre client"):
        node.load(run=run)


def test_a_path_that_climbs_is_refused() -> None:
    for path in ("/../etc", "datasets/../..", "a\0b"):
        with pytest.raises(Refusal):
            below_mount(path, "/fsx")
    assert below_mount("./datasets//v1/", "/fsx") == "/fsx/datasets/v1"


def test_reasons_ask_s3_a_bounded_number_of_times(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training_storage.node.preload_reasons.MOST_ASKED", 3)
    reasons = Reasons(node.aws, Settings.from_dict(SETTINGS))
    codes = [reasons.of(f"/fsx/datasets/{number}", "")[0] for number in range(5)]
    assert codes == ["gone-from-s3"] * 3 + ["other"] * 2
    assert reasons.of("/fsx/elsewhere/a", "")[0] == "not-linked"


def test_any_name_is_text() -> None:
    chance = random.Random(7)
    for _ in range(200):
        raw = bytes(chance.randrange(1, 256) for _ in range(12))
        assert shown(os.fsdecode(raw)).encode()


def test_report_08_no_boot_waits_for_data() -> None:
    folder = Path(agent.__file__).parent / "bootstrap"
    scripts = {each.name: each.read_text() for each in folder.glob("*.sh")}
    assert scripts
    assert [name for name, text in scripts.items() if "hsm_restore" in text or "agent preload" in text] == []


def test_report_37_the_state_of_a_file_before_and_after(node: Node) -> None:
    """What the guide lets people look at: ``released`` is there before, and gone after."""
    place = str(node.file("datasets/shard-0001.tar"))
    before = hsm.states([place], node.lfs).by_path[place]
    assert "released" in before
    node.load()
    after = hsm.states([place], node.lfs).by_path[place]
    assert after == "(0x00000009) exists archived, archive_id:1"
    assert hsm.actions([place], node.lfs).by_path[place] == "NOOP"
    guide = (Path(__file__).parents[2] / "docs/preload.md").read_text()
    assert "lfs hsm_state" in guide
    assert "exists archived" in guide
