"""The Lustre file system: one fact a test."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk.assertions import Template

from tests.synth.storage import (
    ASSOCIATION,
    EGRESS,
    FILE_SYSTEM,
    GROUP,
    INGRESS,
    LUSTRE_PORTS,
    file_system,
    lustre,
    only,
    ports,
    resources,
    subnet,
    vpc,
    warnings,
)
from training_storage.errors import ValidationError
from training_storage.tiers.data_lake import DataLake
from training_storage.tiers.lustre import LustreFileSystem

LOG_GROUP = "AWS::Logs::LogGroup"
# SSD storage: type and the tiers it takes (FSx API, PerUnitStorageThroughput).
KINDS: list[tuple[str, int | None]] = [
    ("SCRATCH_2", None),
    *(("PERSISTENT_1", tier) for tier in (50, 100, 200)),
    *(("PERSISTENT_2", tier) for tier in (125, 250, 500, 1000)),
]
EFA_STEPS = {125: 38_400, 250: 19_200, 500: 9_600, 1000: 4_800}  # FSx for Lustre User Guide, getting started


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Hot")


def refused(stack: cdk.Stack, **options: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        file_system(stack, **options)
    return caught.value


# -- what the file system is


def test_report_01_legal_capacities_of_every_kind_reach_the_template(stack: cdk.Stack) -> None:
    network, where = vpc(stack), subnet(stack)
    sizes = (1200, 2400, 4800, 460_800)
    for number, ((deployment_type, tier), gib) in enumerate(product(KINDS, sizes)):
        file_system(
            stack,
            f"Hot{number:02}",
            vpc=network,
            subnet=where,
            deployment_type=deployment_type,
            per_unit_storage_throughput=tier,
            storage_capacity_gib=gib,
        )
    granted = sorted(each["Properties"]["StorageCapacity"] for each in resources(stack, FILE_SYSTEM).values())
    assert granted == sorted(sizes * len(KINDS))


@pytest.mark.parametrize(("deployment_type", "tier"), KINDS)
def test_report_01_other_capacities_fail_naming_the_value(
    stack: cdk.Stack, deployment_type: str, tier: int | None
) -> None:
    network, where = vpc(stack), subnet(stack)
    for gib in (0, 600, 1201, 3600):
        error = refused(
            stack,
            vpc=network,
            subnet=where,
            deployment_type=deployment_type,
            per_unit_storage_throughput=tier,
            storage_capacity_gib=gib,
        )
        assert [(problem.path, problem.value) for problem in error.problems] == [("storage_capacity_gib", gib)]


def test_report_01_3600_names_2400_and_4800(stack: cdk.Stack) -> None:
    message = str(refused(stack, storage_capacity_gib=3600))
    for number in ("3600", "2400", "4800"):
        assert number in message


@pytest.mark.parametrize(("need", "granted"), [(1400, 2400), (1200, 1200), (2048, 2400), (1863, 2400)])
def test_report_02_the_construct_takes_what_the_one_rounding_function_gives(
    stack: cdk.Stack, need: float, granted: int
) -> None:
    from training_storage.catalog import default_catalog

    catalog = default_catalog().lustre
    option = catalog.option("SCRATCH_2", "SSD")
    assert option is not None
    rounded = catalog.round_up_gib(option, need, None)
    assert rounded == granted
    file_system(stack, deployment_type="SCRATCH_2", storage_capacity_gib=rounded)
    assert only(stack, FILE_SYSTEM)["Properties"]["StorageCapacity"] == granted


@pytest.mark.parametrize(("deployment_type", "tier"), [("PERSISTENT_2", 125), ("PERSISTENT_1", 50)])
def test_report_03_a_persistent_type_gets_the_documented_default_tier(
    stack: cdk.Stack, deployment_type: str, tier: int
) -> None:
    file_system(stack, deployment_type=deployment_type)
    assert lustre(stack)["PerUnitStorageThroughput"] == tier


@pytest.mark.parametrize("tier", [125, 250, 500, 1000])
def test_report_03_a_given_tier_reaches_the_template(stack: cdk.Stack, tier: int) -> None:
    file_system(stack, per_unit_storage_throughput=tier)
    assert lustre(stack)["PerUnitStorageThroughput"] == tier


def test_report_03_scratch_has_no_tier(stack: cdk.Stack) -> None:
    file_system(stack, deployment_type="SCRATCH_2")
    assert "PerUnitStorageThroughput" not in lustre(stack)


@pytest.mark.parametrize("tier", [125, 200, 1000])
def test_report_03_a_tier_on_scratch_fails(stack: cdk.Stack, tier: int) -> None:
    (problem,) = refused(stack, deployment_type="SCRATCH_2", per_unit_storage_throughput=tier).problems
    assert (problem.path, problem.value) == ("per_unit_storage_throughput", tier)


def test_report_03_a_key_on_scratch_fails_naming_the_option(stack: cdk.Stack) -> None:
    (problem,) = refused(stack, deployment_type="SCRATCH_2", kms_key=kms.Key(stack, "Key")).problems
    assert problem.path == "kms_key"


def test_report_03_another_tier_fails_listing_the_four(stack: cdk.Stack) -> None:
    message = str(refused(stack, per_unit_storage_throughput=200))
    for tier in (125, 250, 500, 1000):
        assert str(tier) in message


@pytest.mark.parametrize("deployment_type", ["PERSISTENT_1", "PERSISTENT_2"])
def test_a_key_encrypts_persistent_types(stack: cdk.Stack, deployment_type: str) -> None:
    key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:us-east-1:111111111111:key/0abc")
    file_system(stack, deployment_type=deployment_type, kms_key=key)
    assert only(stack, FILE_SYSTEM)["Properties"]["KmsKeyId"] == "arn:aws:kms:us-east-1:111111111111:key/0abc"


@pytest.mark.parametrize("tier", [125, 250, 500, 1000])
@pytest.mark.parametrize("efa", [False, True])
def test_report_04_persistent_2_always_has_a_metadata_configuration(stack: cdk.Stack, tier: int, efa: bool) -> None:
    gib = EFA_STEPS[tier] if efa else 1200
    file_system(stack, storage_capacity_gib=gib, per_unit_storage_throughput=tier, efa_enabled=efa)
    assert lustre(stack)["MetadataConfiguration"] == {"Mode": "AUTOMATIC"}
    assert only(stack, FILE_SYSTEM)["Properties"]["FileSystemTypeVersion"] == "2.15"


@pytest.mark.parametrize("deployment_type", ["SCRATCH_2", "PERSISTENT_1"])
def test_report_04_other_types_have_none(stack: cdk.Stack, deployment_type: str) -> None:
    file_system(stack, deployment_type=deployment_type)
    assert "MetadataConfiguration" not in lustre(stack)


def test_provisioned_metadata_reaches_the_template(stack: cdk.Stack) -> None:
    file_system(stack, metadata_mode="USER_PROVISIONED", metadata_iops=24_000)
    assert lustre(stack)["MetadataConfiguration"] == {"Mode": "USER_PROVISIONED", "Iops": 24_000}


def test_user_provisioned_without_a_number_fails(stack: cdk.Stack) -> None:
    assert refused(stack, metadata_mode="USER_PROVISIONED").problems[0].path == "metadata_iops"


@pytest.mark.parametrize(("tier", "step"), EFA_STEPS.items())
def test_report_05_efa_steps_pass(stack: cdk.Stack, tier: int, step: int) -> None:
    file_system(stack, efa_enabled=True, storage_capacity_gib=step, per_unit_storage_throughput=tier)
    assert lustre(stack)["EfaEnabled"] is True


@pytest.mark.parametrize(("tier", "step"), EFA_STEPS.items())
def test_report_05_the_smallest_size_without_efa_fails_naming_the_step(stack: cdk.Stack, tier: int, step: int) -> None:
    error = refused(stack, efa_enabled=True, storage_capacity_gib=1200, per_unit_storage_throughput=tier)
    assert str(step) in str(error)


def test_report_05_7200_at_1000_fails(stack: cdk.Stack) -> None:
    error = refused(stack, efa_enabled=True, storage_capacity_gib=7200, per_unit_storage_throughput=1000)
    assert "4800" in str(error)
    assert "9600" in str(error)


@pytest.mark.parametrize("deployment_type", ["SCRATCH_2", "PERSISTENT_1"])
def test_report_05_efa_on_other_types_fails(stack: cdk.Stack, deployment_type: str) -> None:
    (problem,) = refused(stack, deployment_type=deployment_type, efa_enabled=True).problems
    assert problem.path == "efa_enabled"


def test_efa_off_leaves_the_property_out(stack: cdk.Stack) -> None:
    file_system(stack)
    assert "EfaEnabled" not in lustre(stack)


@pytest.mark.parametrize(("deployment_type", "tier"), KINDS)
def test_report_06_the_old_way_of_linking_is_never_written(
    stack: cdk.Stack, deployment_type: str, tier: int | None
) -> None:
    hot = file_system(stack, deployment_type=deployment_type, per_unit_storage_throughput=tier)
    hot.add_link("Data", file_system_path="/datasets", bucket=cdk.aws_s3.Bucket(stack, "Bucket"))
    assert not {"ImportPath", "ExportPath", "AutoImportPolicy", "ImportedFileChunkSize"} & set(lustre(stack))
    assert len(resources(stack, ASSOCIATION)) == 1


def test_a_storage_type_that_does_not_exist_fails(stack: cdk.Stack) -> None:
    (problem,) = refused(stack, deployment_type="SCRATCH_2", storage_type="HDD").problems
    assert problem.path == "storage_type"


@pytest.mark.parametrize(("deployment_type", "tier"), KINDS)
def test_report_07_the_version_is_always_written(stack: cdk.Stack, deployment_type: str, tier: int | None) -> None:
    file_system(stack, deployment_type=deployment_type, per_unit_storage_throughput=tier)
    assert only(stack, FILE_SYSTEM)["Properties"]["FileSystemTypeVersion"] == "2.15"


@pytest.mark.parametrize("deployment_type", ["SCRATCH_2", "PERSISTENT_1"])
def test_report_07_2_10_warns_naming_version_and_new_clients(stack: cdk.Stack, deployment_type: str) -> None:
    file_system(stack, deployment_type=deployment_type, file_system_type_version="2.10")
    (warning,) = warnings(stack)
    assert "2.10" in warning
    assert "Amazon Linux 2023" in warning
    assert "[ack: training_storage:lustre.oldVersion]" in warning


@pytest.mark.parametrize("deployment_type", ["SCRATCH_2", "PERSISTENT_1"])
def test_report_07_2_10_with_a_link_fails(stack: cdk.Stack, deployment_type: str) -> None:
    hot = file_system(stack, deployment_type=deployment_type, file_system_type_version="2.10")
    with pytest.raises(ValidationError, match=r"2\.10"):
        hot.add_link("Data", file_system_path="/d", bucket=cdk.aws_s3.Bucket(stack, "Bucket"))


def test_data_is_compressed(stack: cdk.Stack) -> None:
    file_system(stack)
    assert lustre(stack)["DataCompressionType"] == "LZ4"


def test_the_maintenance_window_has_a_default(stack: cdk.Stack) -> None:
    file_system(stack)
    assert lustre(stack)["WeeklyMaintenanceStartTime"] == "7:04:00"


def test_backups_are_never_written_unless_asked_for(stack: cdk.Stack) -> None:
    file_system(stack)
    assert not {"AutomaticBackupRetentionDays", "DailyAutomaticBackupStartTime", "CopyTagsToBackups"} & set(
        lustre(stack)
    )


def test_zero_days_of_backups_is_not_written(stack: cdk.Stack) -> None:
    file_system(stack, automatic_backup_retention_days=0)
    assert "AutomaticBackupRetentionDays" not in lustre(stack)


def test_backups_reach_the_template(stack: cdk.Stack) -> None:
    file_system(stack, automatic_backup_retention_days=7)
    assert lustre(stack)["AutomaticBackupRetentionDays"] == 7


def test_backups_on_scratch_fail(stack: cdk.Stack) -> None:
    error = refused(stack, deployment_type="SCRATCH_2", automatic_backup_retention_days=7)
    assert error.problems[0].path == "automatic_backup_retention_days"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("deployment_type", "SCRATCH_1"),
        ("storage_type", "NVME"),
        ("metadata_mode", "MANUAL"),
        ("data_compression_type", "ZSTD"),
        ("file_system_type_version", "2.17"),
        ("weekly_maintenance_start_time", "Sunday"),
        ("storage_capacity_gib", "big"),
        ("storage_capacity_gib", 1200.5),
        ("storage_capacity_gib", float("nan")),
        ("automatic_backup_retention_days", 91),
        ("removal_policy", cdk.RemovalPolicy.SNAPSHOT),
    ],
)
def test_a_value_outside_its_set_fails_naming_the_argument(stack: cdk.Stack, option: str, value: object) -> None:
    assert option in [problem.path for problem in refused(stack, **{option: value}).problems]


def test_all_problems_are_raised_at_once_and_nothing_is_added(stack: cdk.Stack) -> None:
    error = refused(
        stack, storage_capacity_gib=3600, per_unit_storage_throughput=333, weekly_maintenance_start_time="Sunday"
    )
    assert {problem.path for problem in error.problems} == {
        "storage_capacity_gib",
        "per_unit_storage_throughput",
        "weekly_maintenance_start_time",
    }
    assert error.where == "Hot/Hot"
    assert stack.node.try_find_child("Hot") is None


# -- where it stands


def test_report_15_exactly_the_given_subnet(stack: cdk.Stack) -> None:
    network = ec2.Vpc(stack, "Vpc", availability_zones=["us-east-1a", "us-east-1b", "us-east-1c"])
    second = network.private_subnets[1]
    file_system(stack, vpc=network, subnet=second)
    assert only(stack, FILE_SYSTEM)["Properties"]["SubnetIds"] == [stack.resolve(second.subnet_id)]


@pytest.mark.parametrize("count", [2, 3])
def test_report_15_several_subnets_fail_naming_the_option(stack: cdk.Stack, count: int) -> None:
    subnets = [subnet(stack, f"Subnet{index}") for index in range(count)]
    (problem,) = refused(stack, subnet=subnets).problems
    assert (problem.path, problem.value) == ("subnet", count)


# -- logs


def test_logs_go_to_a_group_of_ours_under_aws_fsx(stack: cdk.Stack) -> None:
    file_system(stack)
    (group_id,) = resources(stack, LOG_GROUP)
    configuration = lustre(stack)["LogConfiguration"]
    assert configuration["Level"] == "WARN_ERROR"
    assert configuration["Destination"]["Fn::Join"][1][-2:] == [":log-group:", {"Ref": group_id}]
    assert only(stack, LOG_GROUP)["Properties"]["LogGroupName"]["Fn::Join"][1][0] == "/aws/fsx/"


def test_logs_are_kept_for_six_months(stack: cdk.Stack) -> None:
    file_system(stack)
    assert only(stack, LOG_GROUP)["Properties"]["RetentionInDays"] == 180


def test_a_given_log_group_is_used(stack: cdk.Stack) -> None:
    file_system(stack, log_group=logs.LogGroup.from_log_group_name(stack, "Logs", "/aws/fsx/mine"))
    assert lustre(stack)["LogConfiguration"]["Destination"]["Fn::Join"][1][-1] == ":log-group:/aws/fsx/mine"
    assert resources(stack, LOG_GROUP) == {}


def test_a_log_group_of_another_name_fails(stack: cdk.Stack) -> None:
    error = refused(stack, log_group=logs.LogGroup.from_log_group_name(stack, "Logs", "/training"))
    assert error.problems[0].path == "log_group"


def test_retention_does_not_go_with_a_given_log_group(stack: cdk.Stack) -> None:
    group = logs.LogGroup.from_log_group_name(stack, "Logs", "/aws/fsx/mine")
    error = refused(stack, log_group=group, log_retention=logs.RetentionDays.ONE_WEEK)
    assert error.problems[0].path == "log_retention"


# -- security group


def rules_of(stack: cdk.Stack, resource_type: str) -> list[dict[str, Any]]:
    return [found["Properties"] for found in resources(stack, resource_type).values()]


def test_report_13_servers_reach_each_other_on_every_lustre_port(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    group = stack.resolve(hot.security_group.security_group_id)
    for resource_type, other in ((INGRESS, "SourceSecurityGroupId"), (EGRESS, "DestinationSecurityGroupId")):
        rules = rules_of(stack, resource_type)
        assert all(rule["GroupId"] == rule[other] == group for rule in rules)
        assert ports(rules) == LUSTRE_PORTS
    assert only(stack, FILE_SYSTEM)["Properties"]["SecurityGroupIds"] == [group]


@pytest.mark.parametrize("efa", [False, True])
def test_report_13_no_rule_of_the_file_system_names_the_world(stack: cdk.Stack, efa: bool) -> None:
    file_system(stack, efa_enabled=efa, storage_capacity_gib=38_400)
    assert "0.0.0.0/0" not in json.dumps(Template.from_stack(stack).to_json())


@pytest.mark.parametrize(("tier", "step"), EFA_STEPS.items())
def test_report_14_efa_has_all_traffic_with_itself_by_group_id(stack: cdk.Stack, tier: int, step: int) -> None:
    hot = file_system(stack, efa_enabled=True, storage_capacity_gib=step, per_unit_storage_throughput=tier)
    group = stack.resolve(hot.security_group.security_group_id)
    (ingress,), (egress,) = rules_of(stack, INGRESS), rules_of(stack, EGRESS)
    assert (ingress["IpProtocol"], ingress["GroupId"], ingress["SourceSecurityGroupId"]) == ("-1", group, group)
    assert (egress["IpProtocol"], egress["GroupId"], egress["DestinationSecurityGroupId"]) == ("-1", group, group)


@pytest.mark.parametrize("efa", [False, True])
def test_the_file_system_waits_for_every_rule_of_its_group(stack: cdk.Stack, efa: bool) -> None:
    file_system(stack, efa_enabled=efa, storage_capacity_gib=38_400)
    rules = {*resources(stack, INGRESS), *resources(stack, EGRESS)}
    assert rules
    assert rules <= set(only(stack, FILE_SYSTEM)["DependsOn"])


@pytest.mark.parametrize("open_outbound", [False, True])
@pytest.mark.parametrize("efa", [False, True])
def test_report_14_a_brought_group_gets_the_rules_whatever_its_outbound(
    stack: cdk.Stack, open_outbound: bool, efa: bool
) -> None:
    network = vpc(stack)
    mine = ec2.SecurityGroup(stack, "Mine", vpc=network, allow_all_outbound=open_outbound)
    file_system(stack, vpc=network, security_group=mine, efa_enabled=efa, storage_capacity_gib=38_400)
    group = stack.resolve(mine.security_group_id)
    egress = [rule for rule in rules_of(stack, EGRESS) if rule["DestinationSecurityGroupId"] == group]
    assert ports(egress) >= LUSTRE_PORTS
    assert ("0.0.0.0/0" in json.dumps(only(stack, GROUP))) is open_outbound


def test_report_38_an_imported_group_gets_the_rules(stack: cdk.Stack) -> None:
    theirs = ec2.SecurityGroup.from_security_group_id(stack, "Theirs", "sg-0abc")
    file_system(stack, security_group=theirs)
    assert resources(stack, GROUP) == {}
    assert {rule["GroupId"] for rule in (*rules_of(stack, INGRESS), *rules_of(stack, EGRESS))} == {"sg-0abc"}


@pytest.mark.parametrize(("efa", "named"), [(False, "tcp 988, tcp 1018-1023"), (True, "all traffic")])
def test_report_13_rules_left_to_the_owner_are_named_in_a_warning(stack: cdk.Stack, efa: bool, named: str) -> None:
    theirs = ec2.SecurityGroup.from_security_group_id(stack, "Theirs", "sg-0abc")
    file_system(
        stack,
        security_group=theirs,
        manage_security_group_rules=False,
        efa_enabled=efa,
        storage_capacity_gib=38_400,
    )
    (warning,) = warnings(stack)
    assert named in warning
    assert "[ack: training_storage:lustre.securityGroupRules]" in warning
    assert resources(stack, INGRESS) == resources(stack, EGRESS) == {}


# -- life


RETAINED = (FILE_SYSTEM, GROUP, INGRESS, EGRESS, LOG_GROUP, ASSOCIATION)


@pytest.mark.parametrize("policy", [None, cdk.RemovalPolicy.RETAIN])
def test_report_18_retain_keeps_all_of_the_hot_tier(stack: cdk.Stack, policy: cdk.RemovalPolicy | None) -> None:
    hot = file_system(stack, removal_policy=policy)
    hot.add_link("Data", file_system_path="/d", bucket=cdk.aws_s3.Bucket.from_bucket_name(stack, "B", "their-bucket"))
    for resource_type in RETAINED:
        found = resources(stack, resource_type)
        assert found
        assert {each["DeletionPolicy"] for each in found.values()} == {"Retain"}, resource_type


def test_report_18_destroy_deletes_all_of_the_hot_tier(stack: cdk.Stack) -> None:
    hot = file_system(stack, removal_policy=cdk.RemovalPolicy.DESTROY)
    hot.add_link("Data", file_system_path="/d", bucket=cdk.aws_s3.Bucket.from_bucket_name(stack, "B", "their-bucket"))
    for resource_type in RETAINED:
        found = resources(stack, resource_type)
        assert found
        assert {each["DeletionPolicy"] for each in found.values()} == {"Delete"}, resource_type


@pytest.mark.parametrize("policy", [None, cdk.RemovalPolicy.RETAIN, cdk.RemovalPolicy.DESTROY])
def test_an_update_never_deletes_the_file_system(stack: cdk.Stack, policy: cdk.RemovalPolicy | None) -> None:
    file_system(stack, removal_policy=policy)
    assert only(stack, FILE_SYSTEM)["UpdateReplacePolicy"] == "Retain"


def test_child_ids_are_fixed(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    assert sorted(child.node.id for child in hot.node.children) == [
        "LogGroup",
        "Resource",
        "SecurityGroup",
        "SelfEgress1018",
        "SelfEgress988",
        "SelfIngress1018",
        "SelfIngress988",
    ]


def test_it_changes_only_in_capacity_when_it_grows(make_app: Any) -> None:
    templates = []
    for gib in (2400, 4800):
        stack = cdk.Stack(make_app(), "Hot")
        file_system(stack, storage_capacity_gib=gib)
        template = Template.from_stack(stack).to_json()
        (found,) = [each for each in template["Resources"].values() if each["Type"] == FILE_SYSTEM]
        assert found["Properties"].pop("StorageCapacity") == gib
        templates.append(template)
    assert templates[0] == templates[1]


# -- what it gives


def test_attributes_come_from_the_resource(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    (logical_id,) = resources(stack, FILE_SYSTEM)
    assert stack.resolve(hot.file_system_id) == {"Ref": logical_id}
    assert stack.resolve(hot.mount_name) == {"Fn::GetAtt": [logical_id, "LustreMountName"]}
    assert stack.resolve(hot.dns_name) == {"Fn::GetAtt": [logical_id, "DNSName"]}
    assert stack.resolve(hot.file_system_arn) == {"Fn::GetAtt": [logical_id, "ResourceARN"]}


@pytest.mark.parametrize(
    ("region", "partition"), [("us-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_arns_follow_the_partition(app: cdk.App, region: str, partition: str) -> None:
    stack = cdk.Stack(app, "Hot", env=cdk.Environment(account="111111111111", region=region))
    file_system(stack, deployment_type="SCRATCH_2")  # what every region has
    destination = lustre(stack)["LogConfiguration"]["Destination"]["Fn::Join"][1][0]
    assert destination == f"arn:{partition}:logs:{region}:111111111111:log-group:"


# -- clients


def client(stack: cdk.Stack, *, open_outbound: bool, network: ec2.IVpc | None = None) -> ec2.SecurityGroup:
    return ec2.SecurityGroup(stack, "Client", vpc=network or vpc(stack), allow_all_outbound=open_outbound)


@pytest.mark.parametrize("open_outbound", [False, True])
@pytest.mark.parametrize("efa", [False, True])
def test_report_13_client_and_file_system_reach_each_other(app: cdk.App, open_outbound: bool, efa: bool) -> None:
    storage, compute = cdk.Stack(app, "Storage"), cdk.Stack(app, "Compute")
    hot = file_system(storage, efa_enabled=efa, storage_capacity_gib=38_400)
    group = client(compute, open_outbound=open_outbound)
    hot.allow_client(group)
    mine = compute.resolve(group.security_group_id)
    for resource_type, other in ((INGRESS, "SourceSecurityGroupId"), (EGRESS, "DestinationSecurityGroupId")):
        rules = rules_of(compute, resource_type)
        on_client = [rule for rule in rules if rule["GroupId"] == mine]
        on_server = [rule for rule in rules if rule[other] == mine]
        assert len(on_client) + len(on_server) == len(rules)
        for side in (on_client, on_server):
            assert ports(side) >= LUSTRE_PORTS
            assert {rule["IpProtocol"] for rule in side} == ({"-1"} if efa else {"tcp"})
    assert ("0.0.0.0/0" in json.dumps(only(compute, GROUP))) is open_outbound


def test_a_client_asked_for_twice_is_let_in_once(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    group = client(stack, open_outbound=True)
    first, second = hot.allow_client(group), hot.allow_client(group)
    assert [rule.node.path for rule in first] == [rule.node.path for rule in second]
    assert len(resources(stack, INGRESS)) == 2 + 4  # two of the servers, two each way of the client


def test_two_clients_and_two_file_systems_have_rules_of_their_own(stack: cdk.Stack) -> None:
    network = vpc(stack)
    one, two = file_system(stack, "One", vpc=network), file_system(stack, "Two", vpc=network)
    for name in ("A", "B"):
        group = ec2.SecurityGroup(stack, name, vpc=network)
        one.allow_client(group)
        two.allow_client(group)
    assert len(resources(stack, EGRESS)) == 2 * 2 + 4 * 4


def test_an_instance_is_a_client(stack: cdk.Stack) -> None:
    network = ec2.Vpc(stack, "Vpc")
    hot = file_system(stack, vpc=network)
    instance = ec2.Instance(
        stack,
        "Node",
        vpc=network,
        instance_type=ec2.InstanceType("g6e.48xlarge"),
        machine_image=ec2.MachineImage.generic_linux({"us-east-1": "ami-0abc"}),
    )
    assert len(hot.allow_client(instance)) == 8  # two port ranges, two directions, two groups


def test_an_imported_group_is_a_client(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    hot.allow_client(ec2.SecurityGroup.from_security_group_id(stack, "Theirs", "sg-0abc"))
    assert "sg-0abc" in [rule["GroupId"] for rule in rules_of(stack, EGRESS)]


def test_a_client_with_the_file_systems_own_group_needs_no_more(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    assert hot.allow_client(hot) == ()


def test_a_client_without_a_group_fails(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    with pytest.raises(ValidationError, match="security group"):
        hot.allow_client(ec2.Connections())


@pytest.mark.parametrize("efa", [False, True])
def test_report_13_rules_of_a_client_that_are_left_to_the_owner_are_named_in_a_warning(
    stack: cdk.Stack, efa: bool
) -> None:
    theirs = ec2.SecurityGroup.from_security_group_id(stack, "Theirs", "sg-0abc")
    hot = file_system(
        stack, security_group=theirs, manage_security_group_rules=False, efa_enabled=efa, storage_capacity_gib=38_400
    )
    hot.allow_client(ec2.SecurityGroup.from_security_group_id(stack, "Client", "sg-0def"))
    (said,) = [text for text in warnings(stack) if "sg-0def" in text]
    for passing in ("all traffic",) if efa else ("tcp 988", "tcp 1018-1023"):
        assert f"inbound {passing} from sg-0def" in said
        assert f"outbound {passing} to sg-0def" in said


def test_rules_of_a_group_left_to_its_owner_are_not_made_for_clients_either(app: cdk.App) -> None:
    storage, compute = cdk.Stack(app, "Storage"), cdk.Stack(app, "Compute")
    theirs = ec2.SecurityGroup.from_security_group_id(storage, "Theirs", "sg-0abc")
    hot = file_system(storage, security_group=theirs, manage_security_group_rules=False)
    group = client(compute, open_outbound=False)
    hot.allow_client(group)
    mine = compute.resolve(group.security_group_id)
    assert {json.dumps(rule["GroupId"]) for rule in rules_of(compute, INGRESS)} == {json.dumps(mine)}


def test_other_code_can_let_itself_in_through_connections(stack: cdk.Stack) -> None:
    network = ec2.Vpc(stack, "Vpc")
    hot = file_system(stack, vpc=network)
    group = client(stack, open_outbound=True, network=network)
    group.connections.allow_to_default_port(hot)
    assert ports([rule for rule in rules_of(stack, INGRESS) if rule.get("Description", "").startswith("from")]) == set(
        range(988, 1024)
    )


@pytest.mark.parametrize("references", ["strong", "weak"])
@pytest.mark.parametrize("efa", [False, True])
def test_report_39_rules_stand_in_the_clients_stack_and_storage_refers_to_nothing(
    cdk_context: dict[str, Any], tmp_path: Any, references: str, efa: bool
) -> None:
    context = {**cdk_context, "@aws-cdk/core:defaultCrossStackReferences": references}
    app = cdk.App(
        context=context,
        outdir=str(tmp_path / "cdk.out"),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )
    storage, compute = cdk.Stack(app, "Storage"), cdk.Stack(app, "Compute")
    network = ec2.Vpc(storage, "Vpc")
    hot = LustreFileSystem(
        storage,
        "Hot",
        vpc=network,
        subnet=network.private_subnets[0],
        storage_capacity_gib=38_400,
        efa_enabled=efa,
    )
    alone = len(rules_of_tree(hot))
    group = ec2.SecurityGroup(compute, "Client", vpc=network)
    hot.allow_client(group)

    template = Template.from_stack(storage).to_json()
    text = json.dumps(template)
    assert "Fn::ImportValue" not in text
    assert "Fn::GetStackOutput" not in text
    in_storage = [each for each in template["Resources"].values() if each["Type"] in {INGRESS, EGRESS}]
    assert len(in_storage) == alone
    assert ports(rules_of(compute, INGRESS)) >= LUSTRE_PORTS
    assert ports(rules_of(compute, EGRESS)) >= LUSTRE_PORTS
    assert compute.dependencies == [storage]
    assert storage.dependencies == []


def rules_of_tree(hot: LustreFileSystem) -> list[Any]:
    return [child for child in hot.node.children if child.node.id.startswith("Self")]


def test_a_client_of_the_same_stack_may_wait_for_the_file_system(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    group = client(stack, open_outbound=True)
    group.node.add_dependency(hot)
    rules = hot.allow_client(group)
    needed = set(only(stack, FILE_SYSTEM)["DependsOn"])
    assert not needed & {stack.resolve(rule.logical_id) for rule in rules}


def test_report_38_the_same_settings_give_the_same_bytes_in_two_folders(make_app: Any) -> None:
    texts = []
    for _ in range(2):
        app = make_app()
        lake_stack, hot_stack = cdk.Stack(app, "Lake"), cdk.Stack(app, "Hot")
        lake = DataLake(lake_stack, "Lake")
        hot = file_system(hot_stack)
        hot.add_link("Data", file_system_path="/datasets", bucket=lake, bucket_prefix="datasets/")
        hot.allow_client(client(hot_stack, open_outbound=True))
        folder = app.synth().directory
        texts.append([(Path(folder) / f"{name}.template.json").read_bytes() for name in ("Lake", "Hot")])
    assert texts[0] == texts[1]
