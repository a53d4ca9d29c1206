"""China and GovCloud: ARNs, suffixes and service names of the partition, and a clear answer where a tier is not there.

Every deployable example and every single construct is synthesized in regions of both partitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from ruamel.yaml import YAML

from tests.assemblies import EXAMPLES, ROOT, Assembly, synthesize
from training_storage.catalog import default_catalog
from training_storage.compute import (
    BucketAccess,
    GpuFleet,
    ImportedNetwork,
    LustreMount,
    MountpointMount,
    NodeStorage,
    S3FilesMount,
    TrainingNetwork,
)
from training_storage.errors import ValidationError
from training_storage.monitoring import AlarmTopic, StorageAlarms, StorageDashboard
from training_storage.planner import plan
from training_storage.rules.network import INTERFACE_ENDPOINTS
from training_storage.tiers import DataLake, DirectoryBucket, LustreFileSystem, S3FileSystem
from training_storage.training_storage import TrainingStorage
from training_storage.workload import Workload

ACCOUNT = "111111111111"


@dataclass(frozen=True)
class Place:
    """A region of another partition."""

    region: str
    zone: str
    partition: str
    suffix: str


PLACES = {
    each.region: each
    for each in (
        Place("cn-north-1", "cnn1-az1", "aws-cn", "amazonaws.com.cn"),
        Place("cn-northwest-1", "cnnw1-az1", "aws-cn", "amazonaws.com.cn"),
        Place("us-gov-west-1", "usgw1-az1", "aws-us-gov", "amazonaws.com"),
        Place("us-gov-east-1", "usge1-az1", "aws-us-gov", "amazonaws.com"),
    )
}
BOTH = ("cn-north-1", "us-gov-west-1")
PRINCIPALS = {
    f"{service}.amazonaws.com"
    for service in (
        "cloudwatch",
        "ec2",
        "elasticfilesystem",
        "events",
        "lambda",
        "lifecycle.s3",
        "scheduler",
        "states",
        "vpc-flow-logs",
    )
}
"""Service principals have one name in every partition (aws-cdk-lib, region-info: globally SERVICE.amazonaws.com)."""
PRINCIPAL_IN_A_PATH = "aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/"
# AWS China: endpoint services that were made for China alone begin with cn.
CHINESE = {"cloudformation", "monitoring", "sts"}


def resolved(value: Any, place: Place) -> Any:
    """Return a template with what CloudFormation knows of the place put in."""
    known = {"AWS::Partition": place.partition, "AWS::URLSuffix": place.suffix, "AWS::Region": place.region}
    if isinstance(value, list):
        return [resolved(item, place) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Ref"}:
        return known.get(value["Ref"], value)
    if set(value) == {"Fn::Join"}:
        separator, parts = value["Fn::Join"]
        parts = [part if isinstance(part, str) else "<later>" for part in resolved(parts, place)]
        return str(separator).join(parts)
    if set(value) == {"Fn::Sub"} and isinstance(value["Fn::Sub"], str):
        return re.sub(r"\$\{([^}]+)\}", lambda match: known.get(match[1], "<later>"), value["Fn::Sub"])
    return {key: resolved(item, place) for key, item in value.items()}


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)


def assert_of_the_partition(template: dict[str, Any], place: Place) -> None:
    """Every ARN, every address and every name of a zone in a template is one of the place."""
    said = list(texts(resolved(template, place)))
    assert said
    for text in said:
        assert {match[1] for match in re.finditer(r"\barn:([a-z-]*):", text)} <= {place.partition}, text
        if text not in PRINCIPALS:
            for host in re.findall(r"amazonaws\.com[a-z.]*", text.replace(PRINCIPAL_IN_A_PATH, "")):
                assert host.rstrip(".") == place.suffix, text
        assert not re.search(r"\bus-(?:east|west)-\d|\bus[ew]\d-az\d", text), text


# The reference stacks

ANSWERS: tuple[dict[str, Any], ...] = (
    {},
    {"lustre": {"deployment_type": "SCRATCH_2"}},
    {"hot_tier": "lustre", "express": None},
    {"hot_tier": "lustre", "express": None, "lustre": {"deployment_type": "SCRATCH_2"}},
    {"hot_tier": "lustre", "express": None, "mountpoint": None, "lustre": {"deployment_type": "SCRATCH_2"}},
)
"""What a user changes, by what the refusal says, until a workload made for another region can be planned."""


def moved(name: str, place: Place, **changes: Any) -> dict[str, Any]:
    """Return the data of an example, in another region."""
    text = (ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8")
    at_home = YAML(typ="safe").load(text)
    partition = default_catalog().regions[at_home["region"]].partition
    for old, new in (
        (f"arn:{partition}:", f"arn:{place.partition}:"),
        (at_home["region"], place.region),
        (at_home["availability_zone_id"], place.zone),
    ):
        text = text.replace(old, new)
    return {key: value for key, value in (YAML(typ="safe").load(text) | changes).items() if value is not None}


@cache
def answer(name: str, region: str) -> tuple[dict[str, Any], tuple[ValidationError, ...]]:
    """Return the first change that makes an example plannable in a region, and the refusals before it."""
    refused: list[ValidationError] = []
    for changes in ANSWERS:
        data = moved(name, PLACES[region], **changes)
        try:
            plan(Workload.model_validate(data))
        except ValidationError as error:
            refused.append(error)
        else:
            return data, tuple(refused)
    raise AssertionError(f"{name} cannot be planned in {region}: {refused[-1]}")


@cache
def assembly(name: str, region: str) -> Assembly:
    return synthesize(answer(name, region)[0])


@pytest.mark.parametrize("region", PLACES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_in_another_partition_names_nothing_of_this_one(name: str, region: str) -> None:
    for template in assembly(name, region).templates.values():
        assert_of_the_partition(template, PLACES[region])


@pytest.mark.parametrize("region", PLACES)
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_another_partition_lacks_is_refused_with_what_to_do(name: str, region: str) -> None:
    for error in answer(name, region)[1]:
        for problem in error.problems:
            assert problem.allowed or problem.fix, str(problem)


def test_workloads_with_persistent_2_are_refused_in_govcloud() -> None:
    _, refused = answer("llama3-70b", "us-gov-west-1")
    assert "us-gov-west-1 has no PERSISTENT_2 file systems" in str(refused[0])
    assert "SCRATCH_2" in str(refused[0])


@pytest.mark.parametrize("region", PLACES)
def test_interface_endpoints_have_the_names_of_the_region(region: str) -> None:
    place = PLACES[region]
    data = moved("lora-finetune", place, network={"internet": "none"})
    made = synthesize(data).all("AWS::EC2::VPCEndpoint")
    names = {str(resolved(each["Properties"]["ServiceName"], place)) for each in made}
    china = place.partition == "aws-cn"
    wanted = {
        f"{'cn.' if china and name in CHINESE else ''}com.amazonaws.{region}.{name}" for name in INTERFACE_ENDPOINTS
    }
    assert names == wanted | {f"com.amazonaws.{region}.s3"}


# Single constructs


def network(stack: cdk.Stack) -> tuple[ec2.IVpc, ec2.ISubnet]:
    zone = f"{stack.region}a"
    vpc = ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-0abc", availability_zones=[zone])
    subnet = ec2.Subnet.from_subnet_attributes(
        stack, "Subnet", subnet_id="subnet-0abc", availability_zone=zone, route_table_id="rtb-0abc"
    )
    return vpc, subnet


def lustre(stack: cdk.Stack, **options: Any) -> LustreFileSystem:
    vpc, subnet = network(stack)
    given = {"storage_capacity_gib": 1200, "deployment_type": "SCRATCH_2", **options}
    return LustreFileSystem(stack, "Hot", vpc=vpc, subnet=subnet, **given)


def s3_files(stack: cdk.Stack) -> S3FileSystem:
    vpc, subnet = network(stack)
    return S3FileSystem(stack, "Files", bucket=DataLake(stack, "Lake"), vpc=vpc, subnet=subnet)


def data_lake(stack: cdk.Stack, place: Place) -> None:
    lake = DataLake(stack, "Lake")
    lake.grant_read_write(iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com")))


def linked_lustre(stack: cdk.Stack, place: Place) -> None:
    hot = lustre(stack)
    hot.add_link("Data", file_system_path="/data", bucket=DataLake(stack, "Lake"), import_events=["new"])


def imported_lustre(stack: cdk.Stack, place: Place) -> None:
    hot = LustreFileSystem.from_attributes(
        stack, "Hot", file_system_id="fs-0123456789abcdef0", mount_name="abcdefgh",
        security_group=ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0abc"),
    )  # fmt: skip
    cdk.CfnOutput(stack, "Source", value=hot.dns_name)
    hot.add_link("Data", file_system_path="/data", bucket=s3.Bucket.from_bucket_name(stack, "Bucket", "theirs"))


def s3_file_system(stack: cdk.Stack, place: Place) -> None:
    s3_files(stack).grant_read_write(iam.Role.from_role_name(stack, "Role", "trainers"))


def imported_s3_files(stack: cdk.Stack, place: Place) -> None:
    files = S3FileSystem.from_attributes(
        stack, "Files", file_system_id="fs-0123456789abcdef0", bucket=DataLake(stack, "Lake"),
        security_group=ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0abc"),
    )  # fmt: skip
    files.grant_read(iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com")))


def fleet(stack: cdk.Stack, place: Place) -> None:
    vpc, subnet = network(stack)
    hot = LustreFileSystem(stack, "Hot", vpc=vpc, subnet=subnet, storage_capacity_gib=1200, deployment_type="SCRATCH_2")
    theirs = s3.Bucket.from_bucket_name(stack, "Theirs", "theirs")
    storage = NodeStorage(
        stack,
        "Storage",
        mounts=[LustreMount(file_system=hot), MountpointMount(bucket=theirs)],
        buckets=[BucketAccess(bucket=theirs, write=True)],
    )
    GpuFleet(stack, "Fleet", vpc=vpc, subnet=subnet, instance_type="g4dn.12xlarge", instance_count=2, storage=storage)


def nodes_with_s3_files(stack: cdk.Stack, place: Place) -> None:
    vpc, subnet = network(stack)
    files = S3FileSystem(stack, "Files", bucket=DataLake(stack, "Lake"), vpc=vpc, subnet=subnet)
    storage = NodeStorage(stack, "Storage", mounts=[S3FilesMount(file_system=files)])
    GpuFleet(stack, "Fleet", vpc=vpc, subnet=subnet, instance_type="g4dn.xlarge", instance_count=1, storage=storage)


def training_network(stack: cdk.Stack, place: Place) -> None:
    TrainingNetwork(stack, "Network", availability_zone_id=place.zone, internet="none")


def imported_network(stack: cdk.Stack, place: Place) -> None:
    ImportedNetwork(
        stack, "Network", vpc_id="vpc-0abc", subnet_id="subnet-0abc", availability_zone_id=place.zone,
        route_table_ids=["rtb-0abc"],
    )  # fmt: skip


def dashboard(stack: cdk.Stack, place: Place) -> None:
    StorageDashboard(stack, "Dashboard", dashboard_name="mine", file_system_id="fs-0123456789abcdef0")


def alarms(stack: cdk.Stack, place: Place) -> None:
    topic = AlarmTopic(stack, "Told", emails=["ops@example.com"])
    StorageAlarms(stack, "Alarms", name="mine", file_system_id="fs-0123456789abcdef0", topics=[topic.topic])


def whole_workload(stack: cdk.Stack, place: Place) -> None:
    vpc, subnet = network(stack)
    planned = plan(Workload.model_validate(moved("china-finetune", place)))
    TrainingStorage(stack, "Storage", plan=planned, vpc=vpc, subnet=subnet)


CONSTRUCTS: tuple[Callable[[cdk.Stack, Place], None], ...] = (
    data_lake,
    linked_lustre,
    imported_lustre,
    s3_file_system,
    imported_s3_files,
    fleet,
    nodes_with_s3_files,
    training_network,
    imported_network,
    dashboard,
    alarms,
    whole_workload,
)


@pytest.mark.parametrize("known", [True, False], ids=["region-known", "any-region"])
@pytest.mark.parametrize("region", BOTH)
@pytest.mark.parametrize("make", CONSTRUCTS, ids=lambda make: str(make.__name__))
def test_a_single_construct_names_nothing_of_this_partition(
    make: Callable[[cdk.Stack, Place], None], region: str, known: bool, app: cdk.App
) -> None:
    stack = cdk.Stack(app, "Mine", env=cdk.Environment(account=ACCOUNT, region=region) if known else None)
    make(stack, PLACES[region])
    assert_of_the_partition(app.synth().get_stack_by_name("Mine").template, PLACES[region])


# What a region lacks

REGIONS = default_catalog().regions
WITHOUT_PERSISTENT_2 = [name for name, region in REGIONS.items() if region.lustre_tiers == ()]
WITH_LOW_TIERS = [name for name, region in REGIONS.items() if region.lustre_tiers == (125, 250)]
WITHOUT_S3_FILES = [name for name, region in REGIONS.items() if region.s3_files is False]


def stack_in(app: cdk.App, region: str) -> cdk.Stack:
    return cdk.Stack(app, "Mine", env=cdk.Environment(account=ACCOUNT, region=region))


def test_there_are_regions_that_lack_something() -> None:
    assert {"us-gov-west-1", "us-gov-east-1"} <= set(WITHOUT_PERSISTENT_2)
    assert WITH_LOW_TIERS
    assert WITHOUT_S3_FILES
    assert not any(REGIONS[region].express_zone_ids for region in PLACES)


@pytest.mark.parametrize("region", WITHOUT_PERSISTENT_2)
def test_a_file_system_that_the_region_lacks_is_refused_with_the_types_it_has(region: str, app: cdk.App) -> None:
    with pytest.raises(ValidationError, match=f"{region} has no PERSISTENT_2 .* SCRATCH_2 and PERSISTENT_1") as caught:
        lustre(stack_in(app, region), deployment_type="PERSISTENT_2")
    (problem,) = caught.value.problems
    assert problem.rule == "lustre.region-deployment-type"


@pytest.mark.parametrize("region", WITH_LOW_TIERS)
@pytest.mark.parametrize("tier", [500, 1000])
def test_a_tier_that_the_region_lacks_is_refused_with_those_it_has(region: str, tier: int, app: cdk.App) -> None:
    with pytest.raises(
        ValidationError, match=f"{region} does not offer this tier; got {tier}; allowed: 125 or 250 MB/s"
    ):
        lustre(stack_in(app, region), deployment_type="PERSISTENT_2", per_unit_storage_throughput=tier)


@pytest.mark.parametrize("region", WITH_LOW_TIERS)
def test_efa_that_the_region_lacks_is_refused(region: str, app: cdk.App) -> None:
    with pytest.raises(ValidationError, match=f"efa_enabled: {region} has no EFA-enabled file systems"):
        lustre(
            stack_in(app, region), deployment_type="PERSISTENT_2", efa_enabled=True, per_unit_storage_throughput=250,
            storage_capacity_gib=19_200,
        )  # fmt: skip


@pytest.mark.parametrize("region", WITHOUT_PERSISTENT_2)
def test_a_stack_of_any_region_takes_every_file_system(region: str, app: cdk.App) -> None:
    assert lustre(cdk.Stack(app, "Mine"), deployment_type="PERSISTENT_2").deployment_type == "PERSISTENT_2"


@pytest.mark.parametrize("region", PLACES)
def test_a_directory_bucket_that_the_region_lacks_is_refused_with_what_takes_its_place(
    region: str, app: cdk.App
) -> None:
    with pytest.raises(ValidationError, match=rf"{region} has none.*us-east-1.*LustreFileSystem"):
        DirectoryBucket(stack_in(app, region), "Hot", availability_zone_id=PLACES[region].zone)


@pytest.mark.parametrize("region", WITHOUT_S3_FILES)
def test_s3_files_that_the_region_lacks_is_refused_with_what_takes_its_place(region: str, app: cdk.App) -> None:
    with pytest.raises(ValidationError, match=r"no S3 Files in this region.*Mountpoint.*LustreFileSystem"):
        s3_files(stack_in(app, region))


@pytest.mark.parametrize("region", WITHOUT_S3_FILES)
def test_a_plan_with_s3_files_is_refused_where_the_region_lacks_it(region: str) -> None:
    data = moved("lora-finetune", Place(region, REGIONS[region].zone_ids[0], "aws", "amazonaws.com"))
    with pytest.raises(ValidationError, match=r"S3 Files") as caught:
        plan(Workload.model_validate(data | {"file_access": "s3-files"}))
    assert all(problem.allowed or problem.fix for problem in caught.value.problems)


@pytest.mark.parametrize("region", PLACES)
def test_a_plan_with_s3_express_is_refused_where_the_region_lacks_it(region: str) -> None:
    data = moved("llama3-70b", PLACES[region], hot_tier="express", lustre=None)
    data["dataset"]["interface"] = "object"
    with pytest.raises(ValidationError, match=r"S3 Express|express") as caught:
        plan(Workload.model_validate(data))
    assert all(problem.allowed or problem.fix for problem in caught.value.problems)
    assert "lustre" in str(caught.value)
