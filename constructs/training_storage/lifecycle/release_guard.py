"""The guard in front of a file system: its stack can be deleted only after a proof that what must be kept is in S3."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from training_storage import _nag
from training_storage._arguments import TEXT, Kind, misfits, optional
from training_storage._node_code import node_function
from training_storage.errors import Problem, ValidationError
from training_storage.lifecycle._names import LAKE, name_problems
from training_storage.lifecycle._waits import wait_for_policy
from training_storage.node import places
from training_storage.tiers import DataLake, ImportedLustreFileSystem, LustreFileSystem

_FILE_SYSTEM: Final = Kind(
    allowed="a LustreFileSystem",
    fits=lambda value: isinstance(value, LustreFileSystem | ImportedLustreFileSystem),
    fix="LustreFileSystem(..., removal_policy=cdk.RemovalPolicy.DESTROY)",
)
ANY_KEYS: Final = (f"{places.RELEASES}fs-*", f"{places.STATUS}fs-*")
"""Keys of whichever file system an earlier deploy made."""

ANY_REASON: Final = (
    "The id of a file system that an earlier deploy made is not known; these keys are ours, and are read"
)
_LONGEST_RUN: Final = cdk.Duration.minutes(10)
_LONGEST_WAIT: Final = cdk.Duration.minutes(12)
_MEMORY_MIB: Final = 512


class ReleaseGuard(Construct):
    """Stands in front of a file system: without a proof its stack is not deleted, and the reason says what is missing.

    A custom resource that waits for the file system and its links, so that CloudFormation deletes it first. Its
    function then looks for a proof in the lake, and in CloudWatch for writes after it. Without a proof it lets go only
    what no client ever wrote to, and what somebody has asked for in so many words within the last hour; whatever cannot
    be looked up keeps the file system. It answers within minutes and exports nothing: that is what the command
    ``training-storage release`` does.

    An update that takes the file system out of the template deletes it too, after everything else is updated. A guard
    that stays in the template is told of it before, asks the same question, and fails the update where a delete would
    fail: a stack whose file system may come and go with its workload keeps its guard, with ``file_system=None`` where
    there is none now. A guard that is itself taken out holds nothing.

    Example::

        ReleaseGuard(self, "Guard", file_system=file_system, data_lake=lake, workload_name="llama3-70b")

    Args:
        scope: Parent, in the stack of the file system.
        construct_id: Id in the parent.
        file_system: The file system, made in this app with RemovalPolicy DESTROY; one that stays needs no guard. None:
            there is none now, and one that an earlier deploy made here is not deleted without a proof.
        data_lake: The lake that proofs lie in.
        workload_name: The workload's name, which proofs and the command carry.

    Raises:
        ValidationError: An argument is of another kind; the file system exists already, stays when its stack is
            deleted, or stands in another stack.

    Attributes:
        function: The function.
        log_group: Its log, kept for a year also when the stack is gone: it says who asked for an override, and why.
        resource: The custom resource, for what else must be deleted before it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        file_system: LustreFileSystem | None,
        data_lake: DataLake,
        workload_name: str,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        problems = misfits(
            {
                "file_system": (file_system, optional(_FILE_SYSTEM)),
                "data_lake": (data_lake, LAKE),
                "workload_name": (workload_name, TEXT),
            }
        )
        problems += [replace(each, path="workload_name") for each in name_problems(workload_name)]
        if not problems and file_system is not None:
            problems += _unguarded(scope, file_system)
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)
        description = f"Lets the file system of {workload_name} go once what must be kept is in S3"
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"), description=description)
        self.log_group: Final = logs.LogGroup(
            self, "LogGroup", retention=logs.RetentionDays.ONE_YEAR, removal_policy=cdk.RemovalPolicy.RETAIN
        )
        self.log_group.grant_write(role)
        self._let_look(role, file_system, data_lake)
        self.function: Final = node_function(
            self,
            name="release_guard",
            description=description,
            role=role,
            log_group=self.log_group,
            timeout=_LONGEST_RUN,
            memory_size=_MEMORY_MIB,
        )
        self.resource: Final = cdk.CustomResource(
            self,
            "Resource",
            resource_type="Custom::ReleaseGuard",
            service_token=self.function.function_arn,
            service_timeout=_LONGEST_WAIT,
            properties={
                "FileSystemId": "" if file_system is None else file_system.file_system_id,
                "LogicalId": "" if file_system is None else cdk.Stack.of(self).get_logical_id(file_system.resource),
                "LakeBucket": data_lake.bucket_name,
                "Workload": workload_name,
            },
        )
        wait_for_policy(self.function, role)
        # What the last call needs goes after it, and so does what it guards: it refers to the file system, whose group
        # and rules go after that.
        self.resource.node.add_dependency(role, self.log_group)
        if file_system is not None:
            file_system.wait_for_links(self.resource)
        _nag.acknowledge(
            role,
            "IAM5[Resource::*]",
            "GetMetricData of CloudWatch and DescribeFileSystems of FSx take no resource (service authorization "
            "reference)",
        )

    def _let_look(self, role: iam.Role, file_system: LustreFileSystem | None, lake: DataLake) -> None:
        # Rights are updated before the guard is asked about a file system that the template no longer has.
        keys = list(ANY_KEYS)
        if file_system is not None:
            id_ = file_system.file_system_id
            keys = [places.proof_key(id_), places.survey_key(id_), places.status_key(id_)]
        listing = {"StringLike" if file_system is None else "StringEquals": {"s3:prefix": keys}}
        for actions, resources, conditions in (
            (["s3:GetObject"], [lake.bucket.arn_for_objects(key) for key in keys], None),
            (["s3:ListBucket"], [lake.bucket_arn], listing),
            (["cloudformation:DescribeStacks"], [cdk.Stack.of(self).stack_id], None),
            (["cloudwatch:GetMetricData", "fsx:DescribeFileSystems"], ["*"], None),
        ):
            role.add_to_policy(iam.PolicyStatement(actions=actions, resources=resources, conditions=conditions))
        if lake.encryption_key is not None:
            role.add_to_policy(iam.PolicyStatement(actions=["kms:Decrypt"], resources=[lake.encryption_key.key_arn]))
        for key in ANY_KEYS if file_system is None else ():
            arn = lake.bucket.arn_for_objects(key)
            _nag.acknowledge(role, _nag.wildcard(cdk.Stack.of(self), arn), ANY_REASON)


def _unguarded(scope: Construct, file_system: LustreFileSystem | ImportedLustreFileSystem) -> list[Problem]:
    """Return why there is nothing to guard."""
    if isinstance(file_system, ImportedLustreFileSystem):
        return [
            Problem(
                what="exists already, and no stack of this app deletes it",
                path="file_system",
                allowed="a file system that this app makes",
                fix="leave the guard out",
            )
        ]
    problems = []
    if file_system.removal_policy is not cdk.RemovalPolicy.DESTROY:
        problems.append(
            Problem(
                what="stays when its stack is deleted: there is nothing to guard",
                path="file_system",
                value=f"removal_policy {file_system.removal_policy.name}",
                allowed="a file system with removal_policy DESTROY",
                fix="give removal_policy=cdk.RemovalPolicy.DESTROY, or leave the guard out",
            )
        )
    if cdk.Stack.of(scope) != cdk.Stack.of(file_system):
        problems.append(
            Problem(
                what="stands in another stack, which can be deleted without the guard",
                path="file_system",
                value=cdk.Stack.of(file_system).stack_name,
                allowed=f"a file system in {cdk.Stack.of(scope).stack_name}",
                fix="make the guard in the stack of the file system",
            )
        )
    return problems
