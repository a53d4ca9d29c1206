"""The hot tier of one run."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from stacks.lake import LakeStack
from stacks.network import NetworkStack, given_network
from training_storage.planner.model import Plan
from training_storage.tiers import LustreFileSystem
from training_storage.training_storage import make_file_system


class HotStack(cdk.Stack):
    """The Lustre file system and its links to the lake."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: Plan,
        lake: LakeStack,
        network: NetworkStack | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, description=f"Hot tier of {plan.name}, for one run", **kwargs)
        vpc, subnet = (network.vpc, network.subnet) if network else given_network(self, plan, add_endpoints=False)
        made = make_file_system(self, "FileSystem", plan, vpc=vpc, subnet=subnet, data_lake=lake.data_lake)
        assert made is not None  # noqa: S101 - the caller makes this stack only for a plan with Lustre
        self.file_system: LustreFileSystem = made
        # Links need the lake's bucket policy and key policy too, not only the bucket that they refer to.
        self.add_stack_dependency(lake)
        cdk.CfnOutput(self, "FileSystemId", value=made.file_system_id)
        cdk.CfnOutput(self, "FileSystemMountName", value=made.mount_name)
        cdk.CfnOutput(self, "FileSystemDnsName", value=made.dns_name)
        for link in made.links:
            cdk.CfnOutput(self, f"Association{link.node.id.removeprefix('Link')}Id", value=link.association_id)
        if plan.lustre and any(not link.import_metadata_on_create for link in plan.lustre.links):
            cdk.CfnOutput(
                self,
                "NextStep",
                value=f"training-storage preload {plan.name} --metadata",
                description="Imports the listing of the data set, which would outlast this stack's creation",
            )
