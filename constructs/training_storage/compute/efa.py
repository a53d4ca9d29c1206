"""Network interfaces of a launch template, and the security group rules that EFA needs."""

from __future__ import annotations

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage.catalog.model import InstanceType


def network_interfaces(facts: InstanceType, groups: list[str]) -> list[ec2.CfnLaunchTemplate.NetworkInterfaceProperty]:
    """Return the EFA layout of a type for a launch template under an Auto Scaling group.

    No interface names a subnet, because the Auto Scaling group does, and none asks for a public address, which EC2
    refuses on instances with several interfaces.

    Args:
        facts: Row of the type; its layout comes primary first.
        groups: Security groups of every interface; may be a token list.
    """
    return [
        ec2.CfnLaunchTemplate.NetworkInterfaceProperty(
            network_card_index=interface.network_card_index,
            device_index=interface.device_index,
            interface_type=interface.interface_type,
            groups=groups,
            delete_on_termination=True,
        )
        for interface in facts.efa_layout
    ]


@jsii.implements(cdk.IListProducer)
class _GroupIds:
    """Group ids as they are when the template is written, so that groups added later are there too."""

    def __init__(self, connections: ec2.Connections) -> None:
        self._connections = connections

    def produce(self, _context: cdk.IResolveContext) -> list[str]:
        return [group.security_group_id for group in self._connections.security_groups]


def late_group_ids(connections: ec2.Connections) -> list[str]:
    """Return the ids of all groups of the connections as a token list that is read at synth."""
    return cdk.Lazy.uncached_list(_GroupIds(connections))


def add_self_rules(scope: Construct, group: ec2.ISecurityGroup) -> list[cdk.CfnResource]:
    """Open all protocols between members of a group, both ways, by group id.

    EFA is matched only by rules that name a group: 0.0.0.0/0 does not count (field report 14). The L2 drops an egress
    rule to a group where all outbound traffic is allowed, hence L1.
    """
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
