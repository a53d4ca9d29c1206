"""The emulator as a guest of a process: what it costs to import, what it leaves behind, and commands run against it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import boto3
import pytest

from training_storage.emulator import (
    Emulator,
    EmulatorError,
    EmulatorUnavailableError,
    command,
    emulator,
    run_command,
)

ROOT = Path(__file__).resolve().parents[2]


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


# --- guests behave


def test_importing_the_package_and_the_plugin_loads_no_moto() -> None:
    code = (
        "import sys, training_storage.emulator, training_storage.emulator.pytest_plugin;"
        "print([name for name in ('moto', 'boto3', 'botocore', 'cfnlint') if name in sys.modules])"
    )
    assert python(code).stdout.strip() == "[]"


def test_without_the_extra_the_error_names_it() -> None:
    code = """
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "moto":
            raise ModuleNotFoundError(name)
sys.modules["moto"] = None
from importlib import util
real = util.find_spec
util.find_spec = lambda name, *a: None if name == "moto" else real(name, *a)
from training_storage.emulator import emulator, EmulatorUnavailableError
import training_storage.emulator.pytest_plugin
try:
    with emulator(): pass
except EmulatorUnavailableError as error:
    print(error)
"""
    assert "pip install 'training-storage[emulator]'" in python(code).stdout


def test_another_moto_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "6.0.0")
    with (
        pytest.raises(EmulatorUnavailableError, match=r"made for moto >= 5\.2\.5, < 5\.3; found moto 6\.0\.0"),
        emulator(),
    ):
        pass


def test_moto_is_as_it_was_afterwards() -> None:
    from moto.cloudformation.responses import CloudFormationResponse
    from moto.fsx.responses import FSxResponse

    before = CloudFormationResponse.create_change_set, json.JSONEncoder.default
    with emulator():
        assert CloudFormationResponse.create_change_set is not before[0]
        assert hasattr(FSxResponse, "create_data_repository_task")
    assert (CloudFormationResponse.create_change_set, json.JSONEncoder.default) == before
    assert not hasattr(FSxResponse, "create_data_repository_task")


def one_bucket(name: str) -> dict[str, object]:
    return {"Resources": {"A": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": name}}}}


def test_an_emulator_inside_another_has_its_own_world(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(one_bucket("outer"), "outer")
    aws_emulator.client("s3").put_object(Bucket="outer", Key="a", Body=b"1")
    url = aws_emulator.server.url
    with emulator(account="111111111111") as inner:
        assert inner.client("s3").list_buckets()["Buckets"] == []
        assert inner.client("sts").get_caller_identity()["Account"] == "111111111111"
        inner.deploy(one_bucket("outer"), "inner")  # the same name, in another world
        inner.client("s3").put_object(Bucket="outer", Key="b", Body=b"2")
    assert aws_emulator.stacks() == ["outer"]
    assert [item["Key"] for item in aws_emulator.client("s3").list_objects_v2(Bucket="outer")["Contents"]] == ["a"]
    assert aws_emulator.client("s3").get_object(Bucket="outer", Key="a")["Body"].read() == b"1"
    assert aws_emulator.client("sts").get_caller_identity()["Account"] == "123456789012"
    assert aws_emulator.server.url == url
    aws_emulator.client("s3").delete_object(Bucket="outer", Key="a")
    assert aws_emulator.destroy("outer").status == "DELETE_COMPLETE"


def test_an_emulator_leaves_a_tests_own_mock_alone() -> None:
    from moto import mock_aws

    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="theirs")
        with emulator() as aws:
            assert aws.client("s3").list_buckets()["Buckets"] == []
        names = [item["Name"] for item in boto3.client("s3", region_name="us-east-1").list_buckets()["Buckets"]]
        assert names == ["theirs"]


def test_each_emulator_starts_empty() -> None:
    for _ in range(2):
        with emulator() as aws:
            aws.deploy(one_bucket("once"), "one")
            assert aws.stacks() == ["one"]


def test_plain_boto3_talks_to_it(aws_emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    aws_emulator.deploy(one_bucket("mine"), "one")
    assert "mine" in [item["Name"] for item in boto3.client("s3", region_name="us-east-1").list_buckets()["Buckets"]]


def test_the_callers_settings_are_out_of_sight_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere")
    with emulator() as aws:
        assert aws.client("s3").list_buckets()["Buckets"] == []
        assert boto3.client("s3", region_name="us-east-1").list_buckets()["Buckets"] == []
    assert os.environ["AWS_PROFILE"] == "no-such-profile"


# --- commands


def test_the_environment_of_a_command(tmp_path: Path) -> None:
    caller = {
        "PATH": "/bin",
        "AWS_PROFILE": "mine",
        "AWS_CA_BUNDLE": "/ca.pem",
        "aws_session_token": "x",
        "HTTPS_PROXY": "http://proxy",
        "http_proxy": "http://proxy",
    }
    found = command.environment(caller, url="http://127.0.0.1:5000", region="eu-west-1", folder=tmp_path)
    assert not {"AWS_PROFILE", "AWS_CA_BUNDLE", "aws_session_token", "HTTPS_PROXY", "http_proxy"} & set(found)
    assert found["PATH"] == "/bin"
    assert found["AWS_ENDPOINT_URL"] == found["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:5000"
    assert found["AWS_ENDPOINT_URL_S3_FOR_CLOUDFORMATION"] == "http://localhost:5000"
    assert (found["AWS_REGION"], found["AWS_DEFAULT_REGION"]) == ("eu-west-1", "eu-west-1")
    assert Path(found["AWS_CONFIG_FILE"]).read_text() == ""


CALLER = """
import boto3, json, sys
print(json.dumps([boto3.client("sts").get_caller_identity()["Account"], boto3.client("s3").list_buckets()["Buckets"]]))
"""


def test_a_command_is_that_account_in_that_region(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command([sys.executable, "-c", CALLER], account="111111111111", region="eu-west-1") == 0
    assert json.loads(capfd.readouterr().out) == ["111111111111", []]


def test_the_exit_code_is_the_commands() -> None:
    assert run_command([sys.executable, "-c", "raise SystemExit(7)"]) == 7


def test_a_command_that_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["no-such-command-at-all"]) == 127
    assert "no-such-command-at-all: command not found" in capfd.readouterr().err


def test_a_failure_inside_the_emulator_is_never_green(capfd: pytest.CaptureFixture[str]) -> None:
    """The command shrugs the error off; the emulator says what happened and does not."""
    code = """
