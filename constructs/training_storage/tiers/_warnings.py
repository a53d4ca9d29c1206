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

S3_FILES_BUCKET: Final = "training_storage:s3Files.bucketMustBeVersioned"
"""S3 Files needs settings of a bucket that exists already, and only its owner can make them."""

S3_FILES_EVENTS: Final = "training_storage:s3Files.eventBridge"
"""A bucket of the app does not send its events to EventBridge by its own properties."""

S3_FILES_ROLE: Final = "training_storage:s3Files.roleNotMutable"
"""The role that S3 Files is to take on takes no policies."""

S3_FILES_KEY: Final = "training_storage:s3Files.keyPolicy"
"""S3 Files needs the bucket's key, whose policy belongs to somebody else."""

S3_FILES_GROUP: Final = "training_storage:s3Files.securityGroupRules"
"""Rules of the mount target's group are left to its owner, and these are needed."""

S3_FILES_POLICY: Final = "training_storage:s3Files.fileSystemPolicy"
"""A grant needs a statement in the policy of a file system that belongs to somebody else."""

S3_FILES_OTHER_ACCOUNT: Final = "training_storage:s3Files.otherAccount"
"""A client of another account needs rights there, too."""

S3_FILES_NO_DIRECT_READ: Final = "training_storage:s3Files.noDirectRead"
"""Rights to read past the file system cannot be given without its bucket."""


def warn(scope: IConstruct, warning_id: str, message: str) -> None:
    """Add a warning that carries its id; one that is acknowledged stays silent."""
    Annotations.of(scope).add_warning_v2(warning_id, message)
