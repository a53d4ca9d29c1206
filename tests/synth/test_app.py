"""The reference app as a process: what it reads from the context, and how it ends on bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.assemblies import ROOT

pytestmark = pytest.mark.slow

WORKLOAD = """\
name: run
region: us-east-1
availability_zone_id: use1-az6
compute: {instance_type: p9.48xlarge, instance_count: 32, image: ami-0123456789abcdef0}
dataset: {size: 20 TB, read_rate: {per_accelerator: 60 MB/s}}
"""


def run_app(folder: Path, **context: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {
            "CDK_CONTEXT_JSON": json.dumps(context), "CDK_OUTDIR": str(folder / "out"), "CDK_VALIDATION": "false",
        },
    )  # fmt: skip


@pytest.fixture
def workload(tmp_path: Path) -> str:
    file = tmp_path / "run.yaml"
    file.write_text(WORKLOAD, encoding="utf-8")
    return str(file)


def test_what_is_planned_with_facts_of_your_own_is_deployed_with_them(workload: str, tmp_path: Path) -> None:
    done = run_app(tmp_path, workload=workload, catalog="examples/catalog/my-facts.yaml")
    assert done.returncode == 0, done.stderr
    template = json.loads((tmp_path / "out/run-compute.template.json").read_text(encoding="utf-8"))
    (launch,) = [each for each in template["Resources"].values() if each["Type"] == "AWS::EC2::LaunchTemplate"]
    data = launch["Properties"]["LaunchTemplateData"]
    assert data["InstanceType"] == "p9.48xlarge"
    assert len(data["NetworkInterfaces"]) == 9  # the ENA primary and eight EFA interfaces


@pytest.mark.parametrize(
    ("catalog", "said"), [("", "unknown instance type"), ("nope.yaml", "nope.yaml: the file cannot be read")]
)
def test_bad_input_is_one_line_and_no_traceback(workload: str, tmp_path: Path, catalog: str, said: str) -> None:
    done = run_app(tmp_path, workload=workload, catalog=catalog)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "out").glob("*.template.json"))
