"""User data of the fleet, and its size before the fleet is there."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from training_storage._tokens import is_concrete
from training_storage.compute.bootstrap import Signal, plain_commands
from training_storage.compute.mount_model import BucketAccess, MountpointMount, bucket_name_of
from training_storage.compute.mounts import NodeStorage
from training_storage.compute.user_data import worst_case_bytes

_LOGICAL_ID_BYTES = 255
_BUCKET_NAME_BYTES = 63
"""The longest name of a bucket of any kind; a plan may have a hundred of them."""


def bootstrap_user_data(
    stack: cdk.Stack, storage: NodeStorage | None, user_commands: Sequence[str], signal: Signal | None
) -> ec2.UserData:
    """Return the user data of a node: the bootstrap of its storage, or the user's commands alone, then the signal."""
    user_data = ec2.UserData.for_linux()
    if storage is not None:
        storage.add_to(user_data, user_commands=user_commands, signal=signal)
    else:
        user_data.add_commands(*plain_commands(region=stack.region, user_commands=user_commands, signal=signal))
    return user_data


def size_before(
    stack: cdk.Stack,
    storage: NodeStorage | None,
    user_commands: Sequence[str],
    user_data: ec2.UserData | None,
    *,
    signal: bool,
) -> int:
    """Measure user data before the fleet is there, with the longest logical id that CloudFormation takes."""
    target = Signal(stack_name=stack.stack_name, logical_id="x" * _LOGICAL_ID_BYTES) if signal else None
    planned = user_data or bootstrap_user_data(stack, storage, user_commands, target)
    return bytes_of(stack, storage, planned)


def bytes_of(stack: cdk.Stack, storage: NodeStorage | None, user_data: ec2.UserData) -> int:
    """Measure user data, counting the longest value of everything that is not known yet."""
    sources = () if storage is None else (*storage.mounts, *storage.buckets)
    names = [bucket_name_of(each.bucket) for each in sources if isinstance(each, MountpointMount | BucketAccess)]
    longest = {name: _BUCKET_NAME_BYTES for name in names if not is_concrete(name)}
    return worst_case_bytes(stack, user_data.render(), longest)
