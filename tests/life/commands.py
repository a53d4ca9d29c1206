"""``training-storage checkpoints`` as a user calls it, and the agent as Systems Manager starts it on a node."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.life.fake_aws import FakeAws
from tests.life.release_world import node_root
from tests.life.waits import pass_waits
from training_storage.cli import main
from training_storage.node import agent
from training_storage.node.aws import Aws
from training_storage.operations import aws as operations_aws


def sign_in(monkeypatch: pytest.MonkeyPatch, aws: FakeAws) -> None:
    """Let commands find a region and clients, and wait on the clock of the test."""

    class Session:
        region_name = "us-east-1"

        def client(self, service: str, **_given: Any) -> Any:
            return aws(service)

    pass_waits(monkeypatch, aws.sleep)
    monkeypatch.setattr(operations_aws, "make_session", lambda _region, _profile: Session())


def run_agent(
    root: Path,
    instance: str,
    text: str,
    settings: Mapping[str, Any],
    aws: Aws,
    sleep: Callable[[float], object],
) -> tuple[int, str, str]:
    """Run the agent of a node; return its exit code, output and error output.

    Args:
        root: Stands for the root of the node.
        instance: Its id.
        text: The shell line.
        settings: What user data wrote.
        aws: Clients of the node.
        sleep: Waits.
    """
    out, err = StringIO(), StringIO()
    place = root / "etc/training-storage/agent.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(dict(settings)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, node_root(root), redirect_stdout(out), redirect_stderr(err):
        patch.setenv("TRAINING_STORAGE_INSTANCE_ID", instance)
        code = agent.main(shlex.split(text)[1:], aws=aws, sleep=sleep)
    return code, out.getvalue(), err.getvalue()


def said(*arguments: str, code: int = 0) -> str:
    """Return what a command prints; with an exit code, what it says of the error too."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        ended = main(["checkpoints", *arguments])
    assert ended == code, out.getvalue() + err.getvalue()
    return out.getvalue() + (err.getvalue() if code else "")


def told(*arguments: str, code: int = 0) -> Any:
    """Return what a command prints as JSON."""
    out = StringIO()
    with redirect_stdout(out):
        assert main(["checkpoints", *arguments, "--format", "json"]) == code, out.getvalue()
    return json.loads(out.getvalue())
