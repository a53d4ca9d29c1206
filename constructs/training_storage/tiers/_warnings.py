"""Warnings of the storage constructs. Ids are public contract: users acknowledge them by id.

``cdk.Annotations.of(x).acknowledge_warning("training_storage:dataLake.keyPolicy", "its owner added it")`` silences one.
"""

from __future__ import annotations

from typing import Final

from aws_cdk import Annotations
from constructs import IConstruct

BUCKET_POLICY: Final = "training_storage:dataLake.bucketPolicy"
"""A grant needs a statement in the policy of a bucket that belongs to somebody else."""

KEY_POLICY: Final = "training_storage:dataLake.keyPolicy"
"""Links to S3 need a statement in the policy of a key that belongs to somebody else."""

SECURITY_GROUP_RULES: Final = "training_storage:lustre.securityGroupRules"
"""Rules of the file system's group are left to its owner, and these are needed."""

OLD_LUSTRE: Final = "training_storage:lustre.oldVersion"
"""Lustre 2.10 does not serve clients of 2.15."""

SMALL_HDD: Final = "training_storage:lustre.smallHdd"
"""HDD storage under the least that the quotas of FSx name."""

DIRECTORY_BUCKET_POLICY: Final = "training_storage:directoryBucket.bucketPolicy"
"""A grant needs a statement in the policy of a directory bucket that belongs to somebody else."""

DIRECTORY_BUCKET_KEY_POLICY: Final = "training_storage:directoryBucket.keyPolicy"
"""A grant needs a statement in the policy of a directory bucket's key that belongs to somebody else."""


def warn(scope: IConstruct, warning_id: str, message: str) -> None:
    """Add a warning that carries its id; one that is acknowledged stays silent."""
    Annotations.of(scope).add_warning_v2(warning_id, message)