import boto3
try:
    boto3.client("fsx").create_snapshot(Name="x", VolumeId="fsvol-0123456789abcdef0")
except Exception as error:
    print("shrug", type(error).__name__)
"""
    assert run_command([sys.executable, "-c", code]) == command.EXIT_EMULATOR_FAILED
    shown = capfd.readouterr()
    assert "shrug" in shown.out
    assert "the emulator itself failed 1 times" in shown.err
    assert "The create_snapshot action has not been implemented" in shown.err


def test_a_signal_reaches_the_command(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    child = f"""
import pathlib, signal, sys, time
def stop(*_):
    pathlib.Path({str(mark)!r}).write_text("told")
    sys.exit(9)
signal.signal(signal.SIGTERM, stop)
pathlib.Path({str(mark)!r}).write_text("ready")
time.sleep(60)
"""
    parent = (
        "import sys; from training_storage.emulator import run_command;"
        f"sys.exit(run_command([sys.executable, '-c', {child!r}]))"
    )
    with subprocess.Popen([sys.executable, "-c", parent]) as process:
        deadline = time.monotonic() + 60
        while not mark.exists() or mark.read_text() != "ready":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 9
    assert mark.read_text() == "told"


def test_no_command_is_an_error() -> None:
    with pytest.raises(EmulatorError, match="no command given"):
        run_command([])


# --- the CDK command line

APP = """
import os
import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2, aws_fsx as fsx, aws_s3 as s3

app = cdk.App()
stack = cdk.Stack(app, "tiny", env=cdk.Environment(account="111111111111", region="us-west-2"))
bucket = s3.Bucket(stack, "Lake", versioned=True, enforce_ssl=True, removal_policy=cdk.RemovalPolicy.RETAIN)
vpc = ec2.CfnVPC(stack, "Vpc", cidr_block="10.0.0.0/16")
subnet = ec2.CfnSubnet(stack, "Subnet", vpc_id=vpc.ref, cidr_block="10.0.0.0/18", availability_zone_id="usw2-az1")
if os.environ.get("SIZE"):
    fsx.CfnFileSystem(stack, "Fs", file_system_type="LUSTRE", subnet_ids=[subnet.ref], file_system_type_version="2.15",
        storage_capacity=int(os.environ["SIZE"]),
        lustre_configuration={"deploymentType": "PERSISTENT_2", "perUnitStorageThroughput": 250})
cdk.CfnOutput(stack, "Name", value=bucket.bucket_name)
app.synth()
"""

LOOK = """
import boto3

systems = boto3.client("fsx").describe_file_systems()["FileSystems"]
print("SYSTEMS", [item["StorageCapacity"] for item in systems])
print("BUCKETS", [item["Name"] for item in boto3.client("s3").list_buckets()["Buckets"]])
"""

# One step a line, so that a failure names its step; "!" means that the step has to fail.
STEPS = """
cdk bootstrap aws://111111111111/us-west-2
CDK_VALIDATION=true cdk deploy --require-approval never --outputs-file outputs.json
cdk deploy --require-approval never
SIZE=2400 cdk deploy --require-approval never
SIZE=4800 cdk diff
SIZE=4800 cdk deploy --require-approval never
! SIZE=1200 cdk deploy --require-approval never
$PYTHON look.py
cdk destroy --force
$PYTHON look.py
"""


@pytest.mark.slow
def test_the_cdk_command_line(tmp_path: Path) -> None:
    """Bootstrap, deploy, no change, grow, a refused shrink, destroy, with the real command line.

    The CDK's own template validation costs seconds a step; one step has it on.
    """
    if shutil.which("cdk") is None:
        pytest.fail("the CDK command line is not on PATH: install the toolchain extra")
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "look.py").write_text(LOOK)
    (tmp_path / "cdk.json").write_text(json.dumps({"app": f"{sys.executable} app.py"}))
    lines = ["set -u"]
    for number, step in enumerate(STEPS.strip().splitlines()):
        run = f"if {step[2:]}; then exit {100 + number}; fi" if step[0] == "!" else f"{step} || exit {100 + number}"
        lines.append(f"echo 'STEP {number}'; {run}")
    (tmp_path / "steps.sh").write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, "-m", "training_storage", "emulate", "--account", "111111111111", "--region", "us-west-2",
         "--", "bash", "steps.sh"],
        cwd=tmp_path,
        env={**os.environ, "CDK_VALIDATION": "false", "PYTHON": sys.executable, "AWS_PROFILE": "no-such-profile"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "tiny (no changes)" in said  # the command line writes progress to standard error
    assert "can only be increased" in said
    before, after = done.stdout.split("SYSTEMS ")[1:]
    assert before.startswith("[4800]")
    assert after.startswith("[]")
    name = json.loads((tmp_path / "outputs.json").read_text())["tiny"]["Name"]
    assert name in after  # the lake outlives its stack
