"""An S3 Files file system as rules look at it, and the numbers of the service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from training_storage.rules.subject import Subject
from training_storage.units import KIB

ON_DIRECTORY_FIRST_ACCESS: Final = "ON_DIRECTORY_FIRST_ACCESS"
ON_FILE_ACCESS: Final = "ON_FILE_ACCESS"
IMPORT_TRIGGERS: Final = (ON_DIRECTORY_FIRST_ACCESS, ON_FILE_ACCESS)
"""When S3 Files copies the data of an object into its own storage."""

DEFAULT_IMPORT_BELOW_BYTES: Final = 128 * KIB
"""The service's own default: files below are imported (Amazon S3 User Guide, S3 Files performance)."""

DEFAULT_EXPIRE_DAYS: Final = 7
"""The upper end of what AWS advises for training, 1 to 7 days (Amazon S3 User Guide, S3 Files best practices); the
service's own default is 30."""

MAX_IMPORT_RULES: Final = 10
MAX_IMPORT_BELOW_BYTES: Final = 52_673_613_135_872
EXPIRE_DAYS: Final = (1, 365)
MAX_SECURITY_GROUPS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSettings:
    """One import rule. A field is None where it is not known.

    Attributes:
        prefix: Keys that the rule is for; empty for all.
        trigger: One of ``IMPORT_TRIGGERS``.
        size_less_than_bytes: Objects below this size are imported.
    """

    prefix: str | None = None
    trigger: str | None = None
    size_less_than_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class S3FilesSettings(Subject):
    """One file system as it would be asked for. A field is None where it is not given or not known.

    Attributes:
        region: Region of the file system.
        account: Account of the file system.
        bucket_region: Region of the bucket.
        bucket_account: Account of the bucket.
        directory_bucket: Whether the bucket is a directory bucket.
        versioned: Whether the bucket's versioning is enabled.
        bucket_encryption: Default encryption of the bucket as the S3 API names it, such as ``aws:kms``.
        bucket_key_is_alias: Whether the key of the bucket is given by an alias.
        encryption_key: What is known of the ARN of the file system's own key.
        prefix: Key prefix of the file system; empty for the whole bucket.
        import_rules: Import rules.
        expire_after_days: Days without access after which data leaves the file system's own storage.
        subnet_count: Number of subnets given for the one mount target.
        security_group_count: Number of security groups of the mount target.
        file_system_id: Id of a file system that exists already.
    """

    region: str | None = None
    account: str | None = None
    bucket_region: str | None = None
    bucket_account: str | None = None
    directory_bucket: bool | None = None
    versioned: bool | None = None
    bucket_encryption: str | None = None
    bucket_key_is_alias: bool | None = None
    encryption_key: str | None = None
    prefix: str | None = None
    import_rules: tuple[ImportSettings, ...] | None = None
    expire_after_days: float | None = None
    subnet_count: int | None = None
    security_group_count: int | None = None
    file_system_id: str | None = None
