"""Mount targets of S3 Files: where a file system has its address in a VPC.

A mount target holds a network interface that belongs to the service: its subnet and its security groups cannot be
deleted before it.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend

from training_storage.emulator._moto import Patches
from training_storage.emulator.services.s3_files_checks import S3FilesError, conflict, invalid, not_found

if TYPE_CHECKING:
    from training_storage.emulator.services.s3_files import S3FilesBackend

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-files-quotas.html
MAX_SECURITY_GROUPS = 5
_REQUESTER = "amazon-s3files"

Shown = dict[str, Any]


class Network:
    """Creates, changes and deletes the mount targets of a backend."""

    def __init__(self, backend: S3FilesBackend) -> None:
        self._backend = backend

    @property
    def _ec2(self) -> Any:
        from moto.ec2.models import ec2_backends

        return ec2_backends[self._backend.account_id][self._backend.region_name]

    def create(self, given: Shown) -> Shown:
        """Create a mount target, with its network interface."""
        file_system = self._backend.get_file_system(given["fileSystemId"])
        if file_system["status"] not in ("available", "misconfigured"):
            raise conflict(
                "IncorrectFileSystemLifeCycleState",
                f"File system {file_system['fileSystemId']} is {file_system['status']}, not available",
            )
        subnet = self._subnet(given["subnetId"])
        vpc = self._ec2.get_vpc(subnet.vpc_id)
        self._check_place(file_system["fileSystemId"], subnet)
        groups = self._groups(given.get("securityGroups"), subnet.vpc_id)
        kind = given.get("ipAddressType") or "IPV4_ONLY"
        if kind != "IPV4_ONLY" and not subnet.ipv6_cidr_block_associations:
            raise invalid(f"Subnet {subnet.id} has no IPv6 addresses for the IP address type {kind}")
        interface = self._ec2.create_network_interface(
            subnet,
            self._address(given.get("ipv4Address"), subnet),
            group_ids=groups,
            description=f"S3 Files mount target for {file_system['fileSystemId']}",
            ipv6_address_count=0 if kind == "IPV4_ONLY" else 1,
        )
        interface.requester_managed, interface.requester_id, interface.status = True, _REQUESTER, "in-use"
        key = f"fsmt-0{uuid.uuid4().hex[:16]}"
        made = {
            "availabilityZoneId": subnet.availability_zone_id,
            "fileSystemId": file_system["fileSystemId"],
            "mountTargetId": key,
            "networkInterfaceId": interface.id,
            "ownerId": self._backend.account_id,
            "securityGroups": groups,
            "status": "available",
            "subnetId": subnet.id,
            "vpcId": vpc.id,
        }
        if kind != "IPV6_ONLY":
            made["ipv4Address"] = interface.private_ip_address
        if interface.ipv6_addresses:
            made["ipv6Address"] = interface.ipv6_addresses[0]
        self._backend.mount_targets[key] = made
        return made

    def _subnet(self, subnet_id: str) -> Any:
        subnets = (subnet for zone in self._ec2.subnets.values() for subnet in zone.values())
        found = next((subnet for subnet in subnets if subnet.id == subnet_id), None)
        if found is None:
            raise not_found("SubnetNotFound", f"The subnet ID '{subnet_id}' does not exist")
        return found

    def _check_place(self, file_system_id: str, subnet: Any) -> None:
        for other in self._backend.mount_targets.values():
            if other["fileSystemId"] != file_system_id:
                continue
            if other["vpcId"] != subnet.vpc_id:
                raise conflict(
                    "MountTargetConflict",
                    f"File system {file_system_id} has mount targets in {other['vpcId']}; all are in one VPC",
                )
            if other["availabilityZoneId"] == subnet.availability_zone_id:
                raise conflict(
                    "MountTargetConflict",
                    f"File system {file_system_id} has a mount target in {subnet.availability_zone_id} already: "
                    f"{other['mountTargetId']}",
                )

    def _groups(self, given: list[str] | None, vpc_id: str) -> list[str]:
        if not given:
            return [self._ec2.get_default_security_group(vpc_id).id]
        if len(given) > MAX_SECURITY_GROUPS:
            raise S3FilesError(
                "ServiceQuotaExceededException",
                "SecurityGroupLimitExceeded",
                f"A mount target has at most {MAX_SECURITY_GROUPS} security groups, got {len(given)}",
            )
        for group_id in given:
            group = self._ec2.get_security_group_from_id(group_id)
            if group is None or group.vpc_id != vpc_id:
                raise not_found(
                    "SecurityGroupNotFound", f"The security group '{group_id}' does not exist in VPC '{vpc_id}'"
                )
        return list(given)

    def _address(self, given: str | None, subnet: Any) -> str:
        network = ipaddress.ip_network(subnet.cidr_block)
        taken = {eni.private_ip_address for eni in self._ec2.enis.values()}
        # the first four addresses of a subnet and the last belong to AWS
        free = [str(address) for address in _some(network) if str(address) not in taken]
        if given is None:
            if not free:
                raise conflict("NoFreeAddressesInSubnet", f"Subnet {subnet.id} has no free addresses")
            return free[0]
        if ipaddress.ip_address(given) not in network:
            raise invalid(f"The address {given} is not in subnet {subnet.id} ({subnet.cidr_block})")
        if given in taken:
            raise conflict("IpAddressInUse", f"The address {given} is in use")
        return given

    def find(self, mount_target_id: str) -> Shown:
        """Return a mount target by id."""
        found = self._backend.mount_targets.get(mount_target_id)
        if found is None:
            raise not_found("MountTargetNotFound", f"Mount target '{mount_target_id}' does not exist.")
        return found

    def update(self, mount_target_id: str, security_groups: list[str]) -> Shown:
        """Give a mount target other security groups."""
        found = self.find(mount_target_id)
        found["securityGroups"] = self._groups(security_groups, found["vpcId"])
        self._ec2.modify_network_interface_attribute(found["networkInterfaceId"], found["securityGroups"])
        return found

    def delete(self, mount_target_id: str) -> None:
        """Delete a mount target with its network interface."""
        found = self.find(mount_target_id)
        self._ec2.enis.pop(found["networkInterfaceId"], None)
        del self._backend.mount_targets[mount_target_id]


def _some(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> list[Any]:
    last = int(network.broadcast_address) - 1
    return [ipaddress.ip_address(number) for number in range(int(network.network_address) + 4, last + 1)[:4096]]


def _of_the_service(backend: Any) -> list[Any]:
    return [eni for eni in backend.enis.values() if eni.requester_id == _REQUESTER]


def install(patches: Patches) -> None:
    """Let EC2 keep what mount targets use."""

    def keeping(original: Callable[..., Any], uses: Callable[[Any, str], bool], kind: str) -> Callable[..., Any]:
        def delete(self: Any, *rest: Any, **given: Any) -> Any:
            wanted = str(given.get("group_id") or given.get("subnet_id") or (rest[-1] if rest else ""))
            users = [eni.id for eni in _of_the_service(self) if uses(eni, wanted)]
            if users:
                raise EC2ClientError(
                    "DependencyViolation",
                    f"The {kind} '{wanted}' has dependencies and cannot be deleted: {', '.join(users)}",
                )
            return original(self, *rest, **given)

        return delete

    patches.set(
        EC2Backend,
        "delete_security_group",
        keeping(
            EC2Backend.delete_security_group, lambda eni, key: key in [group.id for group in eni.group_set], "resource"
        ),
    )
    patches.set(
        EC2Backend,
        "delete_subnet",
        keeping(EC2Backend.delete_subnet, lambda eni, key: key == eni.subnet.id, "subnet"),
    )
    delete_interface = EC2Backend.delete_network_interface

    def delete_network_interface(self: Any, eni_id: str) -> None:
        if eni_id in [eni.id for eni in _of_the_service(self)]:
            raise EC2ClientError("InvalidParameterValue", f"Network interface '{eni_id}' is currently in use.")
        delete_interface(self, eni_id)

    patches.set(EC2Backend, "delete_network_interface", delete_network_interface)
