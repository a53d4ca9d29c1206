"""The function that empties a directory bucket whose content may be deleted with it, and what it needs around it."""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from training_storage._node_code import node_function
from training_storage.tiers._directory_bucket import DirectoryBucketBase

_LONGEST_RUN: Final = cdk.Duration.minutes(15)
_LONGEST_WAIT: Final = cdk.Duration.hours(1)
_MEMORY_MIB: Final = 1024  # sixteen requests at once, each with a thousand keys in XML


class Emptying(Construct):
    """Empties a directory bucket before it is deleted with its stack, and at no other time.

    The custom resource stands in front of the bucket: CloudFormation deletes it first, and waits for an hour.
    """

    def __init__(self, scope: Construct, construct_id: str, *, bucket: DirectoryBucketBase) -> None:
        super().__init__(scope, construct_id)
        log_group = logs.LogGroup(
            self, "LogGroup", retention=logs.RetentionDays.ONE_MONTH, removal_policy=cdk.RemovalPolicy.DESTROY
        )
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description="Empties a directory bucket before it is deleted",
        )
        log_group.grant_write(role)
        bucket.grant_read_write(role)
        role.add_to_policy(
            iam.PolicyStatement(actions=["cloudformation:DescribeStacks"], resources=[cdk.Stack.of(self).stack_id])
        )
        function = node_function(
            self,
            name="empty_directory_bucket",
            description="Empties a directory bucket before it is deleted",
            role=role,
            log_group=log_group,
            timeout=_LONGEST_RUN,
            memory_size=_MEMORY_MIB,
        )
        role.add_to_policy(iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function.function_arn]))
        resource = function.node.default_child
        if isinstance(resource, cdk.CfnResource):
            # The CDK lets the function wait for the role's policy, which names the function to let it go on in another
            # run: a circle. Nothing is run before the custom resource is made, and that waits for the policy.
            resource.add_deletion_override("DependsOn")
        emptied = cdk.CustomResource(
            self,
            "Resource",
            resource_type="Custom::EmptyDirectoryBucket",
            service_token=function.function_arn,
            service_timeout=_LONGEST_WAIT,
            properties={"BucketName": bucket.bucket_name},
        )
        # What the last call needs goes after it.
        emptied.node.add_dependency(role, log_group)
