"""What FSx looks at in its surroundings before it creates a Lustre file system: subnet, security groups, log group.

These are the refusals that a template's order and references decide. Sizes and tiers are not judged here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.fsx.models import FSxBackend

# The port of Lustre's network layer: https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html
_LNET_PORT = 988


class FsxError(JsonRESTError):
    """An error of the FSx API."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)


def check(backend: FSxBackend, file_system: Any) -> None:
    """Refuse a file system whose surroundings are not ready.

    Raises:
        FsxError: As the service would say.
    """
    lustre = file_system.lustre_configuration or {}
    if len(file_system.subnet_ids or ()) != 1:
        raise FsxError("InvalidNetworkSettings", "Amazon FSx for Lustre file systems need exactly one subnet ID")
    subnet = find_subnet(backend, file_system.subnet_ids[0])
    if subnet is None:
        raise FsxError("InvalidNetworkSettings", f"The subnet ID '{file_system.subnet_ids[0]}' does not exist")
    groups = [_group(backend, group_id, subnet.vpc_id) for group_id in file_system.security_group_ids or ()]
    if groups:
        _check_lnet(groups)
        if lustre.get("EfaEnabled"):
            _check_efa(groups)
    if lustre.get("EfaEnabled") and lustre.get("DeploymentType") != "PERSISTENT_2":
        raise FsxError("BadRequest", "EfaEnabled is only supported with DeploymentType PERSISTENT_2")
    if file_system.version == "2.10" and lustre.get("DeploymentType") == "PERSISTENT_2":
        raise FsxError("BadRequest", "Lustre version 2.10 is not supported with DeploymentType PERSISTENT_2")
    _check_logs(backend, lustre.get("LogConfiguration") or {})


def find_subnet(backend: FSxBackend, subnet_id: str) -> Any:
    """Return the emulated subnet, or None."""
    subnets = (subnet for zone in _ec2(backend).subnets.values() for subnet in zone.values())
    return next((subnet for subnet in subnets if subnet.id == subnet_id), None)


def _ec2(backend: FSxBackend) -> Any:
    from moto.ec2.models import ec2_backends

    return ec2_backends[backend.account_id][backend.region_name]


def _group(backend: FSxBackend, group_id: str, vpc_id: str) -> Any:
    found = _ec2(backend).get_security_group_from_id(group_id)
    if found is None or found.vpc_id != vpc_id:
        raise FsxError("InvalidNetworkSettings", f"The security group '{group_id}' does not exist in VPC '{vpc_id}'")
    return found


def _permits_lnet(rules: Any) -> bool:
    for rule in rules:
        if str(rule.ip_protocol) == "-1":
            return True
        ports = rule.from_port, rule.to_port
        if rule.ip_protocol in ("tcp", "6") and None not in ports and int(ports[0]) <= _LNET_PORT <= int(ports[1]):
            return True
    return False


def _check_lnet(groups: list[Any]) -> None:
    if not any(_permits_lnet(group.ingress_rules) for group in groups) or not any(
        _permits_lnet(group.egress_rules) for group in groups
    ):
        raise FsxError(
            "InvalidNetworkSettings",
            "The file system cannot be created because the provided security groups do not permit Lustre LNET network "
            f"traffic on port {_LNET_PORT}",
        )


def _all_traffic_to(rules: Any, group_id: str) -> bool:
    return any(str(rule.ip_protocol) == "-1" and group_id in _peers(rule) for rule in rules)


def _peers(rule: Any) -> Iterator[str]:
    for source in [rule.source_group] if isinstance(rule.source_group, dict) else rule.source_group or ():
        if source.get("GroupId"):
            yield source["GroupId"]


def _check_efa(groups: list[Any]) -> None:
    for group in groups:
        if _all_traffic_to(group.ingress_rules, group.id) and _all_traffic_to(group.egress_rules, group.id):
            return
    raise FsxError(
        "InvalidNetworkSettings",
        "Insufficient security group permissions to create an EFA-enabled file system: a security group must allow all "
        "traffic to and from itself, by its ID",
    )


def _check_logs(backend: FSxBackend, logs: dict[str, Any]) -> None:
    destination = logs.get("Destination", "")
    if ":log-group:" not in destination:
        return
    from moto.logs.models import logs_backends

    name = destination.split(":log-group:")[1].split(":")[0]
    if not name.startswith("/aws/fsx"):
        raise FsxError("BadRequest", f"The log group name '{name}' must begin with /aws/fsx")
    if name not in logs_backends[backend.account_id][backend.region_name].groups:
        raise FsxError("BadRequest", f"The log group '{name}' does not exist")
