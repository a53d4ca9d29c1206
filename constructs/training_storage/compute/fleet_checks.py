"""What is looked at before a fleet is made and is no rule of a service: subnets, zones, user data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from training_storage._arguments import (
    CATALOG,
    DURATION,
    FLAG,
    LISTED_TEXTS,
    MOMENT,
    ROLE,
    SECURITY_GROUP,
    SUBNET_OR_SEVERAL,
    TEXT,
    USER_DATA,
    VPC,
    WHOLE,
    Kind,
    has,
    optional,
)
from training_storage._tokens import concrete, is_concrete
from training_storage.catalog.model import InstanceType
from training_storage.compute.mount_model import LustreMount
from training_storage.compute.mounts import NodeStorage
from training_storage.errors import Problem

FLEET_KINDS: Final[Mapping[str, Kind]] = {
    "vpc": VPC,
    "subnet": SUBNET_OR_SEVERAL,
    "instance_type": replace(TEXT, allowed="the EC2 name of a type, such as p5en.48xlarge"),
    "instance_count": WHOLE,
    "max_instance_count": optional(WHOLE),
    "purchase": TEXT,
    "capacity_reservation_id": optional(TEXT),
    "capacity_reservation_resource_group_arn": optional(TEXT),
    "start": optional(MOMENT),
    "end": optional(MOMENT),
    "placement_group": Kind(
        allowed="auto, cluster, none, or a placement group that exists",
        fits=lambda value: has(value, "placement_group_name") or (isinstance(value, str) and value != ""),
    ),
    "efa": optional(FLAG),
    "type_facts": optional(
        Kind(
            allowed="facts about the type",
            fits=lambda value: isinstance(value, InstanceType),
            fix="training_storage.catalog.efa.instance_type_from_facts",
        )
    ),
    "image": replace(TEXT, allowed="auto, ami-..., or ssm:/parameter/name"),
    "security_group": optional(SECURITY_GROUP),
    "role": optional(ROLE),
    "storage": optional(
        Kind(
            allowed="a NodeStorage",
            fits=lambda value: isinstance(value, NodeStorage),
            fix="NodeStorage(..., mounts=[...])",
        )
    ),
    "user_commands": replace(LISTED_TEXTS, allowed="a list of shell lines", fix="put each line in a list"),
    "user_data": optional(USER_DATA),
    "root_volume_gib": WHOLE,
    "root_device_name": optional(TEXT),
    "signal": optional(FLAG),
    "signal_timeout": optional(DURATION),
    "catalog": optional(CATALOG),
}
"""Kind of each argument of ``GpuFleet``."""


def role_problems(stack: cdk.Stack, role: iam.IRole | None) -> list[Problem]:
    """Return whether a role is that of another account: an instance profile takes none."""
    there = concrete(role.env.account) if role is not None else None
    here = concrete(stack.account)
    if there is None or here is None or there == here:
        return []
    return [
        Problem(
            what=f"the role is one of account {there}, and an instance profile of account {here} takes none of another",
            path="role",
            allowed=f"a role of account {here}",
            fix="let a role of this account assume the other one",
        )
    ]


def seconds_of(duration: cdk.Duration | None) -> float | None:
    """Return a duration in seconds; None where it is a token or not given."""
    return None if duration is None or duration.is_unresolved() else float(duration.to_seconds(integral=False))


def public_name(vpc: ec2.IVpc, subnet: ec2.ISubnet) -> str | None:
    """Return the name of the subnet where it is one of the public subnets of the VPC, as far as CDK knows."""
    if isinstance(subnet, list | tuple):
        return None
    public = isinstance(subnet, ec2.PublicSubnet) or any(
        subnet.subnet_id == other.subnet_id for other in vpc.public_subnets
    )
    if not public:
        return None
    return subnet.subnet_id if is_concrete(subnet.subnet_id) else subnet.node.path


def shape_problems(
    subnet: ec2.ISubnet,
    storage: NodeStorage | None,
    user_commands: Sequence[str],
    user_data: ec2.UserData | None,
) -> list[Problem]:
    """Return what the service rules don't cover: one subnet, one zone, one source of user data."""
    problems: list[Problem] = []
    if isinstance(subnet, list | tuple):
        problems.append(
            Problem(
                what="more than one subnet",
                path="subnet",
                value=f"{len(subnet)} subnets",
                allowed="one: Lustre, EFA and placement groups each live in one zone",
                fix="give the subnet that the file system stands in",
            )
        )
    if user_data is not None and (storage is not None or user_commands):
        problems.append(
            Problem(
                what="user_data together with storage or user_commands",
                path="user_data",
                allowed="user_data alone, or storage and user_commands",
                fix="append the bootstrap to your user data with NodeStorage.add_to, and its rights with attach",
            )
        )
    zone = _zone(subnet)
    for mount in storage.mounts if storage is not None else ():
        other = _zone(getattr(mount.file_system, "subnet", None)) if isinstance(mount, LustreMount) else None
        if zone is not None and other is not None and zone != other:
            problems.append(
                Problem(
                    what=f"the fleet stands in {zone} and the file system in {other}",
                    path="subnet",
                    value=zone,
                    allowed=f"a subnet in {other}",
                    fix="take one zone for both: EFA does not cross zones, and other traffic is charged both ways",
                )
            )
    return problems


def _zone(subnet: object) -> str | None:
    """Return the zone name of a subnet where CDK knows it."""
    if subnet is None or isinstance(subnet, list | tuple):
        return None
    try:
        # Its kind is checked with the other arguments; what is no subnet has been refused by then.
        zone = subnet.availability_zone  # type: ignore[attr-defined]  # as above
    except RuntimeError:  # an imported subnet whose zone was not given
        return None
    return zone if isinstance(zone, str) and is_concrete(zone) else None
