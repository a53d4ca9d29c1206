"""The wheel as a user has it: built, installed into an environment of its own, and used from another folder.

The environment is new, and the wheel is the only thing installed into it. What the wheel depends on is not downloaded
again: a line in a ``.pth`` file puts the packages of the running environment behind the new one's own. Python reads no
``.pth`` files in a folder that was added that way, so the editable install of this repository, which is one, does not
come along; and a copy of the package there would stand behind the one from the wheel.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "constructs" / "training_storage"
PAGE = ROOT / "docs" / "testing-your-stack.md"

APP = '''"""A stack of a user."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct
from training_storage import DataLake, GpuFleet, LustreFileSystem
from training_storage.compute import LustreMount, NodeStorage


class Research(cdk.Stack):
    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc(self, "Vpc", max_azs=1)
        subnet = vpc.private_subnets[0]
        lake = DataLake(self, "Lake")
        hot = LustreFileSystem(self, "Hot", vpc=vpc, subnet=subnet, storage_capacity_gib=4800)
        hot.add_link("Data", file_system_path="/data", bucket=lake, bucket_prefix="data/", import_events=["new"])
        storage = NodeStorage(self, "Storage", mounts=[LustreMount(file_system=hot)])
        fleet = GpuFleet(
            self, "Fleet", vpc=vpc, subnet=subnet, instance_type="g6e.48xlarge", instance_count=2, storage=storage
        )
        lake.grant_read(fleet, prefix="data/")


if __name__ == "__main__":
    app = cdk.App()
    Research(app, "Research")
    app.synth()
'''
TEST_OF_THE_APP = """
from app import Research
from aws_cdk.assertions import Template
from training_storage.testing import logical_ids, still


def test_research(app, snapshot_json):
    template = Template.from_stack(Research(app, "Research")).to_json()
    assert logical_ids(template) == snapshot_json(name="ids")
    assert still(template) == snapshot_json(name="template")
"""
MISTAKE = """
from app import Research
from training_storage import DataLake

lake = DataLake(Research, "Lake", versioned="yes")
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built of this folder."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with nothing of its own but the wheel."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    interpreter = folder / "bin" / "python"
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(interpreter),
        "install",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site / "running-environment.pth").write_text("\n".join(sorted(paths)) + "\n", encoding="utf-8")
    return interpreter


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of a user in a folder of its own, with the conftest.py and the test of docs/testing-your-stack.md."""
    folder = tmp_path_factory.mktemp("project")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (conftest,) = [block for block in blocks if "@pytest.fixture" in block]
    (example,) = [block for block in blocks if "def test_template" in block]
    flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    (folder / "cdk.json").write_text(json.dumps({"app": "python3 app.py", "context": flags}), encoding="utf-8")
    for name, text in (
        ("app.py", APP),
        ("conftest.py", conftest),
        ("test_of_the_page.py", example),
        ("test_app.py", TEST_OF_THE_APP),
        ("mistake.py", MISTAKE),
    ):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def run(python: Path, project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYTEST"))}
    environment |= {
        "PATH": os.pathsep.join([str(python.parent), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "CDK_OUTDIR": str(project / "cdk.out"),
        "CDK_VALIDATION": "false",
    }
    command = [str(python), *arguments]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def source_files() -> set[str]:
    found = {path.relative_to(PACKAGE.parent).as_posix() for path in PACKAGE.rglob("*") if path.is_file()}
    return {name for name in found if "__pycache__" not in name}


def test_the_wheel_holds_the_package_whole_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == source_files()
    assert {name.split("/")[0] for name in names} == {"training_storage"}


@pytest.mark.parametrize(
    "pattern",
    [
        r"training_storage/py\.typed",
        r"training_storage/catalog/data/.+\.json",
        r"training_storage/node/bootstrap/.+\.sh",
        r"training_storage/node/functions/.+\.py",
    ],
)
def test_the_wheel_holds_what_is_no_module(wheel: Path, pattern: str) -> None:
    assert [name for name in zipfile.ZipFile(wheel).namelist() if re.fullmatch(pattern, name)]


def test_the_wheel_holds_no_machine_path(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    assert [name for name in archive.namelist() if str(ROOT).encode() in archive.read(name)] == []


def test_the_users_environment_has_the_package_of_the_wheel(python: Path, project: Path) -> None:
    code = "import training_storage, constructs as c; print(training_storage.__file__); print(c.__file__)"
    done = run(python, project, "-c", code)
    ours, theirs = done.stdout.splitlines()
    assert Path(ours).is_relative_to(python.parents[1])
    assert not Path(theirs).is_relative_to(ROOT / "constructs")


def test_a_users_app_synthesizes(python: Path, project: Path) -> None:
    done = run(python, project, "app.py")
    assert done.returncode == 0, done.stderr
    template = json.loads((project / "cdk.out" / "Research.template.json").read_text(encoding="utf-8"))
    types = {resource["Type"] for resource in template["Resources"].values()}
    assert {"AWS::S3::Bucket", "AWS::FSx::FileSystem", "AWS::AutoScaling::AutoScalingGroup"} <= types


def test_the_scripts_of_the_nodes_are_among_the_assets(python: Path, project: Path) -> None:
    assert run(python, project, "app.py").returncode == 0
    assert list((project / "cdk.out").glob("asset.*/bootstrap/bootstrap.sh"))
    assert list((project / "cdk.out").glob("asset.*/agent.py"))


@pytest.fixture(scope="module", autouse=True)
def types_of_the_cdk(project: Path) -> None:
    """What mypy knows of the CDK from `make types`, where that ran before: a minute for the same answers."""
    known = ROOT / ".mypy_cache"
    if known.is_dir():
        shutil.copytree(known, project / ".mypy_cache")


def test_a_users_app_passes_strict_types(python: Path, project: Path) -> None:
    done = run(python, project, "-m", "mypy", "--strict", "app.py")
    assert done.returncode == 0, done.stdout


def test_types_of_the_package_reach_the_user(python: Path, project: Path) -> None:
    done = run(python, project, "-m", "mypy", "--strict", "mistake.py")
    assert 'Argument "versioned" to "DataLake" has incompatible type "str"' in done.stdout


def test_a_users_snapshots_are_recorded_and_stay(python: Path, project: Path) -> None:
    first = run(python, project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--snapshot-update")
    assert "4 snapshots generated" in first.stdout, first.stdout
    second = run(python, project, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "4 snapshots passed" in second.stdout, second.stdout
    assert second.returncode == 0


def test_the_command_is_there(python: Path, project: Path) -> None:
    done = run(python, project, "-m", "training_storage", "--help")
    assert done.returncode == 0
    assert "plan" in done.stdout
