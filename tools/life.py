"""Bring the console blocks of the pages on a run's life up to date: one run in the emulator, from deploy to release.

A block belongs to the step that the comment above it names. Commands are the product's own, on the node too; commands
of AWS are answered by the emulator through boto3, as the AWS command line would print them. What differs from run to
run (ids, times, rates) is replaced, so that a test can compare the pages with another run.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jmespath  # type: ignore[import-untyped]  # it has no types
from botocore import xform_name
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.emulated.life import Life, life_of, write  # noqa: E402 - found by the line above
from training_storage.emulator.command import environment  # noqa: E402 - as above
from training_storage.node import places  # noqa: E402 - as above
from training_storage.operations.node_commands import choose_nodes  # noqa: E402 - as above

PAGES = (ROOT / "docs" / "life-of-a-run.md", ROOT / "docs" / "checkpoints.md")
BLOCK = re.compile(r"<!-- step: ([a-z0-9-]+) -->\n```(console|json|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)

_BEGIN = datetime(2026, 12, 3, 9, 0, tzinfo=UTC).timestamp()
_SLOT_S = 1800
"""Times are told to the half hour: saves are so far apart, and no wait of the walk between them is as long."""

_ID = re.compile(r"\b(fs|i|dra|task|subnet|sg|vpc)-([0-9a-f]{17})\b")
_FINGERPRINT = re.compile(r"\b[0-9a-f]{16}\b")
_VERSION = re.compile(r'("version": ")[^"]+(")')
_RUN = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{8}\b")
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\b(\d{4}-\d\d-\d\d)([ T])(\d\d:\d\d:\d\d)(?:\.\d+)?( UTC|Z)")
_NANOSECONDS = re.compile(r"\b1[0-9]{18}\b")
_SECONDS = re.compile(r"\b1[0-9]{9}\.[0-9]+\b")
_EVENT = re.compile(r"^\S+ \| +\d+ \| ")
"""Lines of progress of a stack; their order is not always the same."""

_CLOCK = re.compile(r"\b\d?\d:\d\d:\d\d [AP]M\b")
_RATE = re.compile(r"[0-9.,]+ (?:s|min|h) at [0-9.,]+ MB/s")
_TOOK = re.compile(r"(looked at in) [0-9.,]+ (?:s|min|h)\b")


def workload(page: str) -> dict[str, Any]:
    """Return the workload file of a page, as data."""
    found = re.search(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError("the page has no workload file")
    data: dict[str, Any] = YAML(typ="safe").load(found[1])
    return data


_READERS = {
    "cat": "import sys; open(sys.argv[1], 'rb').read()",
    "sha256sum": "import hashlib, sys; body = open(sys.argv[1], 'rb').read(); "
    "print(hashlib.sha256(body).hexdigest() + '  ' + sys.argv[1])",
}


class Stable:
    """Replaces what differs from run to run by what does not, the same by the same.

    Args:
        began: When the walk began, seconds since 1970 of the emulator.
    """

    def __init__(self, began: float) -> None:
        self._parts = [(float("-inf"), began)]
        self._known: dict[str, str] = {}
        self._count: dict[str, int] = {}
        self.names: dict[str, str] = {}

    def text(self, given: str) -> str:
        """Return a text without what changes."""
        for name, stands_for in self.names.items():
            given = given.replace(name, stands_for)
        given = _UUID.sub(lambda found: self._same("uuid", found[0], "01234567-89ab-4cde-8f01-23456789ab{:02x}"), given)
        given = _ID.sub(lambda found: self._same(found[1], found[0], found[1] + "-0123456789abcdef{:x}"), given)
        given = _FINGERPRINT.sub(lambda found: self._same("print", found[0], "5eed5eed5eed5e{:02x}"), given)
        given = _VERSION.sub(r"\1...\2", given)
        given = _RUN.sub("01234567-89abcdef", given)
        given = _TIME.sub(self._time, given)
        given = _NANOSECONDS.sub(lambda found: str(int(self._slot(int(found[0]) / 1e9)) * 10**9), given)
        given = _RATE.sub("... s at ... MB/s", given)
        given = _TOOK.sub(r"\1 ... s", given)
        given = _SECONDS.sub(lambda found: f"{self._slot(float(found[0])):.1f}", given)
        return _CLOCK.sub("10:00:00 AM", given)

    def _same(self, kind: str, found: str, form: str) -> str:
        if found not in self._known:
            self._count[kind] = number = self._count.get(kind, -1) + 1
            self._known[found] = form.format(number)
        return self._known[found]

    def part(self, now: float) -> None:
        """Let what follows have its times from the next slot on, however long what was before has really taken."""
        number = len(self._parts)
        self._parts.append((now - 60, now - number * _SLOT_S))

    def _slot(self, seconds: float) -> float:
        began = next(began for since, began in reversed(self._parts) if seconds >= since)
        return _BEGIN + round((seconds - began) / _SLOT_S) * _SLOT_S

    def _time(self, found: re.Match[str]) -> str:
        seconds = datetime.fromisoformat(f"{found[1]}T{found[3]}+00:00").timestamp()
        return datetime.fromtimestamp(self._slot(seconds), UTC).strftime(f"%Y-%m-%d{found[2]}%H:%M:%S") + found[4]


class Walk:
    """One run in an emulator; ``steps`` holds what its steps printed, in the form of a block.

    Args:
        life: The run, nothing deployed yet.
    """

    def __init__(self, life: Life) -> None:
        self.life = life
        self.name = life.name
        self.steps: dict[str, str] = {}
        self.stable = Stable(life.aws.now())
        self._losses = iter((2.9, 2.5, 2.6, 2.2, 2.3, 2.4, 2.35, 2.1))

    # -- what is shown

    def show(self, step: str, *commands: str, code: int = 0) -> None:
        """Run commands one after another, and keep what they print as a block; one of them ends with ``code``."""
        lines = []
        codes = []
        for command in commands:
            ended, printed = self._run(command)
            codes.append(ended)
            lines += [f"$ {command}", *printed.rstrip("\n").splitlines()]
        if max(codes) != code:
            raise RuntimeError("\n".join(lines))
        self.steps[step] = self.stable.text("\n".join(line.rstrip() for line in lines)) + "\n"

    def keep(self, step: str, content: str) -> None:
        """Keep a text as a block."""
        self.steps[step] = self.stable.text(content.rstrip("\n")) + "\n"

    def _run(self, command: str) -> tuple[int, str]:
        program, *arguments = shlex.split(command)
        if program == "training-storage":
            said = self.life.command(*arguments)
            errors = [line for line in said.err.splitlines() if line.startswith("error:")]
            return said.code, said.out or "\n".join(errors)
        if program == "aws":
            return 0, self._aws(*arguments)
        if program == "cdk":
            return self._cdk(*arguments)
        # The node that commands ask: which of the nodes comes first is chance.
        (chosen,) = choose_nodes(self.life.client, self.name, 1)
        node = self.life.aws.node(chosen)
        shell = re.sub(r"(?<![\w.])/(fsx|opt|etc|var)\b", rf"{node.root}/\1", command)
        # Only what is read by Python is brought from S3 on an emulated node.
        if program in _READERS:
            shell = shlex.join([sys.executable, "-c", _READERS[program], f"{node.root}{arguments[0]}"])
        done = node.run(shell)
        return done.returncode, (done.stdout + done.stderr).replace(str(node.root), "")

    def _aws(self, service: str, operation: str, *options: str) -> str:
        """Answer a command of AWS as its command line would with ``--output text``."""
        if (service, operation) == ("s3", "cp"):
            bucket, _, key = options[0].removeprefix("s3://").partition("/")
            body: bytes = self.life.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
            return body.decode()
        given = dict(zip(options[::2], options[1::2], strict=True))
        query, output = given.pop("--query", ""), given.pop("--output", "")
        if query and output != "text":
            raise ValueError(f"{operation}: only --output text is known here")
        client = self.life.client(service)
        name = "".join(part.capitalize() for part in operation.split("-"))
        shape = client.meta.service_model.operation_model(name).input_shape
        request = {}
        for option, value in given.items():
            key = next(each for each in shape.members if xform_name(each, "-") == option.removeprefix("--"))
            kind = shape.members[key].type_name
            request[key] = [value] if kind == "list" else int(value) if kind == "integer" else value
        answer = getattr(client, xform_name(name))(**request)
        return _as_text(jmespath.search(query, answer)) if query else ""

    def _cdk(self, *arguments: str) -> tuple[int, str]:
        """Run the real CDK command line on the templates that were deployed."""
        with TemporaryDirectory() as folder:
            url, region = self.life.aws.server.url, self.life.aws.region
            done = subprocess.run(  # noqa: S603 - our own command
                ["cdk", *arguments, "--app", str(self.life.assembly.folder), "--force", "--no-color"],  # noqa: S607 - from the PATH
                capture_output=True, text=True, check=False,
                env=environment(os.environ, url=url, region=region, folder=Path(folder)),
            )  # fmt: skip
        lines = (done.stdout + done.stderr).splitlines()
        return done.returncode, "\n".join(line for line in lines if not _EVENT.match(line))

    # -- what happens beside commands

    def train(self, step: int, *, complete: bool = True) -> None:
        """Save a checkpoint half an hour after the one before, with the metrics that the job knows of it."""
        self.life.aws.advance(_SLOT_S + 41.5)
        self.stable.part(self.life.aws.now())
        nodes = self.life.nodes()
        folder = f"/fsx/checkpoints/run1/step-{step}"
        for rank in range(2):
            body = f"rank {rank} of step {step} ".encode() * 200_000
            write(self.life, nodes[rank % len(nodes)], f"{folder}/__{rank}_0.distcp", body)
        if complete:
            metrics = {"eval_loss": next(self._losses), "save_seconds": 41.5}
            write(self.life, nodes[0], f"{folder}/metrics.json", json.dumps(metrics).encode())
            write(self.life, nodes[0], f"{folder}/.metadata", b"what torch.distributed.checkpoint writes last")


def _as_text(found: Any) -> str:
    """Return an answer as the AWS command line prints it with ``--output text``."""
    if isinstance(found, list) and any(isinstance(each, list) for each in found):
        return "\n".join("\t".join(_word(word) for word in each) for each in found)
    return "\t".join(_word(each) for each in found) if isinstance(found, list) else _word(found)


def _word(value: Any) -> str:
    return "None" if value is None else str(value)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def typed(text: str) -> Iterator[None]:
    """Let a command of this process find somebody at a terminal who types a line."""
    before, sys.stdin = sys.stdin, _Terminal(text + "\n")
    try:
        yield
    finally:
        sys.stdin = before


def walk(life: Life) -> dict[str, str]:
    """Walk through the life of a run, and return the blocks by step."""
    at = Walk(life)
    _deploy_and_load(at)
    _train(at)
    _release(at)
    _again(at)
    return at.steps


def _deploy_and_load(at: Walk) -> None:
    life, name, show = at.life, at.name, at.show
    life.deploy()
    at.stable.names[life.output("hot", "FileSystemMountName")] = "fsxmount"
    show(
        "deployed",
        f"aws cloudformation describe-stacks --query {_stacks(name)} --output text",
        f"aws cloudformation describe-stacks --stack-name {name}-hot --query {_OUTPUTS} --output text",
    )
    file_system = life.output("hot", "FileSystemId")
    show(
        "linked",
        f"aws fsx describe-file-systems --file-system-ids {file_system} "
        "--query 'FileSystems[].[Lifecycle,StorageCapacity]' --output text",
        "aws fsx describe-data-repository-associations "
        "--query 'Associations[].[FileSystemPath,DataRepositoryPath,Lifecycle]' --output text",
    )
    show("mounted", "lfs df /fsx")
    for number in range(3):
        life.put(f"datasets/v1/shard-000{number}.tar", bytes([65 + number]) * 3_000_000)
    show("metadata", f"training-storage preload {name} --metadata")
    show("before-read", "lfs hsm_state /fsx/datasets/shard-0000.tar")
    show("first-read", "cat /fsx/datasets/shard-0000.tar > /dev/null", "lfs hsm_state /fsx/datasets/shard-0000.tar")
    show("preload-dry", f"training-storage preload {name} --dry-run")
    show("preload", f"training-storage preload {name}")
    show("preload-again", f"training-storage preload {name}")


def _train(at: Walk) -> None:
    life, name, show = at.life, at.name, at.show
    for step in range(1000, 5000, 1000):
        at.train(step)
    at.train(5000, complete=False)
    show("on-the-node", "ls -A /fsx/checkpoints/run1/step-4000", "ls -A /fsx/checkpoints/run1/step-5000")
    show("list-before", f"training-storage checkpoints list {name}")
    show("promote-dry", f"training-storage checkpoints promote {name} --dry-run")
    show("agent", "/opt/training-storage/bin/agent run --quiet")
    show("list-after", f"training-storage checkpoints list {name}")
    key = next(key for key in life.objects(places.RECORDS) if "step-3000" in key)
    show("record", f"aws s3 cp s3://{life.lake}/{key} -")
    show("ledger", f"aws s3 cp s3://{life.lake}/{places.LEDGERS}run1.json -")
    at.train(5000)
    at.train(6000)
    show("promote-asked", f"training-storage checkpoints promote {name} --path run1/step-5000")
    show("prune-dry", f"training-storage checkpoints prune {name} --dry-run")
    show("prune", f"training-storage checkpoints prune {name}")
    show("verify", f"training-storage checkpoints verify {name}")
    show("drill", f"training-storage checkpoints restore-drill {name}")
    with _workload_file(life) as file:
        said = life.command("checkpoints", "advise", name, "--workload", file, "--failures", "3", "--over", "10d")
    command = f"training-storage checkpoints advise {name} --workload {name}.yaml --failures 3 --over 10d"
    at.keep("advise", f"$ {command}\n{said.out}")
    show("schedules", "aws scheduler list-schedules --query 'Schedules[].[Name,State]' --output text")


def _release(at: Walk) -> None:
    life, name, show = at.life, at.name, at.show
    show("sum-before", "sha256sum /fsx/checkpoints/run1/step-6000/__0_0.distcp")
    show("release-dry", f"training-storage release {name} --dry-run")
    with typed(name):
        show("release", f"training-storage release {name}")
    proof = next(key for key in life.objects(places.RELEASES) if key.endswith("proof.json"))
    show("proof", f"aws s3 cp s3://{life.lake}/{proof} -")
    show("released", f"aws cloudformation describe-stacks --query {_stacks(name)} --output text")


def _again(at: Walk) -> None:
    life, name, show = at.life, at.name, at.show
    life.deploy()
    at.stable.names[life.output("hot", "FileSystemMountName")] = "fsxmnew2"
    show("list-again", f"training-storage checkpoints list {name}")
    show("state-again", "lfs hsm_state /fsx/checkpoints/run1/step-6000/__0_0.distcp")
    show("restore", f"training-storage preload {name} --path /checkpoints/run1/step-6000")
    show("sum-after", "sha256sum /fsx/checkpoints/run1/step-6000/__0_0.distcp")
    at.train(7000)
    at.train(8000)
    life.nodes()[0].agent("run")
    show("destroy", f"cdk destroy {name}-hot", code=1)
    show("release-storage-node", f"training-storage release {name} --yes")


_OUTPUTS = "'Stacks[0].Outputs[?!starts_with(OutputKey, `Exports`)].[OutputKey,OutputValue]'"


def _stacks(name: str) -> str:
    return f"'Stacks[?starts_with(StackName, `{name}-`)].[StackName,StackStatus]'"


@contextmanager
def _workload_file(life: Life) -> Iterator[str]:
    place = Path(life.assembly.folder) / f"{life.name}.yaml"
    with place.open("w", encoding="utf-8") as stream:
        YAML(typ="safe").dump(life.data, stream)
    yield str(place)


def renewed(text: str, steps: dict[str, str]) -> str:
    """Return a page with its blocks as a walk printed them.

    Raises:
        KeyError: A block names a step that the walk does not have.
    """
    return BLOCK.sub(lambda found: f"<!-- step: {found[1]} -->\n```{found[2]}\n{steps[found[1]]}```", text)


def main() -> None:
    """Walk, and rewrite the blocks of the pages."""
    os.environ["COLUMNS"] = "100"
    with life_of(workload(PAGES[0].read_text(encoding="utf-8"))) as life:
        steps = walk(life)
    for page in PAGES:  # read now: a walk takes minutes, in which somebody may write
        page.write_text(renewed(page.read_text(encoding="utf-8"), steps), encoding="utf-8")


if __name__ == "__main__":
    main()
