"""The safe release as a state machine: it stands in the lake's stack, so that no stack waits for its own execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
import jsii
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage import _nag
from training_storage._arguments import FLAG, LISTED_TEXTS, TEXT, Kind, has, misfits
from training_storage._node_code import node_function
from training_storage.errors import Problem, ValidationError
from training_storage.lifecycle._machines import make_machine
from training_storage.lifecycle._names import LAKE, name_problems
from training_storage.lifecycle._release_definition import definition
from training_storage.lifecycle._release_rights import allow_release
from training_storage.lifecycle._waits import wait_for_policy
from training_storage.node import places
from training_storage.tiers import DataLake

CHECKPOINTS: Final = "checkpoints/"
_LONGEST_STEP: Final = cdk.Duration.minutes(15)
_MEMORY_MIB: Final = 2048  # parts of a manifest are compared with listings in memory, many requests at once


@jsii.implements(iam.IGrantable)
class ReleaseMachine(Construct):
    """Proves that everything of a run that must be kept is in S3, and only then deletes the run's stacks.

    A Step Functions state machine named ``WORKLOAD-release`` with one state a step, and one function that works the
    steps. ``training-storage release WORKLOAD`` starts it and follows it; it goes on without the command. Proofs lie in
    the lake under ``.training-storage/release/``.

    It belongs into a stack that outlives the run. Its rights are held by names and by the tag
    ``training-storage:workload``, never by the id of one file system: it may look, run commands on nodes of the
    workload, start export tasks, write below ``.training-storage/`` of the lake, and delete the stacks
    ``WORKLOAD-monitoring``, ``WORKLOAD-compute`` and ``WORKLOAD-hot``. It deletes nothing in the lake and passes no
    role: CloudFormation deletes a stack with the role that it was made with. Objects it removes only where
    ``empties_directory_buckets`` says so, from buckets that the hot stack deletes, and only what the proof covers.

    Example::

        ReleaseMachine(self, "Release", workload="llama3-70b", data_lake=lake)

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        workload: The workload's name, the prefix of its stacks.
        data_lake: The lake that holds what is kept, and the proofs.
        copies_checkpoints: Whether it copies checkpoints from directory buckets, and may write below ``checkpoints/``
            of the lake. Left out, it may not: FSx or the nodes write there.
        directory_bucket_names: Names of directory buckets that it reads; ``?`` and ``*`` stand for what is not known.
            Left out, none.
        empties_directory_buckets: Whether, after the proof and once the fleet is gone, it removes what the proof covers
            from those of these buckets that the hot stack deletes, so that the stack can go. Left out, it never does.
        file_system_ids: File systems that existed before and so do not carry the workload's tag. Left out, none.
        read_prefixes: Prefixes of the lake besides ``checkpoints/`` that files of the run are compared with. Left out,
            none; empty text is the whole lake.
        other_buckets: Buckets besides the lake that the file system is linked to. Left out, none.
        decryption_keys: Keys of the directory buckets and of the other buckets. Left out, none.

    Raises:
        ValidationError: An argument is of another kind, the name is none of a workload, or buckets are to be emptied
            and none is named.

    Attributes:
        state_machine: The state machine.
        function: The function that works the steps.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        workload: str,
        data_lake: DataLake,
        copies_checkpoints: bool = False,
        directory_bucket_names: Sequence[str] = (),
        empties_directory_buckets: bool = False,
        file_system_ids: Sequence[str] = (),
        read_prefixes: Sequence[str] = (),
        other_buckets: Sequence[s3.IBucket] = (),
        decryption_keys: Sequence[kms.IKey] = (),
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        problems = misfits(
            {
                "workload": (workload, TEXT),
                "data_lake": (data_lake, LAKE),
                "copies_checkpoints": (copies_checkpoints, FLAG),
                "directory_bucket_names": (directory_bucket_names, LISTED_TEXTS),
                "empties_directory_buckets": (empties_directory_buckets, FLAG),
                "file_system_ids": (file_system_ids, LISTED_TEXTS),
                "read_prefixes": (read_prefixes, LISTED_TEXTS),
                "other_buckets": (other_buckets, _listed("buckets", "bucket_arn")),
                "decryption_keys": (decryption_keys, _listed("KMS keys", "key_arn")),
            }
        )
        problems += name_problems(workload)
        if empties_directory_buckets is True and not directory_bucket_names:
            problems.append(
                Problem(
                    what="no directory bucket is named that could be emptied",
                    path="empties_directory_buckets",
                    value=True,
                    allowed="True with directory_bucket_names",
                    fix="name the buckets, or leave empties_directory_buckets out",
                )
            )
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        description = f"Proves that runs of {workload} are in S3, and releases them"
        self._role: Final = iam.Role(
            self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"), description=description
        )
        log_group = logs.LogGroup(
            self, "LogGroup", retention=logs.RetentionDays.ONE_YEAR, removal_policy=cdk.RemovalPolicy.DESTROY
        )
        log_group.grant_write(self._role)
        allow_release(self, self._role, workload, file_system_ids, empties=empties_directory_buckets)
        self._let_use_lake(data_lake, read_prefixes, copies_checkpoints=copies_checkpoints)
        for bucket in other_buckets:
            self._allow(["s3:ListBucket"], bucket.bucket_arn)
            self._allow(
                ["s3:GetObject"],
                bucket.arn_for_objects("*"),
                "Files of the run are compared with their objects; only the names of objects stand open",
            )
        for name in directory_bucket_names:
            self._allow(
                ["s3express:CreateSession"],
                stack.format_arn(service="s3express", resource="bucket", resource_name=name),
                "The part of the name that is made of the stack's id is new each time a run is made",
            )
        for key in decryption_keys:
            self._allow(["kms:Decrypt"], key.key_arn)
        self.function: Final = node_function(
            self,
            name="release",
            description=description,
            role=self._role,
            log_group=log_group,
            timeout=_LONGEST_STEP,
            memory_size=_MEMORY_MIB,
            environment={
                "WORKLOAD": workload,
                "LAKE_BUCKET": data_lake.bucket_name,
                **({"EMPTIES_DIRECTORY_BUCKETS": "true"} if empties_directory_buckets else {}),
            },
        )
        wait_for_policy(self.function, self._role)
        arn = self.function.function_arn
        self.state_machine: Final = make_machine(
            self,
            "StateMachine",
            name=f"{workload}-release",
            body=definition(arn, stack.partition, empties=empties_directory_buckets),
            rights=[iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[arn])],
            comment=description,
        )

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """The role of the function, for rights on buckets and keys of your own."""
        return self._role.grant_principal

    @property
    def state_machine_arn(self) -> str:
        """ARN of the state machine."""
        return self.state_machine.state_machine_arn

    def _let_use_lake(self, lake: DataLake, read_prefixes: Sequence[str], *, copies_checkpoints: bool) -> None:
        # Without the right to list the whole bucket, S3 answers 403 and not 404 for an object that is not there.
        self._allow(["s3:ListBucket"], lake.bucket_arn)
        writes = [places.ROOT, *([CHECKPOINTS] if copies_checkpoints else [])]
        reads = [""] if "" in read_prefixes else [CHECKPOINTS, *read_prefixes]
        for prefix in dict.fromkeys(writes):
            lake.grant_read_write(self._role, prefix=prefix)
        if copies_checkpoints:
            # An upload in parts that an earlier call left is gone on with; the first action knows no prefix.
            self._allow(["s3:ListBucketMultipartUploads"], lake.bucket_arn)
            self._allow(["s3:ListMultipartUploadParts"], lake.bucket.arn_for_objects(f"{CHECKPOINTS}*"))
        for prefix in dict.fromkeys(reads):
            if prefix not in writes:
                lake.grant_read(self._role, prefix=prefix or None)
        for prefix in dict.fromkeys(writes + reads):
            self._acknowledge(
                lake.bucket.arn_for_objects(f"{prefix}*"),
                "Proofs lie below this prefix, or files of the run are compared with their objects there; only the "
                "names of objects stand open",
            )

    def _allow(self, actions: list[str], resource: str, reason: str = "") -> None:
        self._role.add_to_principal_policy(iam.PolicyStatement(actions=actions, resources=[resource]))
        if reason and "*" in resource:
            self._acknowledge(resource, reason)

    def _acknowledge(self, resource: str, reason: str) -> None:
        _nag.acknowledge(self, _nag.wildcard(cdk.Stack.of(self), resource), reason)


def _listed(noun: str, attribute: str) -> Kind:
    def fits(value: object) -> bool:
        return isinstance(value, list | tuple) and all(has(each, attribute) for each in value)

    return Kind(allowed=f"a list of {noun} of the CDK", fits=fits, fix="put each in a list")
