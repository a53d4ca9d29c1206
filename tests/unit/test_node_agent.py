"""The frame of a node's agent: answers, progress, exit codes, no traceback for people."""

from __future__ import annotations

import ast
import importlib
import io
import json
import os
import signal
import socket
import types
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from training_storage.node import agent, places
from training_storage.node.errors import Failure, Refusal

INSTANCE = "i-0123456789abcdef0"


class Lake:
    """The one bucket that the frame writes to, failing the first so many times."""

    def __init__(self, failing: int = 0) -> None:
        self.objects: dict[str, Any] = {}
        self.failing = failing

    def __call__(self, service: str) -> Lake:
        assert service == "s3"
        return self

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, ContentType: str) -> None:
        if self.failing:
            self.failing -= 1
            raise ClientError({"Error": {"Code": "SlowDown", "Message": "wait"}}, "PutObject")
        assert (Bucket, ContentType) == ("lake", "application/json")
        self.objects[Key] = json.load(io.BytesIO(Body))

    def answer(self, command_id: str = "c1") -> Any:
        return self.objects[f"{places.ANSWERS}{command_id}/{INSTANCE}.json"]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for a node with settings and an instance id."""
    monkeypatch.setenv("TS_ROOT", str(tmp_path))
    monkeypatch.delenv("TRAINING_STORAGE_INSTANCE_ID", raising=False)
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    settings = {"workload": "run1", "region": "us-east-1", "tier": "lustre", "lake_bucket": "lake"}
    _write(tmp_path / "etc/training-storage/agent.json", json.dumps(settings))
    _write(tmp_path / "var/lib/cloud/data/instance-id", INSTANCE + "\n")
    return tmp_path


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """A subcommand of the test's own, ``stub``, beside those of the package."""
    module = types.SimpleNamespace(HELP="A stub.", add_arguments=_no_arguments, run=None)
    monkeypatch.setattr(agent, "command_names", lambda: ["stub"])
    monkeypatch.setattr("importlib.import_module", lambda _: module)
    return module


def _no_arguments(parser: Any) -> None:
    parser.add_argument("--number", type=int, default=0)


