"""Whole templates, and the logical ids of everything: what must not change without somebody saying so.

Re-record with `pytest tests/snapshots --snapshot-update`, and say in the change why. A changed logical id replaces the
resource behind it, with the data on it.
"""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from tests.assemblies import EXAMPLES, Assembly, example, synthesize
from training_storage.testing import still

BRING_YOUR_OWN: dict[str, Any] = {
    "name": "existing",
    "region": "us-east-1",
    "availability_zone_id": "use1-az6",
    "account": "111111111111",
    "network": {"vpc_id": "vpc-0abc", "subnet_id": "subnet-0abc", "route_table_ids": ["rtb-0abc"]},
    "compute": {"instance_type": "p5en.48xlarge", "instance_count": 20, "image": "ami-0123456789abcdef0"},
    "dataset": {"size": "10 TB", "average_file_size": "100 MB", "source": "s3://their-bucket/images/"},
    "checkpoints": {"size": "100 GiB"},
    "data_lake": {"bucket": "their-lake", "kms_key_arn": "arn:aws:kms:us-east-1:111111111111:key/0f0f0f0f"},
    "hot_tier": "lustre",
}


@pytest.fixture
def snapshot_json(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(JSONSnapshotExtension)


def ids(made: Assembly) -> dict[str, dict[str, str]]:
    return {
        stack: {key: value["Type"] for key, value in sorted(template["Resources"].items())}
        for stack, template in made.templates.items()
    }


@pytest.mark.parametrize("name", ["llama3-70b", "lora-finetune", "object-native-2048", "legacy-nfs-finetune"])
def test_templates_of_an_example(name: str, snapshot_json: SnapshotAssertion) -> None:
    assert {stack: still(template) for stack, template in example(name).templates.items()} == snapshot_json


def test_templates_with_what_exists_already(snapshot_json: SnapshotAssertion) -> None:
    made = synthesize(BRING_YOUR_OWN)
    assert {stack: still(template) for stack, template in made.templates.items()} == snapshot_json


@pytest.mark.parametrize("name", EXAMPLES)
def test_logical_ids(name: str, snapshot_json: SnapshotAssertion) -> None:
    assert ids(example(name)) == snapshot_json
