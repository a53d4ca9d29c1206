"""What is looked at before a fleet is made and is no rule of a service: subnets, zones, user data."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_ec2 as ec2

from training_storage._tokens import is_concrete
from training_storage.compute.mount_model import LustreMount
from training_storage.compute.mounts import NodeStorage
from training_storage.errors import Problem


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
        zone = subnet.availability_zone  # type: ignore[attr-defined]
    except RuntimeError:  # an imported subnet whose zone was not given
        return None
    return zone if isinstance(zone, str) and is_concrete(zone) else None
