"""The example in what a team has already: deployed, grown and destroyed, and everything of theirs is as it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.assemblies import synthesize
from tests.emulated.existing import CACHE, LAKE, ROLE, prepare
from training_storage.emulator import Emulator, Stack, emulator


class Deployed:
    """The example, deployed once among the things of the team."""

    def __init__(self, aws: Emulator) -> None:
        self.aws = aws
        self.data = prepare(aws)
        self.stacks: dict[str, Stack] = aws.deploy_assembly(synthesize(self.data).folder)

    def client(self, service: str) -> Any:
        return self.aws.client(service, account=self.data["account"], region=self.data["region"])

    def ids(self, part: str) -> dict[str, str]:
        """Physical ids of a stack by logical id."""
        return dict(self.stacks[f"existing-everything-{part}"].physical_ids)

    def rules(self, group: str) -> set[tuple[bool, str, int | None, int | None, str]]:
        """Rules of a group that name another group: direction, protocol, ports and peer."""
        found = self.client("ec2").describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group]}])
        return {
            (
                rule["IsEgress"],
                rule["IpProtocol"],
                rule.get("FromPort"),
                rule.get("ToPort"),
                rule["ReferencedGroupInfo"]["GroupId"],
            )
            for rule in found["SecurityGroupRules"]
            if "ReferencedGroupInfo" in rule
        }


@pytest.fixture(scope="module")
def deployed() -> Iterator[Deployed]:
    with emulator() as aws:
        yield Deployed(aws)


def test_only_what_a_run_needs_is_made(deployed: Deployed) -> None:
    parts = ("compute", "hot", "lake", "monitoring")
    assert sorted(deployed.stacks) == [f"existing-everything-{part}" for part in parts]
    assert len(deployed.client("fsx").describe_file_systems()["FileSystems"]) == 1
    assert [b["Name"] for b in deployed.client("s3").list_directory_buckets()["Buckets"]] == [CACHE]
    # The stack around the lake of the team holds the release of runs alone, that of the run its guard beside the link,
    # and that of its monitoring the machine and the schedule that look at links.
    roles = {role["RoleName"] for role in deployed.client("iam").list_roles()["Roles"]}
    ours = {name for name in roles if not name.startswith("cdk-")} - {ROLE}
    made = [(part, key) for part in parts for key, name in deployed.ids(part).items() if name in ours]
    assert sorted(part for part, _ in made) == ["hot", "lake", "lake", "monitoring", "monitoring"]
    assert len(ours) == len(made)
    assert all(key.startswith("Release") for key in deployed.ids("lake"))
    assert all(key.startswith("LinkWatch" if part == "monitoring" else "Release") for part, key in made), made


def test_the_link_that_is_asked_for_stands_on_the_file_system_of_the_team(deployed: Deployed) -> None:
    (link,) = deployed.client("fsx").describe_data_repository_associations()["Associations"]
    assert link["FileSystemId"] == deployed.data["lustre"]["file_system_id"]
    assert (link["FileSystemPath"], link["DataRepositoryPath"]) == ("/run7", f"s3://{LAKE}/datasets/")


def test_the_given_groups_let_lustre_through_by_name(deployed: Deployed) -> None:
    nodes, servers = deployed.data["compute"]["security_group_id"], deployed.data["lustre"]["security_group_id"]
    for low, high in ((988, 988), (1018, 1023)):
        assert {(False, "tcp", low, high, servers), (True, "tcp", low, high, servers)} <= deployed.rules(nodes)
        assert {(False, "tcp", low, high, nodes), (True, "tcp", low, high, nodes)} <= deployed.rules(servers)


def test_the_given_route_table_gets_both_gateway_endpoints(deployed: Deployed) -> None:
    endpoints = deployed.client("ec2").describe_vpc_endpoints()["VpcEndpoints"]
    assert sorted(each["ServiceName"].rpartition(".")[2] for each in endpoints) == ["s3", "s3express"]
    (table,) = deployed.data["network"]["route_table_ids"]
    assert all(each["RouteTableIds"] == [table] for each in endpoints)


def test_the_given_role_may_read_the_lake_use_its_key_and_open_the_cache(deployed: Deployed) -> None:
    iam = deployed.client("iam")
    names = iam.list_role_policies(RoleName=ROLE)["PolicyNames"]
    documents = [iam.get_role_policy(RoleName=ROLE, PolicyName=name)["PolicyDocument"] for name in names]
    text = json.dumps(documents)
    for granted in ("s3:GetObject", "kms:Decrypt", "s3express:CreateSession", "cloudformation:SignalResource"):
        assert granted in text
    assert f"bucket/{CACHE}" in text
    assert deployed.data["data_lake"]["kms_key_arn"] in text


def test_a_second_deploy_changes_nothing(deployed: Deployed) -> None:
    before = {name: stack.physical_ids for name, stack in deployed.stacks.items()}
    again = deployed.aws.deploy_assembly(synthesize(deployed.data).folder)
    assert {name: stack.physical_ids for name, stack in again.items()} == before


def test_update_and_destroy_leave_everything_of_the_team() -> None:
    with emulator() as aws:
        made = Deployed(aws)
        servers = made.data["lustre"]["security_group_id"]
        s3 = made.client("s3")
        s3.put_object(Bucket=LAKE, Key="datasets/a", Body=b"theirs")
        s3.put_object(Bucket=CACHE, Key="block", Body=b"theirs")
        made.data["compute"]["instance_count"] += 1
        grown = aws.deploy_assembly(synthesize(made.data).folder)
        (group,) = made.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
        assert group["DesiredCapacity"] == made.data["compute"]["instance_count"]
        for name in reversed(list(grown)):
            aws.destroy(name, account=made.data["account"], region=made.data["region"])
        (file_system,) = made.client("fsx").describe_file_systems()["FileSystems"]
        assert file_system["FileSystemId"] == made.data["lustre"]["file_system_id"]
        assert made.client("fsx").describe_data_repository_associations()["Associations"] == []
        assert s3.get_object(Bucket=LAKE, Key="datasets/a")["Body"].read() == b"theirs"
        assert s3.get_object(Bucket=CACHE, Key="block")["Body"].read() == b"theirs"
        iam = made.client("iam")
        assert iam.list_role_policies(RoleName=ROLE)["PolicyNames"] == []
        assert made.rules(made.data["compute"]["security_group_id"]) == set()
        assert {peer for *_, peer in made.rules(servers)} == {servers}
        endpoints = made.client("ec2").describe_vpc_endpoints()["VpcEndpoints"]
        assert {each["State"] for each in endpoints} <= {"deleted"}
