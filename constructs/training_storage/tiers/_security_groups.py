"""Security group rules of a Lustre file system, as rule resources of their own.

The L2 security group drops an egress rule to a group where all outbound is open, but EFA counts only rules that name a
group, so every rule here is a resource. A rule between two groups goes into the stack of the client, so that the stack
of the file system never refers to its clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aws_cdk import CfnResource, Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

LUSTRE_PORTS: Final = ((988, 988), (1018, 1023))
"""TCP ports between clients and servers and among servers: FSx for Lustre User Guide, security groups."""

DEFAULT_PORT: Final = (988, 1023)
"""One range over all of them, as a ``Connections`` object has only one default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What one rule lets through.

    Attributes:
        name: Part of the construct id.
        protocol: ``tcp``, or ``-1`` for everything.
        from_port: First port; None with ``-1``.
        to_port: Last port; None with ``-1``.
    """

    name: str
    protocol: str
    from_port: int | None = None
    to_port: int | None = None

    def __str__(self) -> str:
        if self.from_port is None:
            return "all traffic"
        return f"tcp {self.from_port}" + ("" if self.from_port == self.to_port else f"-{self.to_port}")


def traffic(*, efa: bool) -> tuple[Traffic, ...]:
    """Return what must pass: everything with EFA, the Lustre ports without."""
    if efa:
        return (Traffic(name="All", protocol="-1"),)
    return tuple(Traffic(name=f"{low}", protocol="tcp", from_port=low, to_port=high) for low, high in LUSTRE_PORTS)


def let_in(
    scope: Construct, construct_id: str, each: Traffic, *, group: str, source: str, description: str
) -> ec2.CfnSecurityGroupIngress:
    """Add an ingress rule to ``group`` from ``source``, both ids."""
    return ec2.CfnSecurityGroupIngress(
        scope,
        f"{construct_id}{each.name}",
        group_id=group,
        source_security_group_id=source,
        ip_protocol=each.protocol,
        from_port=each.from_port,
        to_port=each.to_port,
        description=description,
    )


def let_out(
    scope: Construct, construct_id: str, each: Traffic, *, group: str, destination: str, description: str
) -> ec2.CfnSecurityGroupEgress:
    """Add an egress rule to ``group`` towards ``destination``, both ids."""
    return ec2.CfnSecurityGroupEgress(
        scope,
        f"{construct_id}{each.name}",
        group_id=group,
        destination_security_group_id=destination,
        ip_protocol=each.protocol,
        from_port=each.from_port,
        to_port=each.to_port,
        description=description,
    )


def rules_with_itself(scope: Construct, group: str, *, efa: bool) -> list[CfnResource]:
    """Make the rules of a file system's group towards itself: servers talk to each other."""
    made: list[CfnResource] = []
    for each in traffic(efa=efa):
        made.append(let_in(scope, "SelfIngress", each, group=group, source=group, description="Lustre, among servers"))
        made.append(
            let_out(scope, "SelfEgress", each, group=group, destination=group, description="Lustre, among servers")
        )
    return made


def rules_with_client(
    client_group: ec2.ISecurityGroup,
    file_system_group: ec2.ISecurityGroup,
    *,
    owner: Construct,
    efa: bool,
    file_system_side: bool,
) -> tuple[CfnResource, ...]:
    """Return the rules between a client's group and a file system's group, made in the stack of the client's group.

    They go with the client: a rule that stayed behind would keep the client's group from being deleted.

    Args:
        client_group: Group of the client.
        file_system_group: Group of the file system.
        owner: The file system.
        efa: Whether the file system is EFA-enabled.
        file_system_side: Whether the rules of the file system's own group are made too.

    Returns:
        The rules; the same ones when the pair is asked for again.
    """
    stack = Stack.of(client_group)
    pair = f"LustreClient{owner.node.addr[-8:]}{client_group.node.addr[-8:]}"
    there = stack.node.try_find_child(pair)
    if there is not None:
        return tuple(child for child in there.node.children if isinstance(child, CfnResource))
    place = Construct(stack, pair)
    client, server = client_group.security_group_id, file_system_group.security_group_id
    made: list[CfnResource] = []
    for each in traffic(efa=efa):
        made += [
            let_in(place, "FromFileSystem", each, group=client, source=server, description="Lustre, from the servers"),
            let_out(
                place, "ToFileSystem", each, group=client, destination=server, description="Lustre, to the servers"
            ),
        ]
        if file_system_side:
            made += [
                let_in(place, "FromClient", each, group=server, source=client, description="Lustre, from a client"),
                let_out(place, "ToClient", each, group=server, destination=client, description="Lustre, to a client"),
            ]
    return tuple(made)
