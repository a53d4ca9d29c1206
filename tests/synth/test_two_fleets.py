"""Storage in one stack, fleets in others: no circle, and a second fleet does not change the stack of the storage."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from tests.assemblies import ROOT, context
from tests.synth.storage import EGRESS, INGRESS
from training_storage.compute import (
    BucketAccess,
    GpuFleet,
    LustreMount,
    MountpointMount,
    NodeStorage,
    S3FilesMount,
    TrainingNetwork,
)
from training_storage.compute.mount_model import Mount
from training_storage.planner import plan
from training_storage.tiers import DataLake, DirectoryBucket, LustreFileSystem, S3FileSystem
from training_storage.training_storage import TrainingStorage
from training_storage.workload import load_workload

REFERENCES = ["strong", "weak"]
ACCOUNT, REGION, ZONE = "111111111111", "us-east-1", "use1-az6"


@dataclass(frozen=True)
class Place:
    """Where the storage of a test stands."""

    stack: cdk.Stack
    vpc: ec2.IVpc
    subnet: ec2.ISubnet
    group: ec2.ISecurityGroup | None


# Networks: of the storage's own stack, of a stack of its own, and one that exists already.


def network_of_the_storage(app: cdk.App, storage: cdk.Stack) -> tuple[ec2.IVpc, ec2.ISubnet]:
    made = TrainingNetwork(storage, "Network", availability_zone_id=ZONE)
    return made.vpc, made.subnet


def plain_vpc_of_the_storage(app: cdk.App, storage: cdk.Stack) -> tuple[ec2.IVpc, ec2.ISubnet]:
    vpc = ec2.Vpc(storage, "Vpc", max_azs=1)
    return vpc, vpc.private_subnets[0]


def network_of_its_own(app: cdk.App, storage: cdk.Stack) -> tuple[ec2.IVpc, ec2.ISubnet]:
    made = TrainingNetwork(stack_of(app, "Network"), "Network", availability_zone_id=ZONE)
    return made.vpc, made.subnet


def network_that_exists(app: cdk.App, storage: cdk.Stack) -> tuple[ec2.IVpc, ec2.ISubnet]:
    vpc = ec2.Vpc.from_vpc_attributes(storage, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"])
    subnet = ec2.Subnet.from_subnet_attributes(
        storage, "Subnet", subnet_id="subnet-0abc", availability_zone="us-east-1b", route_table_id="rtb-0abc"
    )
    return vpc, subnet


NETWORKS: dict[str, Callable[[cdk.App, cdk.Stack], tuple[ec2.IVpc, ec2.ISubnet]]] = {
    "network-in-storage": network_of_the_storage,
    "vpc-in-storage": plain_vpc_of_the_storage,
    "network-of-its-own": network_of_its_own,
    "network-that-exists": network_that_exists,
}

# Kinds of storage: what a node mounts of each.


def lustre(place: Place, **options: Any) -> LustreFileSystem:
    given = {"storage_capacity_gib": 1200, **options}
    return LustreFileSystem(place.stack, "Hot", vpc=place.vpc, subnet=place.subnet, security_group=place.group, **given)


def lustre_ssd(place: Place) -> list[Mount]:
    return [LustreMount(file_system=lustre(place))]


def lustre_efa(place: Place) -> list[Mount]:
    return [LustreMount(file_system=lustre(place, storage_capacity_gib=38_400, efa_enabled=True), efa=True)]


def lustre_linked(place: Place) -> list[Mount]:
    hot, lake = lustre(place), encrypted_lake(place)
    hot.add_link("Data", file_system_path="/datasets", bucket=lake, bucket_prefix="datasets/", import_events=["new"])
    return [LustreMount(file_system=hot), MountpointMount(bucket=lake)]


def lustre_hdd(place: Place) -> list[Mount]:
    return [
        LustreMount(
            file_system=lustre(
                place, storage_capacity_gib=6000, deployment_type="PERSISTENT_1", storage_type="HDD",
                per_unit_storage_throughput=12, drive_cache_type="READ",
            )
        )
    ]  # fmt: skip


def lustre_intelligent_tiering(place: Place) -> list[Mount]:
    hot = LustreFileSystem(
        place.stack, "Hot", vpc=place.vpc, subnet=place.subnet, security_group=place.group,
        storage_type="INTELLIGENT_TIERING", throughput_capacity_mb_per_s=4000,
    )  # fmt: skip
    return [LustreMount(file_system=hot)]


def lustre_that_exists(place: Place) -> list[Mount]:
    group = place.group or ec2.SecurityGroup.from_security_group_id(place.stack, "Theirs", "sg-0theirs")
    hot = LustreFileSystem.from_attributes(
        place.stack, "Hot", file_system_id="fs-0123456789abcdef0", mount_name="abcdefgh", security_group=group
    )
    return [LustreMount(file_system=hot)]


def s3_files(place: Place) -> list[Mount]:
    files = S3FileSystem(
        place.stack, "Files", bucket=encrypted_lake(place), vpc=place.vpc, subnet=place.subnet,
        security_group=place.group, encryption_key=kms.Key(place.stack, "FilesKey"),
    )  # fmt: skip
    return [S3FilesMount(file_system=files, read_only=False)]


def s3_files_that_exist(place: Place) -> list[Mount]:
    group = place.group or ec2.SecurityGroup.from_security_group_id(place.stack, "Theirs", "sg-0theirs")
    files = S3FileSystem.from_attributes(
        place.stack, "Files", file_system_id="fs-0123456789abcdef0", security_group=group, bucket=encrypted_lake(place)
    )
    return [S3FilesMount(file_system=files)]


def directory_bucket(place: Place) -> list[Mount]:
    hot = DirectoryBucket(
        place.stack, "Hot", availability_zone_id="use1-az6", encryption_key=kms.Key(place.stack, "HotKey")
    )
    return [MountpointMount(bucket=hot, path="/hot", read_only=False, allow_delete=True)]


def shared_cache(place: Place) -> list[Mount]:
    cache = DirectoryBucket(place.stack, "Cache", availability_zone_id="use1-az6")
    return [MountpointMount(bucket=encrypted_lake(place), cache="express", cache_bucket=cache)]


def data_lake(place: Place) -> list[Mount]:
    return [MountpointMount(bucket=encrypted_lake(place), prefix="checkpoints/", read_only=False, allow_delete=True)]


def plain_bucket_with_a_key(place: Place) -> list[Mount]:
    key = kms.Key(place.stack, "Key")
    bucket = s3.Bucket(place.stack, "Bucket", encryption_key=key, encryption=s3.BucketEncryption.KMS)
    return [MountpointMount(bucket=bucket, read_only=False)]


def encrypted_lake(place: Place) -> DataLake:
    return DataLake(place.stack, "Lake", encryption_key=kms.Key(place.stack, "LakeKey"))


KINDS: dict[str, Callable[[Place], list[Mount]]] = {
    "lustre": lustre_ssd,
    "lustre-efa": lustre_efa,
    "lustre-linked": lustre_linked,
    "lustre-hdd": lustre_hdd,
    "lustre-intelligent-tiering": lustre_intelligent_tiering,
    "lustre-that-exists": lustre_that_exists,
    "s3-files": s3_files,
    "s3-files-that-exist": s3_files_that_exist,
    "directory-bucket": directory_bucket,
    "shared-cache": shared_cache,
    "data-lake": data_lake,
    "bucket-and-key": plain_bucket_with_a_key,
}
IN_EVERY_WAY = {"lustre-efa", "lustre-linked", "s3-files"}
"""Kinds that differ in their rules and references; for the others one network and one kind of group are enough."""

GROUPS: dict[str, tuple[str, str] | None] = {
    "own-groups": None,
    "given-groups": ("sg-0storage", "sg-0nodes"),
    "one-group-for-all": ("sg-0all", "sg-0all"),
}
"""Ids of the groups of the storage and of all nodes."""

WAYS = [
    pytest.param(kind, network, groups, id=f"{kind}-{network}-{groups}")
    for kind in KINDS
    for network in NETWORKS
    for groups in GROUPS
    if kind in IN_EVERY_WAY or (network, groups) == ("network-of-its-own", "own-groups")
]


def app_in(folder: Path, references: str) -> cdk.App:
    return cdk.App(
        context={**context(), "@aws-cdk/core:defaultCrossStackReferences": references},
        outdir=str(folder),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )


def stack_of(app: cdk.App, name: str) -> cdk.Stack:
    return cdk.Stack(app, name, env=cdk.Environment(account=ACCOUNT, region=REGION))


@dataclass(frozen=True)
class Made:
    """One app: bytes of each template, and on which stacks each waits."""

    templates: dict[str, bytes]
    waits_for: dict[str, set[str]]

    def of(self, stack: str, *types: str) -> list[dict[str, Any]]:
        resources = json.loads(self.templates[stack])["Resources"]
        return [each for each in resources.values() if each["Type"] in types]


def synthesize(folder: Path, references: str, kind: str, network: str, groups: str, fleets: int) -> Made:
    app = app_in(folder / f"{fleets}", references)
    storage = stack_of(app, "Storage")
    vpc, subnet = NETWORKS[network](app, storage)

    of_storage, of_nodes = GROUPS[groups] or (None, None)

    def group(scope: cdk.Stack, group_id: str | None) -> ec2.ISecurityGroup | None:
        return ec2.SecurityGroup.from_security_group_id(scope, "Given", group_id) if group_id else None

    mounts = KINDS[kind](Place(storage, vpc, subnet, group(storage, of_storage)))
    for number in range(1, fleets + 1):
        compute = stack_of(app, f"Compute{number}")
        nodes = NodeStorage(
            compute,
            "Nodes",
            mounts=mounts,
            buckets=[
                BucketAccess(bucket=mount.bucket, prefix="logs/", write=True)
                for mount in mounts
                if isinstance(mount, MountpointMount)
            ],
        )
        GpuFleet(
            compute,
            "Fleet",
            vpc=vpc,
            subnet=subnet,
            instance_type="p5.48xlarge" if number == 1 else "g6e.48xlarge",
            instance_count=2,
            storage=nodes,
            security_group=group(compute, of_nodes),
        )
    made = app.synth()
    return Made(
        templates={each.stack_name: (Path(made.directory) / each.template_file).read_bytes() for each in made.stacks},
        waits_for={each.stack_name: {str(other.id) for other in each.dependencies} for each in made.stacks},
    )


@pytest.mark.parametrize(("kind", "network", "groups"), WAYS)
@pytest.mark.parametrize("references", REFERENCES)
def test_report_39_a_second_fleet_leaves_the_storage_as_it_is(
    references: str, kind: str, network: str, groups: str, tmp_path: Path
) -> None:
    one, two = (synthesize(tmp_path, references, kind, network, groups, fleets) for fleets in (1, 2))
    assert two.templates["Storage"] == one.templates["Storage"]
    assert two.templates["Compute1"] == one.templates["Compute1"]
    for stack in set(two.templates) - {"Compute1", "Compute2"}:
        assert b"Compute" not in two.templates[stack]
        assert not any(other.startswith("Compute") for other in two.waits_for[stack])


@pytest.mark.parametrize("references", REFERENCES)
def test_both_fleets_bring_their_own_rules(references: str, tmp_path: Path) -> None:
    made = synthesize(tmp_path, references, "lustre", "network-of-its-own", "own-groups", 2)
    assert "Compute1" not in made.waits_for["Compute2"]
    for stack in ("Compute1", "Compute2"):
        rules = made.of(stack, INGRESS, EGRESS)
        lustre_rules = [each for each in rules if str(each["Properties"]["Description"]).startswith("Lustre")]
        assert len(lustre_rules) == 8  # two port ranges, in and out, on both groups


@pytest.mark.parametrize("references", REFERENCES)
def test_a_client_group_that_two_fleets_share_gets_its_rules_once(references: str, tmp_path: Path) -> None:
    app = app_in(tmp_path, references)
    storage = stack_of(app, "Storage")
    vpc, subnet = network_that_exists(app, storage)
    hot = lustre(Place(storage, vpc, subnet, None))
    for number in (1, 2):
        compute = stack_of(app, f"Compute{number}")
        shared = ec2.SecurityGroup.from_security_group_id(compute, "Shared", "sg-0shared")
        nodes = NodeStorage(compute, "Nodes", mounts=[LustreMount(file_system=hot)])
        GpuFleet(
            compute, "Fleet", vpc=vpc, subnet=subnet, instance_type="g6e.48xlarge", instance_count=2, storage=nodes,
            security_group=shared,
        )  # fmt: skip
    templates = {each.stack_name: json.dumps(each.template) for each in app.synth().stacks}
    assert sum(text.count('"Lustre, to the servers"') for text in templates.values()) == 2
    assert "Compute" not in templates["Storage"]


@pytest.mark.parametrize("example", ["llama3-70b", "object-native-2048", "legacy-nfs-finetune"])
@pytest.mark.parametrize("references", REFERENCES)
def test_instances_that_are_not_ours_leave_the_storage_as_it_is(references: str, example: str, tmp_path: Path) -> None:
    planned = plan(load_workload(ROOT / "examples" / f"{example}.yaml"))
    written = []
    for fleets in (1, 2):
        app = app_in(tmp_path / f"{fleets}", references)
        storage = cdk.Stack(app, "Storage", env=cdk.Environment(region=planned.workload.region))
        vpc, subnet = network_that_exists(app, storage)
        whole = TrainingStorage(storage, "Whole", plan=planned, vpc=vpc, subnet=subnet, fleet=False)
        for number in range(1, fleets + 1):
            compute = cdk.Stack(app, f"Compute{number}", env=cdk.Environment(region=planned.workload.region))
            node = ec2.Instance(
                compute,
                "Node",
                vpc=vpc,
                vpc_subnets=ec2.SubnetSelection(subnets=[subnet]),
                instance_type=ec2.InstanceType("p5en.48xlarge"),
                machine_image=ec2.MachineImage.latest_amazon_linux2023(),
            )
            for rule in whole.connect(node, role=node.role, user_data=node.user_data):
                node.instance.node.add_dependency(rule)
        written.append((Path(app.synth().directory) / "Storage.template.json").read_bytes())
    assert written[0] == written[1]
    assert b"Compute" not in written[1]
