"""User data of the fleet, and its size before the fleet is there."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from training_storage.compute.bootstrap import Signal, plain_commands
from training_storage.compute.mounts import NodeStorage
from training_storage.compute.user_data import worst_case_bytes

_LOGICAL_ID_BYTES = 255


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
    return worst_case_bytes(stack, planned.render())
