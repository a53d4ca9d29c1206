"""Stand-ins for the other rooms, so that compute is tested by itself."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms


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


class FakeDirectoryBucket:
    """What a mount needs of a directory bucket; remembers who was granted what."""

    def __init__(self, name: str = "hot--use1-az6--x-s3", encryption_key: kms.IKey | None = None) -> None:
        self.bucket_name = name
        self.bucket_arn = f"arn:aws:s3express:us-east-1:111111111111:bucket/{name}"
        self.availability_zone_id = "use1-az6"
        self.encryption_key = encryption_key
        self.grants: list[str] = []

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        return self._grant("read", grantee)

    def grant_read_write(self, grantee: iam.IGrantable) -> iam.Grant:
        return self._grant("read-write", grantee)

    def _grant(self, right: str, grantee: iam.IGrantable) -> iam.Grant:
        self.grants.append(right)
        return iam.Grant.drop(grantee, "nothing is granted in these tests")


class FakeS3Files:
    """What a mount needs of an S3 Files file system; remembers who was granted what."""

    def __init__(self, stack: cdk.Stack) -> None:
        self.file_system_id = cdk.CfnParameter(stack, "S3FilesId").value_as_string
        self.clients: list[ec2.IConnectable] = []
        self.grants: list[tuple[str, bool]] = []

    def allow_client(self, client: ec2.IConnectable) -> list[cdk.CfnResource]:
        self.clients.append(client)
        return []

    def grant_read(self, grantee: iam.IGrantable, *, direct_read: bool = True) -> iam.Grant:
        return self._grant("read", grantee, direct_read)

    def grant_read_write(self, grantee: iam.IGrantable, *, direct_read: bool = True) -> iam.Grant:
        return self._grant("read-write", grantee, direct_read)

    def grant_root(self, grantee: iam.IGrantable, *, direct_read: bool = True) -> iam.Grant:
        return self._grant("root", grantee, direct_read)

    def _grant(self, right: str, grantee: iam.IGrantable, direct_read: bool) -> iam.Grant:
        self.grants.append((right, direct_read))
        return iam.Grant.drop(grantee, "nothing is granted in these tests")
