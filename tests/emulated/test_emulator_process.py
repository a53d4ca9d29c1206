"""The emulator as a guest of a process: what it costs to import, what it leaves behind, and commands run against it."""

from __future__ import annotations

import json
import logging
import os
import shlex
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
    assert "pip install 'FOLDER[emulator]'" in python(code).stdout


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


def test_a_config_file_of_the_caller_leads_nowhere(tmp_path: Path) -> None:
    """An endpoint in ~/.aws/config would send boto3 past the emulator; a broken file would stop it."""
    (tmp_path / ".aws").mkdir()
    code = """
import boto3
from training_storage.emulator import emulator
with emulator() as aws:
    aws.deploy({"Resources": {"A": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "here"}}}}, "s")
    print([item["Name"] for item in boto3.client("s3").list_buckets()["Buckets"]])
"""
    files = {
        "endpoint": "[default]\nendpoint_url = http://127.0.0.1:9\nregion = mars-east-1\n",
        "broken": "[default\n===",
    }
    for name, text in files.items():
        (tmp_path / ".aws" / "config").write_text(text)
        done = python(code, HOME=str(tmp_path))
        assert "here" in done.stdout, (name, done.stderr)


@pytest.mark.parametrize("ends", ["well", "with an exception", "with Ctrl-C"])
def test_the_process_is_as_it_was_afterwards(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/their/config")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    own = boto3.session.Session.__new__(boto3.session.Session)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", own)
    before = dict(os.environ)
    error = {"with an exception": ZeroDivisionError, "with Ctrl-C": KeyboardInterrupt}.get(ends)

    def use() -> None:
        with emulator() as aws:
            aws.deploy(one_bucket("a-bucket"), "one")
            assert aws.server.url
            boto3.client("s3").list_buckets()
            if error is not None:
                raise error

    if error is None:
        use()
    else:
        with pytest.raises(error):
            use()
    assert dict(os.environ) == before
    assert boto3.DEFAULT_SESSION is own
    from training_storage.emulator import server

    assert not server.running()
    with emulator() as aws:
        assert aws.stacks() == []


def test_an_emulator_inside_a_tests_own_mock_leaves_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    from moto import mock_aws
    from moto.core.config import default_user_config

    with mock_aws():
        before = json.dumps(default_user_config, sort_keys=True)
        with emulator():
            pass
        assert json.dumps(default_user_config, sort_keys=True) == before
    assert "execute_state_machine" not in json.dumps(default_user_config.get("stepfunctions", {})) or (
        default_user_config["stepfunctions"]["execute_state_machine"] is False
    )


def test_a_tests_own_mock_inside_an_emulator_takes_nothing_away(aws_emulator: Emulator) -> None:
    from moto import mock_aws

    aws_emulator.deploy(one_bucket("stays"), "one")
    with mock_aws():
        pass
    assert aws_emulator.stacks() == ["one"]
    aws_emulator.client("s3").head_bucket(Bucket="stays")


@pytest.mark.slow
def test_emulators_in_workers_side_by_side(tmp_path: Path) -> None:
    """pytest-xdist runs workers as processes: each has its own emulator."""
    (tmp_path / "test_many.py").write_text(
        """
import pytest

@pytest.mark.parametrize("number", range(4))
def test_one(aws_emulator, number):
    assert aws_emulator.stacks() == []
    template = {"Resources": {"A": {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "same-name"}}}}
    aws_emulator.deploy(template, "same-name")
    assert aws_emulator.server.url
"""
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "--rootdir", str(tmp_path),
         str(tmp_path)],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert "4 passed" in done.stdout, done.stdout + done.stderr


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


def test_a_service_that_is_not_emulated_is_said_in_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    code = """
import boto3
try:
    boto3.client("pricing").get_products(ServiceCode="AmazonFSx")
except Exception as error:
    print(error)
"""
    assert run_command([sys.executable, "-c", code]) == command.EXIT_EMULATOR_FAILED
    shown = capfd.readouterr()
    assert "the emulator failed: nothing in it stands for pricing.us-east-1.amazonaws.com" in shown.out
    assert "GetProducts: nothing in it stands for pricing.us-east-1.amazonaws.com" in shown.err
    assert "Traceback" not in shown.err


