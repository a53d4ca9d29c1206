"""A plan with as many directory buckets as an account has by default can be deployed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.assemblies import ROOT, Assembly, synthesize
from training_storage.catalog import default_catalog
from training_storage.planner import plan
from training_storage.workload import workload_from_dict

HOT, COMPUTE = "object-native-2048-hot", "object-native-2048-compute"
# An ARN of a directory bucket when it is written out: a name of 63 characters in the longest region.
ARN_CHARACTERS = len("arn:aws-us-gov:s3express:ap-southeast-1:111111111111:bucket/") + 63 + len('"",')
LARGEST_POLICY = {"AWS::IAM::Policy": 10_240, "AWS::IAM::ManagedPolicy": 6_144}  # IAM quotas, characters


@pytest.fixture(scope="module")
def many() -> Assembly:
    """Small objects for many accelerators: about as many buckets as the quota has."""
    path = ROOT / "examples" / "object-native-2048.yaml"
    data: dict[str, Any] = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    data["dataset"] |= {"average_file_size": "8.4 KB", "read_rate": {"per_accelerator": "40 MB/s"}}
    made = plan(workload_from_dict(data))
    quota = default_catalog().object_storage.express_buckets_per_account_and_region
    assert made.express is not None
    assert quota - 5 <= made.express.bucket_count <= quota
    return synthesize(made)


def test_every_name_stands_in_the_user_data_of_the_nodes(many: Assembly) -> None:
    buckets = many.of(HOT, "AWS::S3Express::DirectoryBucket")
    exports = [
        output["Export"]["Name"]
        for output in many.templates[HOT]["Outputs"].values()
        if "Export" in output and output["Value"].get("Ref") in buckets
    ]
    (launch,) = many.all("AWS::EC2::LaunchTemplate")
    text = json.dumps(launch["Properties"]["LaunchTemplateData"]["UserData"])
    assert len(exports) == len(buckets)
    assert all(json.dumps(name) in text for name in exports)


def test_the_stack_stays_within_what_cloudformation_takes(many: Assembly) -> None:
    assert len(many.templates[HOT]["Resources"]) <= 500
    assert len(many.templates[HOT]["Outputs"]) <= 200
    assert all(len(json.dumps(template)) <= 1_000_000 for template in many.templates.values())


@pytest.mark.parametrize("kind", LARGEST_POLICY)
def test_the_rights_of_the_nodes_stay_within_what_iam_takes(many: Assembly, kind: str) -> None:
    policies = many.of(COMPUTE, kind)
    assert policies
    for policy in policies.values():
        size = 0
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
            size += len(json.dumps(statement | {"Resource": []})) + len(resources) * ARN_CHARACTERS
        assert size <= LARGEST_POLICY[kind]
