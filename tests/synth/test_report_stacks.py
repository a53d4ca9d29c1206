"""The report draws the stacks that the reference app makes, by their names, and no other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import aws_cdk as cdk
import pytest

from stacks import build_stacks
from training_storage.planner import plan
from training_storage.report.deployment import deployment
from training_storage.workload import load_workload
from training_storage.workload.model import Workload

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = ("llama3-70b", "lora-finetune", "object-native-2048", "existing-everything", "legacy-nfs-finetune")


def same(make_app: Callable[[], cdk.App], workload: Workload) -> None:
    made = plan(workload)
    stacks = build_stacks(make_app(), made)
    built = {place: getattr(stacks, place) for place in ("lake", "network", "hot", "compute", "monitoring")}
    names = {place: stack.stack_name for place, stack in built.items() if stack is not None}
    assert {stack.place: stack.name for stack in deployment(made).stacks if stack.name is not None} == names


@pytest.mark.parametrize("name", NAMES)
def test_drawn_stacks_are_those_of_the_app(make_app: Callable[[], cdk.App], name: str) -> None:
    same(make_app, load_workload(EXAMPLES / f"{name}.yaml"))


def test_an_existing_file_system_without_links_is_no_stack_and_no_dashboard_is_none(
    make_app: Callable[[], cdk.App],
) -> None:
    existing = load_workload(EXAMPLES / "existing-everything.yaml")
    lustre = {name: getattr(existing.lustre, name) for name in existing.lustre.model_fields_set} | {"links": []}
    data = {
        "name": "bare", "region": existing.region, "availability_zone_id": existing.availability_zone_id,
        "network": {"vpc_id": existing.network.vpc_id, "subnet_id": existing.network.subnet_id},
        "compute": {"instance_type": "p5.48xlarge", "instance_count": 20},
        "dataset": {"size": "2 TB"}, "lustre": lustre, "monitoring": {"enabled": False},
        "data_lake": {"bucket": "team-training-lake"},
    }  # fmt: skip
    same(make_app, Workload.model_validate(data))
