"""The five reference stacks, and TrainingStorage in one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template
from ruamel.yaml import YAML

from tests.assemblies import EXAMPLES, ROOT, Assembly, example, synthesize
from training_storage.errors import ValidationError
from training_storage.operations import deployment
from training_storage.parts import link_id
from training_storage.planner import Plan, plan
from training_storage.training_storage import TrainingStorage
from training_storage.workload import Workload, load_workload

SMALL: dict[str, Any] = {
    "name": "small",
    "region": "us-east-1",
    "availability_zone_id": "use1-az6",
    "compute": {"instance_type": "p5en.48xlarge", "instance_count": 20},
    "dataset": {"size": "10 TB", "average_file_size": "100 MB", "read_rate": {"per_accelerator": "50 MB/s"}},
    "checkpoints": {"size": "100 GiB"},
}


INSTANCES = ("AWS::AutoScaling::AutoScalingGroup", "AWS::EC2::LaunchTemplate", "AWS::EC2::Instance")


def workload(**changes: Any) -> dict[str, Any]:
    return SMALL | changes


def planned(**changes: Any) -> Plan:
    return plan(Workload.model_validate(workload(**changes)))


def outputs(made: Assembly, stack: str) -> dict[str, Any]:
    return dict(made.templates[stack].get("Outputs", {}))


def depends_on(template: dict[str, Any], logical_id: str) -> set[str]:
    """Everything that a resource waits for, over DependsOn, Ref and GetAtt, near and far."""
    found: set[str] = set()
    todo = [logical_id]
    while todo:
        resource = template["Resources"][todo.pop()]
        near = resource.get("DependsOn", [])
        names = set([near] if isinstance(near, str) else near)
        text = json.dumps(resource.get("Properties", {}))
        names |= {
            key for key in template["Resources"] if f'{{"Ref": "{key}"}}' in text or f'"Fn::GetAtt": ["{key}"' in text
        }
        todo += sorted(names - found)
        found |= names
    return found


# ---- which stacks


def test_lustre_and_own_vpc_make_five_stacks_in_order_of_life() -> None:
    assert list(example("llama3-70b").templates) == [
        f"llama3-70b-{part}" for part in ("lake", "network", "hot", "compute", "monitoring")
    ]


def test_without_hot_tier_there_is_no_hot_stack() -> None:
    assert "lora-finetune-hot" not in example("lora-finetune").templates


def test_a_given_bucket_is_named_in_a_lake_stack_that_holds_no_bucket_and_the_release() -> None:
    made = synthesize(workload(data_lake={"bucket": "theirs"}))
    assert outputs(made, "small-lake")["DataLakeBucketName"]["Value"] == "theirs"
    assert made.all("AWS::S3::Bucket") == []
    assert len(made.of("small-lake", "AWS::StepFunctions::StateMachine")) == 1


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_stack_holds_nothing(name: str) -> None:
    assert [stack for stack, template in example(name).templates.items() if not template.get("Resources")] == []


def test_monitoring_off_makes_no_monitoring_stack() -> None:
    made = synthesize(workload(monitoring={"enabled": False}))
    assert "small-monitoring" not in made.templates


def test_a_given_vpc_makes_no_network_stack() -> None:
    made = synthesize(workload(network={"vpc_id": "vpc-0abc", "subnet_id": "subnet-0abc"}))
    assert "small-network" not in made.templates
    (file_system,) = made.all("AWS::FSx::FileSystem")
    assert file_system["Properties"]["SubnetIds"] == ["subnet-0abc"]
    groups = made.all("AWS::AutoScaling::AutoScalingGroup")
    assert [group["Properties"]["VPCZoneIdentifier"] for group in groups] == [["subnet-0abc"], ["subnet-0abc"]]


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_reference_runs_from_lake_or_network_to_a_run(name: str) -> None:
    for part in ("lake", "network"):
        text = json.dumps(example(name).templates.get(f"{name}-{part}", {}))
        assert "Fn::ImportValue" not in text
        assert "Fn::GetStackOutput" not in text


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_hot_stack_refers_to_nothing_above_it(name: str) -> None:
    template = example(name).templates.get(f"{name}-hot", {})
    assert f"{name}-compute" not in json.dumps(template)


def test_two_runs_of_other_names_share_no_stack() -> None:
    first, second = synthesize(workload()), synthesize(workload(name="other"))
    assert not set(first.templates) & set(second.templates)


# ---- field reports


@pytest.mark.parametrize("name", EXAMPLES)
def test_report_08_no_instance_waits_for_an_association(name: str) -> None:
    for template in example(name).templates.values():
        links = {key for key, value in template["Resources"].items() if value["Type"].endswith("RepositoryAssociation")}
        for key, value in template["Resources"].items():
            if value["Type"] in (
                "AWS::AutoScaling::AutoScalingGroup",
                "AWS::EC2::LaunchTemplate",
                "AWS::EC2::Instance",
            ):
                assert not depends_on(template, key) & links


def test_report_08_import_at_create_false_leaves_the_listing_to_a_task() -> None:
    template = example("vision-small-files").of("vision-small-files-hot", "AWS::FSx::DataRepositoryAssociation")
    by_path = {r["Properties"]["FileSystemPath"]: r["Properties"] for r in template.values()}
    assert by_path["/datasets"]["BatchImportMetaDataOnCreate"] is False
    next_step = outputs(example("vision-small-files"), "vision-small-files-hot")["NextStep"]["Value"]
    assert next_step == "training-storage preload vision-small-files --metadata"


@pytest.mark.parametrize("name", EXAMPLES)
def test_report_08_nothing_that_waits_gives_up_before_an_hour(name: str) -> None:
    for template in example(name).templates.values():
        for value in template["Resources"].values():
            properties = value.get("Properties", {})
            if value["Type"] == "Custom::ReleaseGuard":
                continue  # it waits for nothing that takes long, and is to say so soon
            assert not value["Type"].startswith("Custom::") or float(properties.get("ServiceTimeout", 3600)) >= 3600


LIFE = {
    "release_data_after": "7d",
    "warn_when_free_below": 0.2,
    "release_data_when_free_below": 0.1,
    "release_when_idle_for": "12h",
    "preload_at": "2026-12-04T06:00:00+00:00",
}


def test_report_10_dashboard_release_and_schedules_leave_the_notifications_of_the_lake_alone() -> None:
    made = synthesize(workload(lifecycle=LIFE, monitoring={"enabled": True}))
    (lake,) = [each for each in made.templates if each.endswith("-lake")]
    (bucket,) = made.of(lake, "AWS::S3::Bucket")
    own = made.of(lake, "AWS::S3::Bucket")[bucket]["Properties"]
    assert own["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    assert made.all("Custom::S3BucketNotifications") == []
    assert made.all("AWS::Scheduler::Schedule")
    assert made.all("AWS::StepFunctions::StateMachine")
    # Nor may anything change them later.
    assert "BucketNotification" not in json.dumps(made.templates)
    # The bucket is there before its links: they take its name from its stack.
    (hot,) = [each for each in made.templates if each.endswith("-hot")]
    links = made.of(hot, "AWS::FSx::DataRepositoryAssociation").values()
    assert len(links) == 2
    for link in links:
        assert f"{lake}:" in json.dumps(link["Properties"]["DataRepositoryPath"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_report_15_storage_and_fleet_share_the_one_subnet(name: str) -> None:
    made = example(name)
    subnets = [s["Properties"]["SubnetIds"] for s in made.all("AWS::FSx::FileSystem")]
    subnets += [[m["Properties"]["SubnetId"]] for m in made.all("AWS::S3Files::MountTarget")]
    subnets += [g["Properties"]["VPCZoneIdentifier"] for g in made.all("AWS::AutoScaling::AutoScalingGroup")]
    assert all(len(subnet) == 1 for subnet in subnets)
    assert len({json.dumps(subnet) for subnet in subnets}) == 1


@pytest.mark.parametrize("name", EXAMPLES)
def test_report_37_outputs_name_everything_that_a_guide_needs(name: str) -> None:
    made, a_plan = example(name), plan(load_workload(ROOT / "examples" / f"{name}.yaml"))
    named = [stack for stack in made.templates if "DataLakeBucketName" in outputs(made, stack)]
    assert named == [f"{name}-lake"]
    assert "ReleaseStateMachineArn" in outputs(made, f"{name}-lake")
    assert "DashboardName" in outputs(made, f"{name}-monitoring")
    if a_plan.lustre is not None:
        hot = outputs(made, f"{name}-hot")
        assert {"FileSystemId", "FileSystemMountName", "FileSystemDnsName"} <= set(hot)
        ids = [key for key in hot if key.startswith("Association")]
        assert len(ids) == len(a_plan.lustre.links)
    if a_plan.express is not None:
        assert "DirectoryBucketNames" in outputs(made, f"{name}-hot")
    if a_plan.s3_files is not None:
        assert "S3FileSystemId" in outputs(made, f"{name}-hot")


def test_operations_read_an_output_that_the_hot_stack_has() -> None:
    assert deployment.FILE_SYSTEM_ID in outputs(example("llama3-70b"), "llama3-70b-hot")


def test_report_38_the_same_workload_gives_the_same_bytes_in_two_folders(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two" / "deeper"]
    for folder in folders:
        synthesize(ROOT / "examples" / "llama3-70b.yaml", folder=str(folder))
    names = sorted(path.name for path in folders[0].glob("*.template.json"))
    assert len(names) == 5
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


@pytest.mark.parametrize("references", ["strong", "weak"])
def test_report_39_storage_and_fleet_in_two_stacks_make_no_cycle(references: str) -> None:
    made = synthesize(workload(), flags={"@aws-cdk/core:defaultCrossStackReferences": references})
    groups = ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress")
    with_clients = [r for kind in groups for r in made.of("small-compute", kind).values()]
    assert with_clients
    assert "small-compute" not in json.dumps(made.templates["small-hot"])


# ---- size and shape


def test_template_size_does_not_grow_with_the_fleet() -> None:
    fixed = {"storage_capacity": "48000 GiB", "per_unit_storage_throughput": 500, "efa": True}
    sizes = []
    for count in (20, 120):
        compute = {"instance_type": "p5en.48xlarge", "instance_count": count}
        made = synthesize(workload(compute=compute, lustre=fixed))
        sizes.append(sum(len(json.dumps(template)) for template in made.templates.values()))
    assert abs(sizes[1] - sizes[0]) / sizes[0] < 0.01


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/datasets", "LinkDatasets"),
        ("/checkpoints", "LinkCheckpoints"),
        ("/", "LinkRoot"),
        ("/datasets/", "LinkDatasets"),
    ],
)
def test_link_ids_come_from_their_paths(path: str, wanted: str) -> None:
    assert link_id(path) == wanted


def test_link_ids_never_collide() -> None:
    paths = ["/a/b", "/a-b", "/A/b", "/ab", "/aB", "/a/b/c", "/a-b-c", "/A", "/a"]
    assert len({link_id(path) for path in paths}) == len(paths)


def test_link_ids_of_paths_that_read_alike_do_not_collide() -> None:
    made = synthesize(
        workload(
            lustre={
                "links": [
                    {"path": "/a-b", "source": "s3://other-bucket/one/"},
                    {"path": "/a/b", "source": "s3://other-bucket/two/"},
                ]
            }
        )
    )
    assert len(made.of("small-hot", "AWS::FSx::DataRepositoryAssociation")) == 2


# ---- storage classes of Lustre


@pytest.mark.parametrize(
    ("given", "cache"),
    [({}, "NONE"), ({"drive_cache": "none"}, "NONE"), ({"drive_cache": "read"}, "READ")],
)
@pytest.mark.parametrize("tier", [12, 40])
def test_hdd_is_made_as_it_is_planned(tier: int, given: dict[str, Any], cache: str) -> None:
    lustre = {"storage_type": "HDD", "per_unit_storage_throughput": tier, **given}
    planned_ = planned(lustre=lustre).lustre
    assert planned_ is not None
    made = synthesize(workload(lustre=lustre))
    (file_system,) = made.of("small-hot", "AWS::FSx::FileSystem").values()
    configuration = file_system["Properties"]["LustreConfiguration"]
    assert file_system["Properties"]["StorageType"] == "HDD"
    assert file_system["Properties"]["StorageCapacity"] == planned_.storage_capacity_gib
    assert (configuration["PerUnitStorageThroughput"], configuration["DriveCacheType"]) == (tier, cache)
    assert len(made.of("small-hot", "AWS::FSx::DataRepositoryAssociation")) == 2


@pytest.mark.parametrize(
    ("given", "cache"),
    [
        ({}, {"SizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"}),
        ({"read_cache": "proportional"}, {"SizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"}),
        ({"read_cache": "none"}, {"SizingMode": "NO_CACHE"}),
        ({"read_cache": "640 GiB"}, {"SizingMode": "USER_PROVISIONED", "SizeGiB": 640}),
    ],
)
def test_intelligent_tiering_is_made_as_it_is_planned_and_without_links(
    given: dict[str, Any], cache: dict[str, Any]
) -> None:
    lustre = {"storage_type": "INTELLIGENT_TIERING", "links": [], **given}
    planned_ = planned(lustre=lustre).lustre
    assert planned_ is not None
    made = synthesize(workload(lustre=lustre))
    (file_system,) = made.of("small-hot", "AWS::FSx::FileSystem").values()
    configuration = file_system["Properties"]["LustreConfiguration"]
    assert "StorageCapacity" not in file_system["Properties"]
    assert configuration["ThroughputCapacity"] == planned_.throughput_capacity_mb_per_s
    assert configuration["DataReadCacheConfiguration"] == cache
    assert configuration["MetadataConfiguration"] == {"Mode": "USER_PROVISIONED", "Iops": planned_.metadata_iops}
    assert file_system["DeletionPolicy"] == "Delete"
    assert len(made.of("small-hot", "Custom::ReleaseGuard")) == 1
    assert made.all("AWS::FSx::DataRepositoryAssociation") == []


# ---- directory buckets, shared cache, S3 Files


OBJECT_CODE: dict[str, Any] = {
    "hot_tier": "express",
    "dataset": SMALL["dataset"] | {"interface": "object", "version": "v3"},
}
DIRECTORY_BUCKET = "AWS::S3Express::DirectoryBucket"


def test_the_hot_tier_in_s3_express_is_one_bucket_for_each_that_the_plan_counts() -> None:
    tiny = OBJECT_CODE["dataset"] | {"average_file_size": "20 KB"}
    many = workload(**OBJECT_CODE) | {"dataset": tiny}
    count = plan(Workload.model_validate(many)).express
    assert count is not None
    assert count.bucket_count > 1
    made = synthesize(many)
    buckets = made.of("small-hot", DIRECTORY_BUCKET)
    assert len(buckets) == count.bucket_count
    names = outputs(made, "small-hot")["DirectoryBucketNames"]["Value"]
    assert json.dumps(names).count('"Ref"') == count.bucket_count


def test_names_of_directory_buckets_have_the_zone_and_never_meet_those_of_an_earlier_run() -> None:
    (bucket,) = synthesize(workload(**OBJECT_CODE)).of("small-hot", DIRECTORY_BUCKET).values()
    name = bucket["Properties"]["BucketName"]
    assert name["Fn::Join"][1][0] == "small-"
    assert name["Fn::Join"][1][-1].endswith("--use1-az6--x-s3")
    assert "AWS::StackId" in json.dumps(name)


def test_a_base_name_is_taken_as_it_is_given() -> None:
    given = synthesize(workload(**OBJECT_CODE, express={"base_name": "ckpt"}))
    (bucket,) = given.of("small-hot", DIRECTORY_BUCKET).values()
    assert bucket["Properties"]["BucketName"] == "ckpt--use1-az6--x-s3"


@pytest.mark.parametrize("name", ["a" * 40, "xn--run", "sthree-run", "amzn-s3-demo-run", "a" * 30 + "-" * 10])
def test_every_name_of_a_workload_makes_a_legal_bucket_name(name: str) -> None:
    made = synthesize(workload(**OBJECT_CODE) | {"name": name})
    (bucket,) = made.of(f"{name}-hot", DIRECTORY_BUCKET).values()
    parts = bucket["Properties"]["BucketName"]["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else "0a1b2c3d" for part in parts)
    assert len(text) <= 63
    assert not text.startswith(("xn--", "sthree-", "amzn-s3-demo-"))


def test_the_hot_tier_in_s3_express_is_kept_unless_the_file_says_otherwise() -> None:
    (kept,) = synthesize(workload(**OBJECT_CODE)).of("small-hot", DIRECTORY_BUCKET).values()
    assert (kept["DeletionPolicy"], kept["UpdateReplacePolicy"]) == ("Retain", "Retain")
    gone = synthesize(workload(**OBJECT_CODE, express={"removal": "delete"}))
    (bucket,) = gone.of("small-hot", DIRECTORY_BUCKET).values()
    assert (bucket["DeletionPolicy"], bucket["UpdateReplacePolicy"]) == ("Delete", "Retain")
    assert gone.all("Custom::EmptyDirectoryBucket") == []


def test_only_a_cache_is_emptied_before_it_goes() -> None:
    made = synthesize(workload(**OBJECT_CODE, express={"removal": "delete", "content_is_cache": True}))
    assert len(made.all("Custom::EmptyDirectoryBucket")) == 1
    shared = synthesize(workload(mountpoint={"cache": "express"}))
    assert len(shared.all("Custom::EmptyDirectoryBucket")) == 1
    (bucket,) = shared.all(DIRECTORY_BUCKET)
    assert bucket["DeletionPolicy"] == "Delete"


def test_a_shared_cache_expires_because_nothing_else_cleans_it() -> None:
    (bucket,) = synthesize(workload(mountpoint={"cache": "express"})).all(DIRECTORY_BUCKET)
    rules = bucket["Properties"]["LifecycleConfiguration"]["Rules"]
    assert 7 in [rule.get("ExpirationInDays") for rule in rules]


@pytest.mark.parametrize("changes", [OBJECT_CODE, {"mountpoint": {"cache": "express"}}])
def test_report_36_directory_buckets_have_a_gateway_endpoint_of_their_own(changes: dict[str, Any]) -> None:
    theirs = {"vpc_id": "vpc-0abc", "subnet_id": "subnet-0abc", "route_table_ids": ["rtb-0abc"]}
    for network in ({}, theirs):
        made = synthesize(workload(**changes, network=network))
        services = [json.dumps(each["Properties"]["ServiceName"]) for each in made.all("AWS::EC2::VPCEndpoint")]
        assert sum(".s3express" in service for service in services) == 1


def test_report_36_s3_files_and_lustre_need_no_endpoint_besides_that_of_s3() -> None:
    made = synthesize(workload(file_access="s3-files", hot_tier="none", compute=FEW))
    services = [json.dumps(each["Properties"]["ServiceName"]) for each in made.all("AWS::EC2::VPCEndpoint")]
    assert len(services) == 1
    assert ".s3express" not in services[0]


FEW = {"instance_type": "p5en.48xlarge", "instance_count": 2}


def test_s3_files_stands_over_the_lake_and_is_named() -> None:
    made = synthesize(workload(file_access="s3-files", hot_tier="none", compute=FEW))
    (file_system,) = made.of("small-hot", "AWS::S3Files::FileSystem").values()
    assert file_system["DeletionPolicy"] == "Retain"
    (expiry,) = file_system["Properties"]["SynchronizationConfiguration"]["ExpirationDataRules"]
    assert expiry["DaysAfterLastAccess"] == 7
    assert "S3FileSystemId" in outputs(made, "small-hot")
    assert len(made.of("small-hot", "AWS::S3Files::MountTarget")) == 1


def test_report_35_s3_files_needs_versions_and_the_plan_says_so() -> None:
    with pytest.raises(ValidationError, match="version"):
        planned(file_access="s3-files", hot_tier="none", compute=FEW, data_lake={"versioned": False})


def test_report_34_without_s3_files_there_is_nothing_of_it() -> None:
    for name in ("llama3-70b", "lora-finetune", "object-native-2048", "express-cache"):
        text = json.dumps(example(name).templates)
        assert "s3files" not in text.lower()
        assert "2049" not in text


# ---- what is there already


def test_what_is_there_already_is_not_made_and_has_no_stack_of_its_own() -> None:
    existing = {
        "file_system_id": "fs-0123456789abcdef0",
        "mount_name": "abcdefgh",
        "security_group_id": "sg-0123456789abcdef0",
        "storage_capacity": "38400 GiB",
        "per_unit_storage_throughput": 250,
        "efa": False,
    }
    made = synthesize(workload(lustre=existing, hot_tier="lustre"))
    assert "small-hot" not in made.templates
    assert made.all("AWS::FSx::FileSystem") == []
    assert "fs-0123456789abcdef0" in json.dumps(made.templates["small-compute"])
    linked = synthesize(
        workload(hot_tier="lustre", lustre=existing | {"links": [{"path": "/x", "source": "s3://theirs/x/"}]})
    )
    (link,) = linked.of("small-hot", "AWS::FSx::DataRepositoryAssociation").values()
    assert link["Properties"]["FileSystemId"] == "fs-0123456789abcdef0"


def test_existing_directory_buckets_are_used_as_they_are() -> None:
    names = ["a--use1-az6--x-s3", "b--use1-az6--x-s3"]
    made = synthesize(workload(**OBJECT_CODE, express={"bucket_names": names}))
    assert made.all(DIRECTORY_BUCKET) == []
    assert "small-hot" not in made.templates
    text = json.dumps(made.templates["small-compute"])
    assert all(f"bucket/{name}" in text for name in names)
    assert "TRAINING_STORAGE_HOT_URIS=s3://a--use1-az6--x-s3/,s3://b--use1-az6--x-s3/" in text


def test_existing_s3_files_is_mounted_and_not_made() -> None:
    given = {"file_system_id": "fs-0123456789abcdef01234", "security_group_id": "sg-0123456789abcdef0"}
    made = synthesize(workload(file_access="s3-files", hot_tier="none", compute=FEW, s3_files=given))
    assert made.all("AWS::S3Files::FileSystem") == []
    text = json.dumps(made.templates["small-compute"])
    assert "fs-0123456789abcdef01234" in text
    assert "s3files:ClientMount" in text


def test_a_given_role_and_group_are_taken_and_given_what_nodes_need() -> None:
    compute = SMALL["compute"] | {
        "role_arn": "arn:aws:iam::111111111111:role/team/training-nodes",
        "security_group_id": "sg-0aaaabbbbccccdddd",
    }
    made = synthesize(workload(compute=compute, account="111111111111"))
    assert "ec2.amazonaws.com" not in json.dumps(made.of("small-compute", "AWS::IAM::Role"))
    assert ["training-nodes"] in [each["Properties"].get("Roles") for each in made.all("AWS::IAM::Policy")]
    assert ["training-nodes"] in [each["Properties"]["Roles"] for each in made.all("AWS::IAM::InstanceProfile")]
    assert "sg-0aaaabbbbccccdddd" in json.dumps(made.all("AWS::EC2::LaunchTemplate"))


# ---- TrainingStorage


def one_stack(app: cdk.App, a_plan: Plan, *, region: str = "us-east-1", fleet: bool = True) -> Template:
    stack = cdk.Stack(app, "Mine", env=cdk.Environment(account="111111111111", region=region))
    vpc = ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1a"])
    subnet = ec2.Subnet.from_subnet_id(stack, "Subnet", "subnet-0abc")
    TrainingStorage(stack, "Storage", plan=a_plan, vpc=vpc, subnet=subnet, fleet=fleet)
    return Template.from_stack(stack)


def test_one_construct_makes_lake_file_system_fleet_and_dashboard(app: cdk.App) -> None:
    template = one_stack(app, planned())
    for kind in (
        "AWS::S3::Bucket",
        "AWS::FSx::FileSystem",
        "AWS::AutoScaling::AutoScalingGroup",
        "AWS::CloudWatch::Dashboard",
    ):
        template.resource_count_is(kind, 1)
    template.resource_count_is("AWS::EC2::VPC", 0)


def test_the_fleet_can_be_left_out(app: cdk.App) -> None:
    template = one_stack(app, planned(), fleet=False)
    template.resource_count_is("AWS::AutoScaling::AutoScalingGroup", 0)
    template.resource_count_is("AWS::FSx::FileSystem", 1)


def test_a_stack_of_another_region_is_refused_before_anything_is_made(app: cdk.App) -> None:
    with pytest.raises(ValidationError, match="another region"):
        one_stack(app, planned(), region="eu-west-1")


def test_a_foreign_source_bucket_is_linked_and_readable(app: cdk.App) -> None:
    template = one_stack(app, planned(dataset=SMALL["dataset"] | {"source": "s3://their-bucket/images/"}))
    links = template.find_resources("AWS::FSx::DataRepositoryAssociation")
    sources = [link["Properties"]["DataRepositoryPath"] for link in links.values()]
    assert "s3://their-bucket/images/" in sources


@pytest.mark.parametrize("name", EXAMPLES)
def test_monitoring_off_replaces_nothing_in_stacks_that_stay(name: str) -> None:
    # the monitoring stack is still there at that deploy: an export that it imports cannot be taken away
    data = YAML(typ="safe").load((ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
    without = synthesize({**data, "monitoring": {"enabled": False}}).templates
    assert set(example(name).templates) - set(without) == {f"{name}-monitoring"}
    for stack, template in without.items():
        whole = example(name).templates[stack]
        assert template.get("Outputs") == whole.get("Outputs")
        assert template["Resources"].keys() <= whole["Resources"].keys()
        changed = {
            resource["Type"]
            for key, resource in whole["Resources"].items()
            if template["Resources"].get(key) != resource
        }
        # Metrics of nodes and requests: none of these is replaced by it, and nodes that run keep their user data.
        assert changed <= {
            "AWS::EC2::LaunchTemplate",
            "AWS::IAM::Policy",
            "AWS::Logs::LogGroup",
            "AWS::S3::Bucket",
            "AWS::S3Express::DirectoryBucket",
        }
