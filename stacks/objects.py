"""Rights on objects of the lake, which end in a wildcard because names of objects cannot be known."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct

from stacks.lake import LakeStack
from training_storage import _nag
from training_storage.tiers import DataLake


def acknowledge_objects(scope: IConstruct, data_lake: DataLake, lake: LakeStack, reasons: dict[str, str]) -> None:
    """Acknowledge the wildcard behind each prefix of the lake.

    Args:
        scope: Where the policies stand.
        data_lake: The lake.
        lake: Its stack.
        reasons: Why, by prefix.
    """
    arn = lake.export_value(data_lake.bucket_arn) if lake.makes_bucket else data_lake.bucket_arn
    shown = _nag.flat(cdk.Stack.of(scope), arn)
    for prefix, reason in reasons.items():
        _nag.acknowledge(scope, f"IAM5[Resource::{shown}/{prefix}*]", reason)
