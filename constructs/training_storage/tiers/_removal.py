"""One meaning of removal policies for everything that holds data."""

from __future__ import annotations

from collections.abc import Iterator

import aws_cdk as cdk
from aws_cdk import CfnDeletionPolicy, CfnResource
from constructs import IConstruct

from training_storage.errors import Problem

_ALLOWED = (cdk.RemovalPolicy.RETAIN, cdk.RemovalPolicy.DESTROY)


def require_keep_or_delete(removal_policy: cdk.RemovalPolicy | None) -> Iterator[Problem]:
    """Yield a problem for a removal policy that neither keeps nor deletes; there are no snapshots of these."""
    if removal_policy is not None and removal_policy not in _ALLOWED:
        yield Problem(
            what="no such removal of data",
            path="removal_policy",
            value=removal_policy.name,
            allowed="RETAIN or DESTROY",
        )


def keep_on_replacement(construct: IConstruct) -> None:
    """Keep the old resource when an update replaces it, whatever the removal policy: nobody asks for a replacement."""
    resource = construct if isinstance(construct, CfnResource) else construct.node.default_child
    if isinstance(resource, CfnResource):
        resource.cfn_options.update_replace_policy = CfnDeletionPolicy.RETAIN
