"""Stand-ins for the other rooms, so that compute is tested by itself."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2


class FakeFileSystem:
    """What a mount needs of a file system, with values that are known only when the stack is deployed."""

    def __init__(self, stack: cdk.Stack, subnet: ec2.ISubnet | None = None) -> None:
        self.file_system_id = cdk.CfnParameter(stack, "FileSystemId").value_as_string
        self.dns_name = cdk.CfnParameter(stack, "DnsName").value_as_string
        self.mount_name = cdk.CfnParameter(stack, "MountName").value_as_string
        self.subnet = subnet
        self.clients: list[ec2.IConnectable] = []

    def allow_client(self, client: ec2.IConnectable) -> list[cdk.CfnResource]:
        self.clients.append(client)
        return []
