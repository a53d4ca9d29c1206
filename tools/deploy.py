"""Deploy a workload with the real CDK command line: into the emulator (default) or into the caller's AWS account.

`make deploy` calls it. Exit code 0 only when every stack is there with its outputs.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.table import Table

from training_storage import TrainingStorageError, Workload, load_workload
from training_storage.cli.report import report
from training_storage.errors import AwsError

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "llama3-70b.yaml"
OUTPUTS = ROOT / ".make" / "outputs.json"
INSIDE = "TRAINING_STORAGE_DEPLOY_INSIDE"


def main() -> int:
    """Run the deployment; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=["emulator", "aws"], default="emulator")
    parser.add_argument("--workload", type=Path, help=f"workload file (default, for the emulator: {EXAMPLE.name})")
    arguments = parser.parse_args()
    if arguments.workload is None or arguments.workload == Path():
        if arguments.target == "aws":
            parser.error("a real account needs a workload that was chosen on purpose: add WORKLOAD=FILE")
        arguments.workload = EXAMPLE
    try:
        workload = load_workload(arguments.workload)
        if arguments.target == "emulator" and INSIDE not in os.environ:
            return _again_inside_the_emulator(arguments.workload, workload)
        return _deploy(arguments.workload.resolve(), workload, real=arguments.target == "aws")
    except TrainingStorageError as error:
        return report(error, as_json=False)
    except KeyboardInterrupt:
        if INSIDE not in os.environ:
            print("interrupted", file=sys.stderr)
        return 130


def _again_inside_the_emulator(path: Path, workload: Workload) -> int:
    command = [
        "training-storage", "emulate", "--region", workload.region,
        *(["--account", workload.account] if workload.account else []),
        "--", sys.executable, __file__, "--target", "emulator", "--workload", str(path),
    ]  # fmt: skip
    # CDK's own template validation costs seconds a synth; the test suite runs it over every example.
    environment = {**os.environ, INSIDE: "1", "CDK_VALIDATION": os.environ.get("CDK_VALIDATION", "false")}
    return subprocess.run(command, check=False, env=environment).returncode  # noqa: S603 - our own command


def _cdk(*arguments: str) -> int:
    print(f"\n$ cdk {' '.join(arguments)}", flush=True)
    # The launchers around Node answer Ctrl-C with a traceback; they inherit that it is ignored, and Node takes it back.
    return subprocess.run(  # noqa: S603 - our own command
        ["cdk", *arguments],  # noqa: S607 - from the PATH
        cwd=ROOT,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    ).returncode


def _account_of_the_caller(region: str) -> str:
    try:
        return str(boto3.client("sts", region_name=region).get_caller_identity()["Account"])
    except (BotoCoreError, ClientError) as error:
        raise AwsError(
            f"AWS does not say whose account this is: {error}; sign in first (aws sso login, or AWS_PROFILE), or leave "
            "TARGET=aws away to deploy into the emulator",
            operation="sts:GetCallerIdentity",
            code=type(error).__name__,
        ) from None


def _deploy(path: Path, workload: Workload, *, real: bool) -> int:
    account = _account_of_the_caller(workload.region)
    OUTPUTS.parent.mkdir(exist_ok=True)
    OUTPUTS.unlink(missing_ok=True)
    context = ["-c", f"workload={os.path.relpath(path, ROOT)}"]
    code = _cdk("bootstrap", f"aws://{workload.account or account}/{workload.region}", *context)
    if code:
        return code
    approval = [] if real else ["--require-approval", "never"]
    code = _cdk("deploy", "--all", *approval, "--outputs-file", str(OUTPUTS), *context)
    if code:
        return code
    # The command line has been seen to end well with nothing deployed, so the outputs are the proof, not its exit code.
    outputs = json.loads(OUTPUTS.read_text(encoding="utf-8")) if OUTPUTS.exists() else {}
    if not any(stack.startswith(f"{workload.name}-") for stack in outputs):
        print("error: cdk ended without an error, but no stack has outputs; nothing can be trusted", file=sys.stderr)
        return 3
    _print_outputs(outputs)
    if not real:
        print(
            "\nThat was the emulator: it shows that references, order and code work, not that AWS accepts every value."
        )
        print("With a real account: sign in (aws sso login, or AWS_PROFILE), then")
        print(
            "  make deploy TARGET=aws WORKLOAD=FILE     (read `training-storage plan FILE` first: it starts the fleet)"
        )
    return 0


def _print_outputs(outputs: dict[str, dict[str, str]]) -> None:
    table = Table(title="Outputs")
    for column in ("stack", "output", "value"):
        table.add_column(column, overflow="fold")
    for stack in sorted(outputs):
        # Exports are CloudFormation's own wiring between the stacks.
        for key in sorted(key for key in outputs[stack] if not key.startswith("ExportsOutput")):
            table.add_row(stack, key, outputs[stack][key])
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
