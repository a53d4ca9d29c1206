"""The life of an example under the real CDK command line: one emulator, from the bootstrap to what outlives a release.

After each step the emulated services are asked with boto3, by a process that runs inside the same emulator.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
import pytest
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_logs as logs
from ruamel.yaml import YAML

from tests.assemblies import ROOT, example, synthesize
from training_storage.planner import plan
from training_storage.workload import load_workload

NAME = "llama3-70b"

LOOK = """
import sys

import boto3

name, event = "llama3-70b", sys.argv[1]
cloudformation, ec2, fsx, s3 = (boto3.client(service) for service in ("cloudformation", "ec2", "fsx", "s3"))


def stacks():
    return {item["StackName"]: item for item in cloudformation.describe_stacks()["Stacks"]}


def seen():
    groups = boto3.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return {
        "capacity": [item["StorageCapacity"] for item in fsx.describe_file_systems()["FileSystems"]],
        "links": len(fsx.describe_data_repository_associations()["Associations"]),
        "groups": len(groups),
        "templates": len(ec2.describe_launch_templates()["LaunchTemplates"]),
        "security": sorted(
            item["GroupName"] for item in ec2.describe_security_groups()["SecurityGroups"]
            if item["GroupName"] != "default"
        ),
        "alive": sorted(found for found in stacks() if found.startswith(name)),
        "status": {found: item["StackStatus"] for found, item in stacks().items() if found.startswith(name)},
    }


def lake():
    outputs = {item["OutputKey"]: item["OutputValue"] for item in stacks()[f"{name}-lake"]["Outputs"]}
    return outputs["DataLakeBucketName"]


import json

if event == "put":
    s3.put_object(Bucket=lake(), Key="checkpoints/step-1000/.metadata", Body=b"kept")
if event == "get":
    assert s3.get_object(Bucket=lake(), Key="checkpoints/step-1000/.metadata")["Body"].read() == b"kept"
print("SEEN", json.dumps([event, seen()]))
"""

# One step a line, so that a failure names its step; "!" means that the step has to fail.
STEPS = f"""
cdk bootstrap aws://123456789012/us-east-1
cdk deploy --app created --all --require-approval never
"$PYTHON" look.py put
cdk deploy --app created --all --require-approval never
"$PYTHON" look.py again
cdk diff --app grown {NAME}-hot
cdk deploy --app grown {NAME}-hot --exclusively --require-approval never
"$PYTHON" look.py grown
! cdk deploy --app failing {NAME}-hot --exclusively --require-approval never
"$PYTHON" look.py failed
cdk destroy --app grown --force {NAME}-monitoring {NAME}-compute {NAME}-hot --exclusively
"$PYTHON" look.py get
"""


def grown() -> dict[str, Any]:
    """The example with a file system that is larger by one server."""
    data: dict[str, Any] = YAML(typ="safe").load((ROOT / "examples" / f"{NAME}.yaml").read_text(encoding="utf-8"))
    planned = plan(load_workload(ROOT / "examples" / f"{NAME}.yaml")).lustre
    assert planned is not None
    assert planned.storage_capacity_gib is not None
    data["lustre"] |= {
        "storage_capacity": f"{planned.storage_capacity_gib + planned.storage_capacity_gib // planned.servers} GiB",
        "per_unit_storage_throughput": planned.per_unit_storage_throughput,
    }
    return data


def break_it(app: cdk.App) -> None:
    """Change two things of the hot stack: one that works, and one that FSx refuses."""

    @jsii.implements(cdk.IAspect)
    class Change:
        def visit(self, node: Any) -> None:
            if isinstance(node, fsx.CfnFileSystem):
                node.storage_capacity = 4800
            elif isinstance(node, logs.CfnLogGroup):
                node.retention_in_days = 3653

    cdk.Aspects.of(app).add(Change())


@pytest.mark.slow
def test_the_life_of_an_example(tmp_path: Path) -> None:
    if shutil.which("cdk") is None:
        pytest.fail("the CDK command line is not on PATH: install the toolchain extra")
    shutil.copytree(example(NAME).folder, tmp_path / "created")
    synthesize(grown(), folder=str(tmp_path / "grown"))
    synthesize(grown(), folder=str(tmp_path / "failing"), prepare=break_it)
    (tmp_path / "look.py").write_text(LOOK, encoding="utf-8")
    lines = ["set -u"]
    for number, step in enumerate(STEPS.strip().splitlines()):
        run = f"if {step[2:]}; then exit {100 + number}; fi" if step[0] == "!" else f"{step} || exit {100 + number}"
        lines.append(f"echo 'STEP {number}'; {run}")
    (tmp_path / "steps.sh").write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "training_storage", "emulate", "--", "bash", "steps.sh"],
        cwd=tmp_path,
        env={**os.environ, "CDK_VALIDATION": "false", "PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
        check=False,
    )
    said = done.stdout
    assert done.returncode == 0, said
    found = [json.loads(line.removeprefix("SEEN ")) for line in said.splitlines() if line.startswith("SEEN ")]
    seen: dict[str, dict[str, Any]] = dict(found)
    before = seen["put"]
    assert before["capacity"]
    assert before["links"] > 0
    assert (before["groups"], before["templates"]) == (2, 2)  # the fleet's, and the storage node's
    assert seen["again"] == before, "the second deploy changed something"
    assert said.count("(no changes)") >= len(before["alive"])
    assert seen["grown"]["capacity"] > before["capacity"]
    assert "StorageCapacity" in said.split("STEP 5")[1].split("STEP 6")[0], "the difference is not shown"
    assert "can only be increased" in said.split("STEP 8")[1], "the reason is not shown"
    assert seen["failed"] == {
        **seen["grown"],
        "status": {**seen["grown"]["status"], f"{NAME}-hot": "UPDATE_ROLLBACK_COMPLETE"},
    }
    after = seen["get"]
    assert after["alive"] == [f"{NAME}-lake", f"{NAME}-network"]
    assert (after["capacity"], after["links"], after["groups"], after["templates"]) == ([], 0, 0, 0)
    assert after["security"] == []
