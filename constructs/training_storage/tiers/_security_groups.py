"""Security group rules of a Lustre file system, as rule resources of their own.

The L2 security group drops an egress rule to a group where all outbound is open, but EFA counts only rules that name a
group, so every rule here is a resource. A rule between two groups goes into the stack of the client, so that the stack
of the file system never refers to its clients.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from aws_cdk import CfnResource, Stack, Stage
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage._tokens import is_concrete

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


def name_of(group: ec2.ISecurityGroup) -> str:
    """Return how a message names a group: its id, or where the tree has it while the id is not known yet."""
    group_id = group.security_group_id
    return group_id if is_concrete(group_id) else group.node.path


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


def rules_of_brought_group(scope: Construct, group: ec2.ISecurityGroup, *, efa: bool) -> list[CfnResource]:
    """Return the rules between members of a group that its owner brought, and may bring more than once.

    EC2 refuses the same rule a second time, so file systems and fleets that share a group share its rules too. They
    stand in the stack under the name of the group, and stay what they are when one of those that share them goes.

    Args:
        scope: Who needs the rules.
        group: The group.
        efa: Whether everything must pass, or the Lustre ports.
    """
    stack, group_id = Stack.of(scope), group.security_group_id
    name = f"GroupRules{_short(group_id if is_concrete(group_id) else group.node.addr)}"
    found = stack.node.try_find_child(name)
    place = found if isinstance(found, Construct) else Construct(stack, name)
    rules: list[CfnResource] = []
    for each in traffic(efa=efa):
        description = "Between members: EFA" if efa else "Between members: Lustre"
        rules.append(once(place, "Ingress", each, group=group_id, peer=group_id, description=description))
        rules.append(once(place, "Egress", each, group=group_id, peer=group_id, description=description))
    return rules


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def once(
    place: Construct, direction: str, each: Traffic, *, group: str, peer: str, description: str, name: str = ""
) -> CfnResource:
    """Return the rule that is there already, anywhere in the stage, or make it."""
    kind = ec2.CfnSecurityGroupIngress if direction == "Ingress" else ec2.CfnSecurityGroupEgress
    for node in (Stage.of(place) or place.node.root).node.find_all():
        if not isinstance(node, kind):
            continue
        other = (
            node.source_security_group_id
            if isinstance(node, ec2.CfnSecurityGroupIngress)
            else node.destination_security_group_id
        )
        ports = (node.ip_protocol, node.from_port, node.to_port)
        if (node.group_id, other, ports) == (group, peer, (each.protocol, each.from_port, each.to_port)):
            return node
    if direction == "Ingress":
        return let_in(place, name or direction, each, group=group, source=peer, description=description)
    return let_out(place, name or direction, each, group=group, destination=peer, description=description)


def rules_with_client(
    place: Stack,
    client_group: ec2.ISecurityGroup,
    file_system_group: ec2.ISecurityGroup,
    *,
    owner: Construct,
    efa: bool,
    file_system_side: bool,
    brought: bool,
) -> tuple[CfnResource, ...]:
    """Make the rules between a client's group and a file system's group.

    Args:
        place: Stack that they go into: they go with the client.
        client_group: Group of the client.
        file_system_group: Group of the file system.
        owner: The file system.
        efa: Whether the file system is EFA-enabled.
        file_system_side: Whether the rules of the file system's own group are made too.
        brought: Whether the file system's group may be that of other file systems too, with the same rules.
    """
    scope = Construct(place, f"LustreClient{owner.node.addr[-8:]}{client_group.node.addr[-8:]}")
    client, server = client_group.security_group_id, file_system_group.security_group_id
    wanted = [
        ("Ingress", "FromFileSystem", client, server, "Lustre, from the servers"),
        ("Egress", "ToFileSystem", client, server, "Lustre, to the servers"),
    ]
    if file_system_side:
        wanted += [
            ("Ingress", "FromClient", server, client, "Lustre, from a client"),
            ("Egress", "ToClient", server, client, "Lustre, to a client"),
        ]
    made: list[CfnResource] = []
    for each in traffic(efa=efa):
        for direction, name, group, peer, description in wanted:
            if brought:
                made.append(once(scope, direction, each, group=group, peer=peer, description=description, name=name))
            elif direction == "Ingress":
                made.append(let_in(scope, name, each, group=group, source=peer, description=description))
            else:
                made.append(let_out(scope, name, each, group=group, destination=peer, description=description))
    return tuple(made)