def test_the_log_of_moto_is_not_the_commands(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    class Talks(command._Child):
        def start(self, words: object, environment: object) -> subprocess.Popen[bytes]:
            logging.getLogger("moto.stepfunctions").error("a branch that was not taken")
            return super().start(words, environment)  # type: ignore[arg-type]  # as it was called

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "_Child", Talks)
        assert run_command([sys.executable, "-c", "pass"]) == 0
    assert not caplog.records
    assert "branch" not in capfd.readouterr().err
    logging.getLogger("moto.stepfunctions").error("afterwards")
    assert [record.message for record in caplog.records] == ["afterwards"]


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


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["/"], 126, "Permission denied"),
        (["no\0pe"], 126, "null byte"),
        ([""], 126, "Permission denied"),
        (["sh", "-c", "exit 3"], 3, ""),
        (["sh", "-c", "kill -KILL $$"], 137, ""),
        (["sh", "-c", "kill -TERM $$"], 143, ""),
        (["sh", "-c", "kill -INT $$"], 130, ""),
    ],
)
def test_how_a_command_can_end(words: list[str], code: int, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(words) == code
    assert said in capfd.readouterr().err


@pytest.mark.slow
def test_a_command_may_write_anything_and_much_of_it(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 20000); sys.stderr.buffer.write(b'\\xff' * 100000)"
    done = subprocess.run(
        [sys.executable, "-m", "training_storage", "emulate", "--", sys.executable, "-c", code],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout == bytes(range(256)) * 20000
    assert done.stderr == b"\xff" * 100000


def test_the_dashes_that_were_forgotten() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "training_storage", "emulate", "cdk", "deploy", "--all"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert " -- " in done.stderr


@pytest.mark.slow
def test_a_strange_environment(tmp_path: Path) -> None:
    """A home that cannot be written, proxies, a profile that does not exist, a broken configuration."""
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "config").write_text("[profile x]\nendpoint_url = http://127.0.0.1:9\n===")
    home.chmod(0o500)
    strange = {
        "HOME": str(home),
        "AWS_PROFILE": "no-such-profile",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_CA_BUNDLE": "/nowhere",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
        "ALL_PROXY": "socks5://127.0.0.1:9",
    }
    try:
        done = subprocess.run(
            [sys.executable, "-m", "training_storage", "emulate", "--", sys.executable, "-c", CALLER],
            capture_output=True,
            text=True,
            env={**os.environ, **strange},
            check=False,
        )
    finally:
        home.chmod(0o700)
    assert (done.returncode, json.loads(done.stdout or "0")) == (0, ["123456789012", []]), done.stderr


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads process states from /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_running(tmp_path: Path, number: signal.Signals) -> None:
    """A shell that is told to end does not tell its children."""
    mark = tmp_path / "pid"
    # Every shell ignores SIGINT in what it runs in the background, so the child of the shell is in the foreground.
    python = shlex.quote(sys.executable)
    script = f'{python} -c \'import os, time; open("{mark}", "w").write(str(os.getpid())); time.sleep(120)\'; true'
    with subprocess.Popen(
        [sys.executable, "-m", "training_storage", "emulate", "--", "sh", "-c", script], stdin=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 60
        while not (mark.exists() and mark.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(number)
        assert process.wait(timeout=30) != 0
    deadline = time.monotonic() + 10
    while alive(int(mark.read_text())):
        assert time.monotonic() < deadline, "the command's child outlived the emulator"
        time.sleep(0.1)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads process states from /proc")
def test_what_a_command_leaves_in_the_background_ends_with_it(capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["sh", "-c", "sleep 120 >/dev/null 2>&1 & echo $!"]) == 0
    pid = int(capfd.readouterr().out)
    deadline = time.monotonic() + 10
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.1)


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
"$PYTHON" look.py
cdk destroy --force
"$PYTHON" look.py
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
    (tmp_path / "cdk.json").write_text(json.dumps({"app": f"{shlex.quote(sys.executable)} app.py"}))
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
