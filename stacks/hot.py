"""The hot tier of one run."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from stacks.lake import LakeStack
from stacks.network import NetworkStack, given_network
from stacks.objects import acknowledge_objects
from stacks.schedules import add_schedules
from training_storage.lifecycle.release_guard import ANY_KEYS, ANY_REASON
from training_storage.parts import HotStorage, make_hot_storage, make_release_guard, make_storage_node
from training_storage.planner.express import staging_command
from training_storage.planner.model import Plan
from training_storage.tiers import ImportedLustreFileSystem, LustreFileSystem


class HotStack(cdk.Stack):
    """What stands between the lake and the fleet: file system with its links, directory buckets, S3 Files."""

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
        self.data_lake = lake.data_lake
        self.storage: HotStorage = make_hot_storage(self, plan, vpc=vpc, subnet=subnet, data_lake=self.data_lake)
        self.release_guard = make_release_guard(
            self, "ReleaseGuard", plan, storage=self.storage, data_lake=self.data_lake
        )
        if self.release_guard is not None and not isinstance(self.storage.file_system, LustreFileSystem):
            acknowledge_objects(
                self.release_guard, self.data_lake, lake, {key.rstrip("*"): ANY_REASON for key in ANY_KEYS}
            )
        # Links and S3 Files need the lake's bucket policy and key policy too, not only the bucket they refer to.
        self.add_stack_dependency(lake)
        self._name_file_system(plan)
        add_schedules(self, plan, lake=lake, storage=self.storage)
        self.storage_node = make_storage_node(
            self, "StorageNode", plan, vpc=vpc, subnet=subnet, data_lake=self.data_lake, storage=self.storage
        )
        if self.storage_node is not None:
            acknowledge_objects(
                self.storage_node,
                self.data_lake,
                lake,
                {
                    "": "the node looks up objects behind files; only the names of objects stand open",
                    "checkpoints/": "the node verifies checkpoints below this one prefix",
                    ".training-storage/": "the node writes what it found below this one prefix",
                },
            )
            if self.release_guard is not None:
                # Where the guard refuses, what finds out why is still there.
                self.release_guard.resource.node.add_dependency(self.storage_node.auto_scaling_group)
        if self.storage.directory_buckets:
            names = cdk.Fn.join(",", [bucket.bucket_name for bucket in self.storage.directory_buckets])
            cdk.CfnOutput(self, "DirectoryBucketNames", value=names, description="In the order of their index")
            if not plan.workload.express.bucket_names:
                places = tuple(bucket.bucket_name for bucket in self.storage.directory_buckets)
                cdk.CfnOutput(
                    self,
                    "NextStep",
                    value=staging_command(plan.workload, places),
                    description="Copies the data set into the directory buckets, which start empty",
                )
        if self.storage.shared_cache is not None:
            cdk.CfnOutput(self, "SharedCacheBucketName", value=self.storage.shared_cache.bucket_name)
        if self.storage.s3_file_system is not None:
            cdk.CfnOutput(self, "S3FileSystemId", value=self.storage.s3_file_system.file_system_id)
            acknowledge_objects(
                self.storage.s3_file_system,
                self.data_lake,
                lake,
                {"": "S3 Files keeps the whole lake in step; only the names of its objects stand open"},
            )

    def _name_file_system(self, plan: Plan) -> None:
        made = self.storage.file_system
        if not isinstance(made, LustreFileSystem | ImportedLustreFileSystem):
            return
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
