"""The S3 Files file system and its bucket, mount target and life: one fact a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from tests.assemblies import lint
from tests.synth.s3_files import (
    ACCOUNT,
    FILE_SYSTEM,
    FILE_SYSTEM_POLICY,
    MOUNT_TARGET,
    POLICY,
    REGION,
    ROLE,
    client,
    files,
    known_stack,
    node_role,
)
from tests.synth.storage import EGRESS, GROUP, INGRESS, only, resources, subnet, vpc, warnings
from training_storage.errors import ValidationError
from training_storage.tiers import DataLake, S3FilesImportRule, S3FileSystem

KEY_ARN = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0abc"


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Hot")


def refused(stack: cdk.Stack, **options: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        files(stack, **options)
    return caught.value


def paths(error: ValidationError) -> list[str]:
    return [problem.path for problem in error.problems]


def properties(stack: cdk.Stack) -> dict[str, Any]:
    found: dict[str, Any] = only(stack, FILE_SYSTEM)["Properties"]
    return found


def synchronization(stack: cdk.Stack) -> dict[str, Any]:
    found: dict[str, Any] = properties(stack)["SynchronizationConfiguration"]
    return found


def their_bucket(stack: cdk.Stack, **attributes: Any) -> s3.IBucket:
    return s3.Bucket.from_bucket_attributes(stack, "Theirs", bucket_name="their-bucket", **attributes)


def app_bucket(stack: cdk.Stack, *, events: bool = False, **options: Any) -> s3.Bucket:
    bucket = s3.Bucket(stack, "Mine", **options)
    if events:
        resource = bucket.node.default_child
        assert isinstance(resource, s3.CfnBucket)
        resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
            event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
        )
    return bucket


# -- what the file system is


def test_report_35_the_bucket_is_an_arn_and_there_is_no_name(stack: cdk.Stack) -> None:
    lake = DataLake(stack, "Lake")
    files(stack, bucket=lake)
    assert properties(stack)["Bucket"] == stack.resolve(lake.bucket_arn)
    assert set(properties(stack)) == {"Bucket", "RoleArn", "SynchronizationConfiguration"}


def test_the_smallest_use_is_four_arguments(stack: cdk.Stack) -> None:
    S3FileSystem(stack, "Files", bucket=DataLake(stack, "Lake"), vpc=vpc(stack), subnet=subnet(stack))
    assert warnings(stack) == []


def test_a_prefix_reaches_the_template(stack: cdk.Stack) -> None:
    files(stack, prefix="datasets/")
    assert properties(stack)["Prefix"] == "datasets/"


@pytest.mark.parametrize("prefix", ["datasets", "/datasets/", "/"])
def test_another_form_of_prefix_fails(stack: cdk.Stack, prefix: str) -> None:
    assert paths(refused(stack, prefix=prefix)) == ["prefix"]


def test_small_files_are_imported_when_their_directory_is_opened(stack: cdk.Stack) -> None:
    files(stack)
    assert synchronization(stack)["ImportDataRules"] == [
        {"Prefix": "", "SizeLessThan": 131_072, "Trigger": "ON_DIRECTORY_FIRST_ACCESS"}
    ]


def test_data_expires_after_the_week_that_aws_advises_for_training(stack: cdk.Stack) -> None:
    files(stack)
    assert synchronization(stack)["ExpirationDataRules"] == [{"DaysAfterLastAccess": 7}]


@pytest.mark.parametrize("days", [1, 7, 365])
def test_there_is_exactly_one_expiration(stack: cdk.Stack, days: int) -> None:
    files(stack, expire_after=cdk.Duration.hours(24 * days))
    assert synchronization(stack)["ExpirationDataRules"] == [{"DaysAfterLastAccess": days}]


@pytest.mark.parametrize("hours", [0, 12, 36, 366 * 24])
def test_another_expiration_fails(stack: cdk.Stack, hours: int) -> None:
    assert paths(refused(stack, expire_after=cdk.Duration.hours(hours))) == ["expire_after"]


def test_import_rules_reach_the_template_in_order(stack: cdk.Stack) -> None:
    rules = [
        S3FilesImportRule(size_less_than_bytes=0),
        S3FilesImportRule(prefix="shards/", size_less_than_bytes=52_673_613_135_872, trigger="ON_FILE_ACCESS"),
    ]
    files(stack, import_rules=rules)
    assert synchronization(stack)["ImportDataRules"] == [
        {"Prefix": "", "SizeLessThan": 0, "Trigger": "ON_DIRECTORY_FIRST_ACCESS"},
        {"Prefix": "shards/", "SizeLessThan": 52_673_613_135_872, "Trigger": "ON_FILE_ACCESS"},
    ]


@pytest.mark.parametrize(
    "rules",
    [
        [],
        [S3FilesImportRule(prefix="a/")],
        [S3FilesImportRule(), S3FilesImportRule()],
        [S3FilesImportRule(), *(S3FilesImportRule(prefix=f"{index}/") for index in range(10))],
    ],
    ids=["none", "no-root", "two-roots", "eleven"],
)
def test_import_rules_that_the_service_refuses_fail(stack: cdk.Stack, rules: list[S3FilesImportRule]) -> None:
    assert paths(refused(stack, import_rules=rules)) == ["import_rules"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prefix", None),
        ("prefix", "shards"),
        ("size_less_than_bytes", "128 KiB"),
        ("size_less_than_bytes", 0.5),
        ("size_less_than_bytes", -1),
        ("size_less_than_bytes", 52_673_613_135_873),
        ("trigger", "ON_OPEN"),
        ("trigger", None),
    ],
)
def test_a_slip_in_an_import_rule_is_named_with_its_field(stack: cdk.Stack, field: str, value: Any) -> None:
    rules = [S3FilesImportRule(), S3FilesImportRule(**{"prefix": "a/", field: value})]
    assert paths(refused(stack, import_rules=rules)) == [f"import_rules[1].{field}"]


def test_the_warning_of_large_buckets_is_accepted_on_demand_only(make_app: Any) -> None:
    given = []
    for accepts in (False, True):
        stack = cdk.Stack(make_app(), "Hot")
        files(stack, accept_bucket_warning=accepts)
        given.append(properties(stack).get("AcceptBucketWarning"))
    assert given == [None, True]


def test_a_key_encrypts_the_file_systems_own_storage(stack: cdk.Stack) -> None:
    files(stack, encryption_key=kms.Key.from_key_arn(stack, "Key", KEY_ARN))
    assert properties(stack)["KmsKeyId"] == KEY_ARN


def test_all_problems_are_raised_at_once_and_nothing_is_added(stack: cdk.Stack) -> None:
    lake = DataLake(stack, "Lake", versioned=False)
    error = refused(
        stack,
        bucket=lake,
        prefix="datasets",
        expire_after=cdk.Duration.days(366),
        import_rules=[],
        removal_policy=cdk.RemovalPolicy.SNAPSHOT,
    )
    assert sorted(paths(error)) == ["bucket", "expire_after", "import_rules", "prefix", "removal_policy"]
    assert error.where == "Hot/Files"
    assert stack.node.try_find_child("Files") is None


# -- the bucket


@pytest.mark.parametrize("encryption", ["s3", "kms"])
@pytest.mark.parametrize("versioned", [None, True])
def test_report_35_a_lake_under_s3_files_is_versioned_and_sends_events(
    stack: cdk.Stack, encryption: Any, versioned: bool | None
) -> None:
    files(stack, bucket=DataLake(stack, "Lake", encryption=encryption, versioned=versioned))
    bucket = only(stack, "AWS::S3::Bucket")["Properties"]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert bucket["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    assert warnings(stack) == []


@pytest.mark.parametrize(("given", "said"), [(None, True), (True, True), (False, False)])
def test_a_new_lake_says_whether_it_keeps_versions(stack: cdk.Stack, given: bool | None, said: bool) -> None:
    assert DataLake(stack, "Lake", versioned=given).versioned is said


def test_a_lake_that_exists_already_does_not_know(stack: cdk.Stack) -> None:
    assert DataLake(stack, "Lake", bucket=their_bucket(stack)).versioned is None


@pytest.mark.parametrize("encryption", ["s3", "kms"])
def test_report_35_a_lake_without_versions_fails_naming_versioning(stack: cdk.Stack, encryption: Any) -> None:
    error = refused(stack, bucket=DataLake(stack, "Lake", encryption=encryption, versioned=False))
    assert paths(error) == ["bucket"]
    assert "versioning" in str(error)
    assert "s3-files.bucket-versioning" in [problem.rule for problem in error.problems]


@pytest.mark.parametrize("as_lake", [False, True])
def test_report_35_a_bucket_of_the_app_without_versions_fails(stack: cdk.Stack, as_lake: bool) -> None:
    bucket: Any = app_bucket(stack)
    assert "versioning" in str(refused(stack, bucket=DataLake(stack, "Lake", bucket=bucket) if as_lake else bucket))


def test_report_35_suspended_versioning_fails(stack: cdk.Stack) -> None:
    resource = s3.CfnBucket(
        stack,
        "Raw",
        versioning_configuration=s3.CfnBucket.VersioningConfigurationProperty(status="Suspended"),
    )
    assert "versioning" in str(refused(stack, bucket=s3.Bucket.from_cfn_bucket(resource)))


def test_versioning_that_only_deploy_knows_is_left_to_its_owner(stack: cdk.Stack) -> None:
    status = cdk.CfnParameter(stack, "Status").value_as_string
    resource = s3.CfnBucket(
        stack,
        "Raw",
        versioning_configuration=s3.CfnBucket.VersioningConfigurationProperty(status=status),
    )
    files(stack, bucket=s3.Bucket.from_cfn_bucket(resource))
    (warning,) = warnings(stack)
    assert "training_storage:s3Files.bucketMustBeVersioned" in warning


def test_a_bucket_of_the_app_that_has_both_needs_nothing(stack: cdk.Stack) -> None:
    files(stack, bucket=app_bucket(stack, events=True, versioned=True))
    assert warnings(stack) == []


@pytest.mark.parametrize("by_custom_resource", [False, True])
def test_a_bucket_of_the_app_without_native_events_gets_a_warning(stack: cdk.Stack, by_custom_resource: bool) -> None:
    files(stack, bucket=app_bucket(stack, versioned=True, event_bridge_enabled=by_custom_resource))
    (warning,) = warnings(stack)
    assert "[ack: training_storage:s3Files.eventBridge]" in warning
    assert "notification_configuration" in warning


@pytest.mark.parametrize("as_lake", [False, True])
def test_report_35_an_existing_bucket_gets_a_warning_with_what_its_owner_does(stack: cdk.Stack, as_lake: bool) -> None:
    bucket: Any = their_bucket(stack)
    files(stack, bucket=DataLake(stack, "Lake", bucket=bucket) if as_lake else bucket)
    (warning,) = warnings(stack)
    assert "[ack: training_storage:s3Files.bucketMustBeVersioned]" in warning
    command = "aws s3api put-bucket-versioning --bucket their-bucket --versioning-configuration Status=Enabled"
    for said in (command, "SSE-S3 or SSE-KMS", "region", "EventBridgeConfiguration", "DataLake(bucket="):
        assert said in warning


def test_a_warning_that_is_acknowledged_stays_silent(stack: cdk.Stack) -> None:
    cdk.Annotations.of(stack).acknowledge_warning("training_storage:s3Files.bucketMustBeVersioned", "its owner did")
    files(stack, bucket=their_bucket(stack))
    assert warnings(stack) == []


def test_report_35_dual_layer_encryption_fails(stack: cdk.Stack) -> None:
    bucket = app_bucket(stack, versioned=True, encryption=s3.BucketEncryption.DSSE)
    (problem,) = refused(stack, bucket=bucket).problems
    assert (problem.path, problem.value) == ("bucket", "aws:kms:dsse")


@pytest.mark.parametrize(
    ("attributes", "named"),
    [({"region": "eu-west-1"}, "eu-west-1"), ({"account": "222222222222"}, "222222222222")],
    ids=["region", "account"],
)
def test_a_bucket_of_another_place_fails_naming_both(app: cdk.App, attributes: dict[str, str], named: str) -> None:
    stack = known_stack(app)
    error = refused(stack, bucket=their_bucket(stack, **attributes))
    assert paths(error) == ["bucket"]
    assert named in str(error)
    assert (REGION if "region" in attributes else ACCOUNT) in str(error)


def test_a_place_that_is_not_known_passes(stack: cdk.Stack) -> None:
    bucket = their_bucket(stack, region="eu-west-1")
    files(stack, bucket=bucket)
    assert properties(stack)["Bucket"] == stack.resolve(bucket.bucket_arn)


def test_a_directory_bucket_by_its_name_fails(stack: cdk.Stack) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Express", "base--use1-az6--x-s3")
    error = refused(stack, bucket=bucket)
    assert paths(error) == ["bucket"]
    assert "directory bucket" in str(error)


def test_a_directory_bucket_as_an_object_fails(stack: cdk.Stack) -> None:
    class Express:
        bucket_name = "base--use1-az6--x-s3"
        bucket_arn = "arn:aws:s3express:us-east-1:111111111111:bucket/base--use1-az6--x-s3"

    assert "directory bucket" in str(refused(stack, bucket=Express()))


def test_a_region_without_s3_files_fails_naming_the_other_ways(app: cdk.App) -> None:
    error = refused(known_stack(app, region="me-central-1"))
    assert paths(error) == ["region"]
    for said in ("me-central-1", "Mountpoint", "LustreFileSystem"):
        assert said in str(error)


def test_a_catalog_of_your_own_decides_about_the_region(app: cdk.App, tmp_path: Path) -> None:
    from training_storage import load_catalog

    facts = tmp_path / "facts.yaml"
    facts.write_text("regions:\n  me-central-1:\n    s3_files: true\n", encoding="utf-8")
    stack = known_stack(app, region="me-central-1")
    files(stack, catalog=load_catalog(facts))
    assert properties(stack)["RoleArn"]


# -- the mount target


def test_report_35_exactly_one_mount_target_in_the_given_subnet(stack: cdk.Stack) -> None:
    network = ec2.Vpc(stack, "Vpc", availability_zones=["us-east-1a", "us-east-1b", "us-east-1c"])
    second = network.private_subnets[1]
    made = files(stack, vpc=network, subnet=second)
    target = only(stack, MOUNT_TARGET)["Properties"]
    assert target["SubnetId"] == stack.resolve(second.subnet_id)
    assert target["FileSystemId"] == stack.resolve(made.file_system_id)


@pytest.mark.parametrize("count", [2, 3])
def test_report_15_several_subnets_fail_naming_the_option(stack: cdk.Stack, count: int) -> None:
    subnets = [subnet(stack, f"Subnet{index}") for index in range(count)]
    (problem,) = refused(stack, subnet=subnets).problems
    assert (problem.path, problem.value) == ("subnet", count)


def test_the_mount_target_stands_in_the_file_systems_group(stack: cdk.Stack) -> None:
    made = files(stack)
    assert only(stack, MOUNT_TARGET)["Properties"]["SecurityGroups"] == [
        stack.resolve(made.security_group.security_group_id)
    ]


def test_groups_of_the_house_stand_beside_it(stack: cdk.Stack) -> None:
    house = [ec2.SecurityGroup.from_security_group_id(stack, f"House{n}", f"sg-{n}") for n in range(4)]
    made = files(stack, additional_security_groups=house)
    assert only(stack, MOUNT_TARGET)["Properties"]["SecurityGroups"] == [
        stack.resolve(made.security_group.security_group_id),
        *(f"sg-{n}" for n in range(4)),
    ]


def test_a_sixth_group_fails(stack: cdk.Stack) -> None:
    house = [ec2.SecurityGroup.from_security_group_id(stack, f"House{n}", f"sg-{n}") for n in range(5)]
    (problem,) = refused(stack, additional_security_groups=house).problems
    assert (problem.path, problem.value) == ("additional_security_groups", 6)


# -- what it waits for


def test_report_35_the_file_system_waits_for_the_policy_of_its_role(stack: cdk.Stack) -> None:
    files(stack)
    waits = only(stack, FILE_SYSTEM)["DependsOn"]
    (policy,) = [name for name in resources(stack, POLICY) if name.startswith("FilesServicePolicy")]
    assert policy in waits


def test_report_35_the_file_system_waits_for_the_policy_of_the_bucket(stack: cdk.Stack) -> None:
    files(stack)
    (policy,) = resources(stack, "AWS::S3::BucketPolicy")
    assert policy in only(stack, FILE_SYSTEM)["DependsOn"]


def test_report_35_across_stacks_the_lake_comes_first(app: cdk.App) -> None:
    lake_stack, stack = cdk.Stack(app, "Lake"), cdk.Stack(app, "Hot")
    files(stack, bucket=DataLake(lake_stack, "Lake"))
    app.synth()
    assert stack.dependencies == [lake_stack]
    assert lake_stack.dependencies == []


# -- life


KEPT = (FILE_SYSTEM, MOUNT_TARGET, GROUP, ROLE, POLICY, FILE_SYSTEM_POLICY)


def with_everything(app: cdk.App, policy: cdk.RemovalPolicy | None) -> cdk.Stack:
    """A stack with nothing but a file system and all that belongs to it."""
    lakes, stack = known_stack(app, "Lakes"), known_stack(app)
    made = files(stack, bucket=DataLake(lakes, "Lake"), removal_policy=policy)
    made.grant_read(cdk.aws_iam.AccountPrincipal("222222222222"))
    return stack


@pytest.mark.parametrize("policy", [None, cdk.RemovalPolicy.RETAIN])
def test_report_18_retain_keeps_all_that_the_file_system_needs(app: cdk.App, policy: cdk.RemovalPolicy | None) -> None:
    stack = with_everything(app, policy)
    for resource_type in KEPT:
        found = resources(stack, resource_type)
        assert found
        assert {each["DeletionPolicy"] for each in found.values()} == {"Retain"}, resource_type


def test_report_18_destroy_deletes_all_of_it(app: cdk.App) -> None:
    stack = with_everything(app, cdk.RemovalPolicy.DESTROY)
    for resource_type in KEPT:
        found = resources(stack, resource_type)
        assert found
        assert {each["DeletionPolicy"] for each in found.values()} == {"Delete"}, resource_type


@pytest.mark.parametrize("policy", [None, cdk.RemovalPolicy.RETAIN, cdk.RemovalPolicy.DESTROY])
def test_an_update_never_deletes_the_file_system(app: cdk.App, policy: cdk.RemovalPolicy | None) -> None:
    assert only(with_everything(app, policy), FILE_SYSTEM)["UpdateReplacePolicy"] == "Retain"


def test_report_18_the_mount_target_goes_before_the_file_system_and_that_before_its_rights(stack: cdk.Stack) -> None:
    files(stack, removal_policy=cdk.RemovalPolicy.DESTROY)
    (name,) = resources(stack, FILE_SYSTEM)
    target = only(stack, MOUNT_TARGET)["Properties"]
    assert target["FileSystemId"] == {"Fn::GetAtt": [name, "FileSystemId"]}
    (policy,) = [each for each in resources(stack, POLICY) if each.startswith("FilesServicePolicy")]
    assert policy in only(stack, FILE_SYSTEM)["DependsOn"]


def test_child_ids_are_fixed(app: cdk.App) -> None:
    made = with_everything(app, None).node.find_child("Files")
    assert sorted(child.node.id for child in made.node.children) == [
        "MountTarget",
        "Policy",
        "Resource",
        "SecurityGroup",
        "ServicePolicy",
        "ServiceRole",
    ]


def test_only_synchronization_changes_with_its_options(make_app: Any) -> None:
    templates = []
    for days in (1, 30):
        stack = cdk.Stack(make_app(), "Hot")
        files(stack, expire_after=cdk.Duration.days(days), import_rules=[S3FilesImportRule(size_less_than_bytes=days)])
        template = Template.from_stack(stack).to_json()
        (found,) = [each for each in template["Resources"].values() if each["Type"] == FILE_SYSTEM]
        assert found["Properties"].pop("SynchronizationConfiguration")
        templates.append(template)
    assert templates[0] == templates[1]


# -- what it gives


def test_attributes_come_from_the_resource(stack: cdk.Stack) -> None:
    made = files(stack, prefix="datasets/")
    (logical_id,) = resources(stack, FILE_SYSTEM)
    assert stack.resolve(made.file_system_id) == {"Fn::GetAtt": [logical_id, "FileSystemId"]}
    assert stack.resolve(made.file_system_arn) == {"Fn::GetAtt": [logical_id, "FileSystemArn"]}
    assert made.prefix == "datasets/"
    assert made.mount_target.node.path == "Hot/Files/MountTarget"


def test_report_34_without_s3_files_there_is_nothing_of_it(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake").grant_read(node_role(stack))
    template = json.dumps(Template.from_stack(stack).to_json())
    assert "s3files" not in template.lower()
    assert "2049" not in template


@pytest.mark.parametrize("region", ["us-east-1", "cn-north-1", "us-gov-west-1"])
def test_templates_pass_cfn_lint_in_every_partition(app: cdk.App, region: str) -> None:
    stack = known_stack(app, region=region)
    vpc_id, zone = "vpc-0123456789abcdef0", f"{region}a"
    network = ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id=vpc_id, availability_zones=[zone])
    where = ec2.Subnet.from_subnet_attributes(stack, "Subnet", subnet_id="subnet-0123456789abcdef0")
    lake = DataLake(stack, "Lake")
    made = files(
        stack, bucket=lake, prefix="datasets/", vpc=network, subnet=where, removal_policy=cdk.RemovalPolicy.DESTROY
    )
    made.allow_client(client(stack, network))
    made.grant_root(node_role(stack))
    made.grant_read(cdk.aws_iam.AccountPrincipal("222222222222"))
    assert lint(Template.from_stack(stack).to_json(), region) == []


def test_report_38_the_same_settings_give_the_same_bytes_in_two_folders(make_app: Any) -> None:
    texts = []
    for _ in range(2):
        app = make_app()
        stack = cdk.Stack(app, "Hot")
        files(stack).allow_client(client(stack))
        texts.append((Path(app.synth().directory) / "Hot.template.json").read_bytes())
    assert texts[0] == texts[1]


def test_rules_of_security_groups_are_resources_of_their_own(stack: cdk.Stack) -> None:
    made = files(stack)
    made.allow_client(client(stack))
    assert len(resources(stack, INGRESS)) == len(resources(stack, EGRESS)) == 1


def test_the_key_of_the_bucket_is_no_alias(stack: cdk.Stack) -> None:
    alias = kms.Alias.from_alias_name(stack, "Alias", "alias/lake")
    bucket = s3.Bucket(stack, "Theirs", versioned=True, encryption_key=alias)
    assert paths(refused(stack, bucket=bucket)) == ["bucket"]


def test_the_key_of_the_file_system_is_one_of_its_region(app: cdk.App) -> None:
    stack = known_stack(app)
    key = kms.Key.from_key_arn(stack, "Key", KEY_ARN.replace(REGION, "eu-west-1"))
    assert paths(refused(stack, encryption_key=key)) == ["encryption_key"]
