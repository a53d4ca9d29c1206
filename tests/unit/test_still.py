"""Templates without what moves by itself: what is masked, and what is not."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from typing import Any

import pytest

from training_storage.errors import ValidationError
from training_storage.testing import ASSET, logical_ids, still

HASH = "0f" * 32
OTHER = "1e" * 32
BUCKET = {"Fn::Sub": "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}"}


def template(*resources: dict[str, Any], **sections: Any) -> dict[str, Any]:
    return {"Resources": {f"R{number}": each for number, each in enumerate(resources)}, **sections}


def resource(**properties: Any) -> dict[str, Any]:
    return {"Type": "My::Own::Thing", "Properties": properties}


def shown(value: dict[str, Any]) -> str:
    return json.dumps(still(value))


# Masked


@pytest.mark.parametrize(
    "made",
    [
        {"Code": {"S3Bucket": BUCKET, "S3Key": f"{HASH}.zip"}},
        {"Code": {"S3Bucket": "cdk-hnb659fds-assets-111111111111-us-east-1", "S3Key": f"{HASH}.zip"}},
        {"Code": {"S3Bucket": "cdk-app-staging-111111111111-us-east-1", "S3Key": f"deploy-time/{HASH}.zip"}},
        {"Code": {"S3Bucket": BUCKET, "S3Key": HASH}},
        {"Code": {"S3Bucket": "assets-of-my-company", "S3Key": f"{HASH}.zip"}},
        {"Source": {"Fn::Join": ["", ["s3://", BUCKET, f"/{HASH}.json"]]}},
        {"SourceBucketNames": [BUCKET], "SourceObjectKeys": [f"{HASH}.zip"]},
        {"UserData": {"Fn::Join": ["", ["#!/bin/bash\nBUCKET='", BUCKET, f"'\nKEY='{HASH}.zip'\n"]]}},
        {"Policy": {"Fn::Join": ["", ["arn:aws:s3:::", BUCKET, f"/{HASH}.zip"]]}},
        {"SourceBucketNames": [BUCKET], "SourceObjectKeys": [HASH]},
        {"Code": {"S3Bucket": BUCKET, "S3Key": f"{HASH}.zip"}, "Environment": {"FILE": f"{HASH}.py"}},
        {"Source": {"Fn::Join": ["", ["s3://cdk-x-assets-", {"Ref": "AWS::AccountId"}, f"-us-east-1/{HASH}"]]}},
        {"Image": {"Fn::Sub": f"${{AWS::AccountId}}.dkr.ecr.r.s/cdk-hnb659fds-container-assets-a-r:{HASH}"}},
    ],
    ids=[
        "function",
        "known",
        "staging",
        "no-ending",
        "own-bucket",
        "uri",
        "list",
        "user-data",
        "policy",
        "key",
        "file",
        "join",
        "image",
    ],
)
def test_the_hash_of_an_asset_is_masked(made: dict[str, Any]) -> None:
    text = shown(template(resource(**made)))
    assert HASH not in text
    assert ASSET in text


def test_the_address_of_a_nested_template_is_masked() -> None:
    made = {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": f"https://s3.r.s/mine/{HASH}.json"}}
    assert HASH not in shown(template(made))


def test_the_path_of_an_asset_is_masked() -> None:
    made = {**resource(), "Metadata": {"aws:asset:path": f"asset.{HASH}", "aws:asset:property": "Code"}}
    assert still(template(made))["Resources"]["R0"]["Metadata"]["aws:asset:path"] == "asset.ASSET"


def test_a_hash_that_is_known_to_be_an_asset_is_masked_everywhere() -> None:
    made = template(
        resource(Code={"S3Bucket": BUCKET, "S3Key": f"{HASH}.zip"}), resource(Tag=HASH), Outputs={"O": {"Value": HASH}}
    )
    assert HASH not in shown(made)


def test_the_ending_of_a_file_stays() -> None:
    made = still(template(resource(Code={"S3Bucket": BUCKET, "S3Key": f"{HASH}.tar.gz"})))
    assert made["Resources"]["R0"]["Properties"]["Code"]["S3Key"] == "ASSET.tar.gz"


def test_other_bytes_of_an_asset_give_the_same_result() -> None:
    one, two = (template(resource(Code={"S3Bucket": BUCKET, "S3Key": f"{digest}.zip"})) for digest in (HASH, OTHER))
    assert still(one) == still(two)


# Not masked


@pytest.mark.parametrize(
    "made",
    [
        {"Digest": HASH},
        {"Image": f"registry.example/team/image@sha256:{HASH}"},
        {"Key": f"s3://my-bucket/shards/{HASH}.tar"},
        {"UserData": {"Fn::Join": ["", ["aws s3 cp s3://", BUCKET, f"/{OTHER}.zip . && echo '{HASH}  {OTHER}.zip'"]]}},
        {"Images": [BUCKET, f"image@sha256:{HASH}"]},
        {"Long": f"{HASH}0f"},
        {"Code": {"S3Bucket": BUCKET, "S3Key": f"{OTHER}.zip"}, "Environment": {"MODEL_SHA256": HASH}},
        {"Code": {"S3Bucket": BUCKET, "S3Key": f"{OTHER}.zip"}, "Environment": {"MODEL": f"s3://mine/{HASH}"}},
        {"UserData": {"Fn::Join": ["", ["KEY='", BUCKET, f"/{OTHER}.zip'\naws s3 cp s3://mine/{HASH}.tar /data"]]}},
        {"Source": {"Fn::Join": ["", ["s3://", BUCKET, f"/{OTHER}.zip s3://", {"Ref": "Mine"}, f"/{HASH}.tar"]]}},
        {"Images": [{"Fn::Sub": f"cdk-x-container-assets-a-r:{OTHER}"}, f"registry.example/image:{HASH}"]},
    ],
    ids=[
        "digest",
        "image-digest",
        "own-object",
        "checksum",
        "digest-beside-an-asset",
        "longer",
        "checksum-of-a-function",
        "own-object-of-a-function",
        "own-object-in-user-data",
        "own-object-in-a-bucket-that-is-known-later",
        "tag-of-an-image-of-others",
    ],
)
def test_what_is_no_asset_stays(made: dict[str, Any]) -> None:
    assert HASH in shown(template(resource(**made)))


def test_accounts_regions_and_names_stay() -> None:
    made = template(
        resource(
            Arn="arn:aws:kms:us-east-1:111111111111:key/0f0f0f0f-0f0f-0f0f-0f0f-0f0f0f0f0f0f",
            Bucket="cdk-hnb659fds-assets-111111111111-us-east-1",
            Zone="use1-az6",
        )
    )
    assert still(made) == made


# Left out


def bootstrapped(**parameters: Any) -> dict[str, Any]:
    version = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cdk-bootstrap/hnb659fds/version"}
    return template(
        resource(),
        Parameters={"BootstrapVersion": version, **parameters},
        Rules={"CheckBootstrapVersion": {"Assertions": []}},
    )


def test_the_check_of_the_bootstrap_version_is_left_out() -> None:
    assert still(bootstrapped()) == template(resource())


def test_parameters_and_rules_of_ones_own_stay() -> None:
    made = bootstrapped(Size={"Type": "Number"})
    made["Rules"]["Mine"] = {"Assertions": []}
    assert still(made)["Parameters"] == {"Size": {"Type": "Number"}}
    assert still(made)["Rules"] == {"Mine": {"Assertions": []}}


def test_a_parameter_of_that_name_that_is_not_of_the_cdk_stays() -> None:
    made = template(resource(), Parameters={"BootstrapVersion": {"Type": "String", "Default": "3"}})
    assert still(made) == made


def test_the_count_of_versions_in_use_is_left_out() -> None:
    made = template(resource(), Conditions={"CDKMetadataAvailable": {"Fn::Or": []}})
    made["Resources"]["CDKMetadata"] = {"Type": "AWS::CDK::Metadata", "Properties": {"Analytics": "v2:deflate64:x"}}
    assert still(made) == template(resource())


def test_keys_are_sorted() -> None:
    assert list(still({"Resources": {"B": resource(b=1, a=2), "A": resource()}})["Resources"]) == ["A", "B"]


def test_the_template_that_is_given_is_not_changed() -> None:
    made = bootstrapped()
    before = copy.deepcopy(made)
    still(made)
    assert made == before


def test_once_still_always_still() -> None:
    once = still(bootstrapped())
    assert still(once) == once


# Logical ids


def test_logical_ids_are_sorted_with_their_types() -> None:
    made = {"Resources": {"B": resource(), "A": {"Type": "AWS::S3::Bucket"}}}
    assert list(logical_ids(made).items()) == [("A", "AWS::S3::Bucket"), ("B", "My::Own::Thing")]


def test_a_stack_without_resources_has_no_logical_ids() -> None:
    assert logical_ids({"Outputs": {}}) == {}


# What is refused


@pytest.mark.parametrize("given", [None, 3, "Resources:", [1], {"Resources": []}, {"Resources": {"A": {}}}, {"a": {1}}])
@pytest.mark.parametrize("function", [still, logical_ids])
def test_what_is_no_template_is_refused(function: Any, given: Any) -> None:
    with pytest.raises(ValidationError, match=r"not a CloudFormation template.*Template.from_stack\(stack\)"):
        function(given)


def test_importing_it_loads_only_the_standard_library_and_errors() -> None:
    code = (
        "import sys; before = {n.split('.')[0] for n in sys.modules}; import training_storage.testing; "
        "print(*sorted({n.split('.')[0] for n in sys.modules} - before - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["training_storage"]
