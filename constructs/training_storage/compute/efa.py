"""Network interfaces of a launch template, and the security group rules that EFA needs."""

from __future__ import annotations

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage.catalog.model import InstanceType
from training_storage.tiers._security_groups import rules_of_brought_group


@jsii.implements(cdk.IAnyProducer)
class _Interfaces:
    """Interfaces as they are when the template is written, so that groups added later are there too.

    One value for all of them: each lazy value costs round trips to Node for every time that it is resolved.
    """

    def __init__(self, facts: InstanceType, connections: ec2.Connections) -> None:
        self._facts = facts
        self._connections = connections

    def produce(self, _context: cdk.IResolveContext) -> list[ec2.CfnLaunchTemplate.NetworkInterfaceProperty]:
        groups = _ids(self._connections)
        return [
            ec2.CfnLaunchTemplate.NetworkInterfaceProperty(
                network_card_index=interface.network_card_index,
                device_index=interface.device_index,
                interface_type=interface.interface_type,
                groups=groups,
                delete_on_termination=True,
            )
            for interface in self._facts.efa_layout
        ]


def network_interfaces(facts: InstanceType, connections: ec2.Connections) -> cdk.IResolvable:
    """Return the EFA layout of a type for a launch template under an Auto Scaling group, read at synth.

    No interface names a subnet, because the Auto Scaling group does, and none asks for a public address, which EC2
    refuses on instances with several interfaces.

    Args:
        facts: Row of the type; its layout comes primary first.
        connections: Their groups are on every interface.
    """
    return cdk.Lazy.uncached_any(_Interfaces(facts, connections))


@jsii.implements(cdk.IListProducer)
class _GroupIds:
    """Group ids as they are when the template is written, so that groups added later are there too."""

    def __init__(self, connections: ec2.Connections) -> None:
        self._connections = connections

    def produce(self, _context: cdk.IResolveContext) -> list[str]:
        return _ids(self._connections)


def late_group_ids(connections: ec2.Connections) -> list[str]:
    """Return the ids of all groups of the connections as a token list that is read at synth."""
    return cdk.Lazy.uncached_list(_GroupIds(connections))


def _ids(connections: ec2.Connections) -> list[str]:
    return [group.security_group_id for group in connections.security_groups]


def add_self_rules(scope: Construct, group: ec2.ISecurityGroup, *, brought: bool) -> list[cdk.CfnResource]:
    """Open all protocols between members of a group, both ways, by group id.

    EFA is matched only by rules that name a group: 0.0.0.0/0 does not count (field report 14). The L2 drops an egress
    rule to a group where all outbound traffic is allowed, hence L1.

    Args:
        scope: The fleet.
        group: Its group.
        brought: Whether the group is somebody's own, which other fleets and file systems may have too.
    """
    if brought:
        return rules_of_brought_group(scope, group, efa=True)
    group_id = group.security_group_id
    return [
        ec2.CfnSecurityGroupIngress(
            scope,
            "EfaIngress",
            group_id=group_id,
            source_security_group_id=group_id,
            ip_protocol="-1",
            description="EFA between the nodes",
        ),
        ec2.CfnSecurityGroupEgress(
            scope,
            "EfaEgress",
            group_id=group_id,
            destination_security_group_id=group_id,
            ip_protocol="-1",
            description="EFA between the nodes",
        ),
    ]