def test_every_command_of_the_package_has_help_and_arguments(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in agent.command_names():
        with pytest.raises(SystemExit) as ended:
            agent.main([name, "--help"], aws=Lake())
        assert ended.value.code == 0
        assert "--command-id" in capsys.readouterr().out


def test_answer_is_printed_without_a_command_id(
    node: Path, command: types.SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    command.run = lambda arguments, settings, aws, progress: {"name": settings.workload, "number": arguments.number}
    assert agent.main(["stub", "--number", "7"], aws=Lake()) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "run1", "number": 7}


@pytest.mark.parametrize("name", agent.command_names())
def test_every_command_of_the_package_is_reached_with_its_own_options(
    name: str, node: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option may be called like anything that the agent keeps beside them, such as --run."""
    module = importlib.import_module(f"training_storage.node.commands.{name}")
    monkeypatch.setattr(module, "run", lambda *_: {"reached": name})
    given = ["--run", "r-1"] if name in ("survey", "manifest") else []
    assert agent.main([name, *given], aws=Lake()) == 0
    assert json.loads(capsys.readouterr().out) == {"reached": name}


@pytest.mark.parametrize("form", [["--command-id", "c1"], ["--command-id=c1"]])
def test_answer_and_progress_lie_in_the_lake(node: Path, command: types.SimpleNamespace, form: list[str]) -> None:
    now = [0.0]

    def run(arguments: Any, settings: Any, aws: Any, progress: Any) -> dict[str, int]:
        for files in range(1, 8):
            progress({"files": files})
            now[0] += 2.0
        return {"files": 7}

    command.run = run
    lake = Lake()
    assert agent.main(["stub", *form], aws=lake, clock=lambda: now[0]) == 0
    assert lake.answer() == {"state": "done", "exit_code": 0, "answer": {"files": 7}, "message": ""}
    assert lake.objects[f"{places.ANSWERS}c1/{INSTANCE}.progress.json"] == {"files": 7}


@pytest.mark.parametrize(
    ("error", "state", "exit_code", "message"),
    [
        (Refusal("it would not fit"), "refused", 1, "it would not fit"),
        (
            ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "PutObject"),
            "failed",
            3,
            "An error occurred (AccessDenied) when calling the PutObject operation: no",
        ),
        (
            EndpointConnectionError(endpoint_url="https://s3"),
            "failed",
            3,
            'Could not connect to the endpoint URL: "https://s3"',
        ),
        (OSError(28, "No space left on device", "/fsx/x"), "failed", 3, "/fsx/x: No space left on device"),
        (KeyError("step"), "failed", 3, "KeyError: 'step'"),
    ],
)
def test_failures_are_one_line_and_an_exit_code(
    node: Path,
    command: types.SimpleNamespace,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    state: str,
    exit_code: int,
    message: str,
) -> None:
    def run(*given: Any) -> None:
        raise error

    command.run = run
    lake = Lake()
    assert agent.main(["stub", "--command-id", "c1"], aws=lake) == exit_code
    assert lake.answer() == {"state": state, "exit_code": exit_code, "answer": None, "message": message}
    assert agent.main(["stub"], aws=lake) == exit_code
    shown = capsys.readouterr()
    assert shown.err == f"error: {message}\n"
    assert "Traceback" not in shown.out + shown.err


def test_traceback_goes_to_the_journal(
    node: Path, command: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The path of a socket has at most 107 bytes, and a test's folder may be longer.
    (node / "dev").mkdir()
    monkeypatch.chdir(node / "dev")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind("log")
        monkeypatch.setattr(agent, "rooted", lambda path: "log" if path == "/dev/log" else str(node) + path)
        journal.settimeout(2)
        command.run = lambda *given: dict[str, int]()["missing"]
        assert agent.main(["stub"], aws=Lake()) == 3
        received = journal.recv(65536).decode()
    assert "Traceback" in received
    assert "KeyError: 'missing'" in received


def test_arguments_that_are_refused_are_answered(node: Path, command: types.SimpleNamespace) -> None:
    lake = Lake()
    assert agent.main(["stub", "--command-id", "c1", "--number", "many"], aws=lake) == 1
    assert lake.answer()["state"] == "refused"
    assert "many" in lake.answer()["message"]
    assert agent.main(["no-such-command", "--command-id", "c2"], aws=lake) == 1
    assert "no-such-command" in lake.answer("c2")["message"]


def test_sigterm_ends_a_command_with_an_answer(node: Path, command: types.SimpleNamespace) -> None:
    undone = []

    def run(*given: Any) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        except Exception:  # as commands do around a single file
            undone.append("swallowed")
        finally:
            undone.append("lease")

    command.run = run
    before = signal.getsignal(signal.SIGTERM)
    lake = Lake()
    assert agent.main(["stub", "--command-id", "c1"], aws=lake) == 143
    assert (lake.answer()["state"], lake.answer()["exit_code"]) == ("failed", 143)
    assert undone == ["lease"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_answer_is_tried_again_and_then_a_failure(
    node: Path, command: types.SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[float] = []
    command.run = lambda *given: {}
    lake = Lake(failing=3)
    assert agent.main(["stub", "--command-id", "c1"], aws=lake, sleep=waits.append) == 0
    assert lake.answer()["state"] == "done"
    assert waits == [2.0, 4.0, 8.0]
    assert agent.main(["stub", "--command-id", "c1"], aws=Lake(failing=99), sleep=waits.append) == 3
    assert "the answer was not written to lake" in capsys.readouterr().err


def test_progress_that_is_not_written_fails_nothing(node: Path, command: types.SimpleNamespace) -> None:
    def run(arguments: Any, settings: Any, aws: Any, progress: Any) -> dict[str, int]:
        progress({"files": 1})
        return {"files": 1}

    command.run = run
    lake = Lake(failing=1)
    assert agent.main(["stub", "--command-id", "c1"], aws=lake) == 0
    assert set(lake.objects) == {f"{places.ANSWERS}c1/{INSTANCE}.json"}


@pytest.mark.parametrize("content", [None, "{", '{"workload": "run1"}', "[]"])
def test_node_without_settings_refuses(
    node: Path, command: types.SimpleNamespace, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    path = node / "etc/training-storage/agent.json"
    path.unlink() if content is None else path.write_text(content, encoding="utf-8")
    assert agent.main(["stub"], aws=Lake()) == 1
    assert "/etc/training-storage/agent.json" in capsys.readouterr().err


@pytest.mark.parametrize("command_id", ["../../records/x", "a/b", ".x", "x" * 200])
def test_command_id_is_no_way_out_of_the_answers(
    node: Path, command: types.SimpleNamespace, capsys: pytest.CaptureFixture[str], command_id: str
) -> None:
    lake = Lake()
    assert agent.main(["stub", "--command-id", command_id], aws=lake) == 1
    assert lake.objects == {}
    assert "no command id" in capsys.readouterr().err


def test_instance_id_of_the_environment_comes_first(
    node: Path, command: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINING_STORAGE_INSTANCE_ID", "i-other")
    command.run = lambda *given: {}
    lake = Lake()
    assert agent.main(["stub", "--command-id", "c1"], aws=lake) == 0
    assert list(lake.objects) == [f"{places.ANSWERS}c1/i-other.json"]


def test_what_was_done_in_part_is_answered_with_the_failure(
    node: Path, command: types.SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*given: Any) -> None:
        raise Failure("one of two is not in S3", {"promoted": 1})

    command.run = run
    lake = Lake()
    assert agent.main(["stub", "--command-id", "c1"], aws=lake) == 3
    assert lake.answer() == {
        "state": "failed",
        "exit_code": 3,
        "answer": {"promoted": 1},
        "message": "one of two is not in S3",
    }
    assert agent.main(["stub"], aws=lake) == 3
    shown = capsys.readouterr()
    assert json.loads(shown.out.partition("\n")[2]) == {"promoted": 1}
    assert shown.err == "error: one of two is not in S3\n"


def test_what_is_shipped_to_nodes_is_python_3_9() -> None:
    room = Path(agent.__file__).parent
    files = [path for path in room.rglob("*.py") if "functions" not in path.relative_to(room).parts]
    assert len(files) > 20
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
        # Annotations are text then, so that newer ones do no harm.
        lines = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
        assert "__future__" in lines or not tree.body[1:], path
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            newer = {"zip": {"strict"}, "dataclass": {"kw_only", "slots"}, "field": {"kw_only"}}
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            assert not newer.get(name, set()) & {str(key.arg) for key in call.keywords}, path
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not names & {"aiter", "anext", "EncodingWarning", "ExceptionGroup"}, path


@pytest.mark.parametrize("name", agent.command_names())
def test_no_argument_of_a_command_stands_in_the_way_of_the_frame(name: str) -> None:
    parser = agent._parser([name])
    (commands,) = [action for action in parser._actions if action.dest == "command"]
    assert isinstance(commands.choices, dict)
    taken = [action.dest for action in commands.choices[name]._actions]
    assert not {"works", "command"} & set(taken)
    assert len(taken) == len(set(taken))
