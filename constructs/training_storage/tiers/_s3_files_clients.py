"""Security group rules between clients and the mount target of an S3 Files file system.

NFS connections are opened by clients alone, and groups remember connections: what is needed is the way out of the
client's group and the way into the mount target's. Each rule is a resource of its own in the stack of the client, so
that the stack of the file system never refers to its clients.
"""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage.tiers._security_groups import Traffic, let_in, let_out, once

PORT: Final = 2049
"""TCP port of NFS: Amazon S3 User Guide, prerequisites for S3 Files."""

_NFS: Final = Traffic(name=f"{PORT}", protocol="tcp", from_port=PORT, to_port=PORT)


def rules_with_client(
    place: cdk.Stack,
    client_group: ec2.ISecurityGroup,
    file_system_group: ec2.ISecurityGroup,
    *,
    owner: Construct,
    file_system_side: bool,
    brought: bool,
) -> tuple[cdk.CfnResource, ...]:
    """Make the rules between a client's group and a mount target's group.

    Args:
        place: Stack that they go into.
        client_group: Group of the client.
        file_system_group: Group of the mount target.
        owner: The file system.
        file_system_side: Whether the rule of the mount target's group is made too.
        brought: Whether the mount target's group may have other users, with the same rules: EC2 refuses a rule that is
            there already.
    """
    scope = Construct(place, f"S3FilesClient{owner.node.addr[-8:]}{client_group.node.addr[-8:]}")
    client, server = client_group.security_group_id, file_system_group.security_group_id
    out, into = "NFS, to the S3 Files mount target", "NFS, from a client"
    if brought:
        made: list[cdk.CfnResource] = [
            once(scope, "Egress", _NFS, group=client, peer=server, description=out, name="ToFileSystem")
        ]
        if file_system_side:
            made.append(once(scope, "Ingress", _NFS, group=server, peer=client, description=into, name="FromClient"))
        return tuple(made)
    made = [let_out(scope, "ToFileSystem", _NFS, group=client, destination=server, description=out)]
    if file_system_side:
        made.append(let_in(scope, "FromClient", _NFS, group=server, source=client, description=into))
    return tuple(made)
