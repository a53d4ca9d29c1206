"""Sections of a workload file about storage: overrides of what is planned, and what is there already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from training_storage.errors import Problem
from training_storage.units import GIB, Duration, Size
from training_storage.workload import fields as read
from training_storage.workload.section import Section, item, list_of
from training_storage.workload.together import at_most_one, not_with, without

Auto = Literal["auto"]
LinkEvent = Literal["new", "changed", "deleted"]
DeploymentType = Literal["SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"]
StorageType = Literal["SSD", "HDD", "INTELLIGENT_TIERING"]
Compression = Literal["lz4", "none"]
DriveCache = Literal["none", "read"]
ReadCache = Literal["none", "proportional"]
Removal = Literal["retain", "delete"]
Cache = Literal["auto", "none", "nvme", "express"]
Encryption = Literal["s3", "kms"]


class Link(Section):
    """One link between a path of the file system and a prefix of a bucket."""

    path: str = item(read.link_path, example="/datasets")
    source: str = item(read.source, example="s3://bucket/prefix/")
    import_: tuple[LinkEvent, ...] = item(list_of(read.choice(LinkEvent)), default=("new", "changed"), key="import")
    export: tuple[LinkEvent, ...] = item(list_of(read.choice(LinkEvent)), default=())
    import_metadata_on_create: bool | None = item(read.flag, default=None)


class Lustre(Section):
    """Overrides of the Lustre plan; everything not given is planned."""

    deployment_type: DeploymentType | None = item(read.choice(DeploymentType), default=None)
    storage_type: StorageType | None = item(read.choice(StorageType), default=None)
    storage_capacity: Size | None = item(read.whole_gib, default=None)
    per_unit_storage_throughput: int | None = item(read.whole(1), default=None)
    throughput_capacity: int | None = item(read.whole(1, 2_000_000), default=None)
    drive_cache: DriveCache | None = item(read.choice(DriveCache), default=None)
    read_cache: ReadCache | Size | None = item(read.read_cache, default=None)
    metadata_iops: Literal["automatic"] | int | None = item(read.automatic_or_iops, default=None)
    efa: Auto | bool = item(read.auto_or_flag, default="auto")
    gds: bool = item(read.flag, default=False)
    compression: Compression = item(read.choice(Compression), default="lz4")
    file_system_type_version: str = item(read.lustre_version, default="2.15")
    backup_retention_days: int | None = item(read.whole(0, 90), default=None)
    kms_key_arn: str | None = item(read.kms_key, default=None)
    # What it is without a word follows from the guard: ``Workload.file_system_removal``.
    removal: Removal | None = item(read.choice(Removal), default=None)
    links: tuple[Link, ...] | None = item(list_of(Link), default=None)
    security_group_id: str | None = item(read.aws_id("sg"), default=None)
    file_system_id: str | None = item(read.aws_id("fs"), default=None)
    mount_name: str | None = item(read.lustre_mount_name, default=None)

    @property
    def drive_cache_type(self) -> str | None:
        """The drive cache of HDD storage as FSx names it; None where it is not given."""
        return None if self.drive_cache is None else self.drive_cache.upper()

    @property
    def read_cache_mode(self) -> str | None:
        """How the read cache of INTELLIGENT_TIERING is sized, as FSx names it; None where it is not given."""
        if isinstance(self.read_cache, Size):
            return "USER_PROVISIONED"
        names = {"none": "NO_CACHE", "proportional": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"}
        return None if self.read_cache is None else names[self.read_cache]

    @property
    def read_cache_gib(self) -> int | None:
        """Size of that read cache in GiB, where one is given."""
        return int(self.read_cache.bytes // GIB) if isinstance(self.read_cache, Size) else None

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """A file system that is there already is described, not made."""
        if "file_system_id" not in given:
            if "mount_name" in given:
                yield without(
                    "mount_name", given, "is the mount name of a file system that is not named", "file_system_id"
                )
            return
        made = ("drive_cache", "read_cache", "compression", "backup_retention_days", "kms_key_arn", "removal")
        yield from not_with(given, "file_system_id", made)
        wanted = {
            "mount_name": "its mount name, which FSx gave",
            "security_group_id": "its security group, which clients are let into",
            "efa": "true or false, as it was made",
        }
        if given.get("storage_type") == "INTELLIGENT_TIERING":
            wanted["throughput_capacity"] = "its throughput, which the plan is held against"
        else:
            wanted["storage_capacity"] = "its capacity, which the plan is held against"
            if given.get("deployment_type") != "SCRATCH_2":
                wanted["per_unit_storage_throughput"] = "its tier, which the plan is held against"
        for key, what in wanted.items():
            if given.get(key, "auto") == "auto":
                yield Problem(what="is needed with file_system_id", path=key, allowed=what, fix=f"add {key}")


_NEW_BUCKETS = ("base_name", "expire_after", "expire_prefixes", "removal", "content_is_cache")


class Express(Section):
    """Settings of the S3 Express One Zone tier."""

    base_name: str | None = item(read.base_name, default=None)
    expire_after: Duration | None = item(read.age(1), default=None)
    expire_prefixes: tuple[str, ...] = item(list_of(read.key_prefix), default=())
    kms_key_arn: str | None = item(read.kms_key, default=None)
    removal: Removal = item(read.choice(Removal), default="retain")
    content_is_cache: bool = item(read.flag, default=False)
    bucket_names: tuple[str, ...] = item(list_of(read.directory_bucket), default=())

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """Buckets that are there already are not made; only what may be lost is emptied."""
        if given.get("bucket_names"):
            yield from not_with(given, "bucket_names", _NEW_BUCKETS)
        elif given.get("content_is_cache") is True and given.get("removal") != "delete":
            yield Problem(
                what="says that the content may be deleted with the bucket, and the bucket is kept",
                path="content_is_cache",
                value=True,
                allowed="with removal: delete only",
                fix="add removal: delete, or leave content_is_cache out",
            )


class S3Files(Section):
    """Settings of S3 Files."""

    read_only: bool | None = item(read.flag, default=None)
    root_access: bool = item(read.flag, default=False)
    # 1 to 365 days (CloudFormation schema of AWS::S3Files::FileSystem); AWS advises 1 to 7 days for training runs.
    expire_after: Duration = item(read.age(1, 365), default=Duration(7 * 86400))
    removal: Removal = item(read.choice(Removal), default="retain")
    file_system_id: str | None = item(read.aws_id("fs", 40), default=None)
    security_group_id: str | None = item(read.aws_id("sg"), default=None)

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """A file system that is there already comes with its group, and is not made."""
        if "file_system_id" in given:
            yield from not_with(given, "file_system_id", ("expire_after", "removal"))
            if "security_group_id" not in given:
                yield Problem(
                    what="is needed with file_system_id",
                    path="security_group_id",
                    allowed="the security group of its mount target, which clients are let into",
                    fix="add security_group_id",
                )


class Mountpoint(Section):
    """Settings of the Mountpoint mount of the lake."""

    cache: Cache = item(read.choice(Cache), default="auto")
    cache_size: Size | None = item(read.size, default=None)
    cache_bucket: str | None = item(read.directory_bucket, default=None)
    read_only: bool = item(read.flag, default=True)

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """A size needs a cache."""
        if given.get("cache") == "none" and "cache_size" in given:
            yield Problem(
                what="is the size of a cache that is switched off",
                path="cache_size",
                value=given["cache_size"],
                allowed="with another cache than none",
                fix="leave one of the two out",
            )
        if given.get("cache") == "express" and "cache_size" in given:
            yield Problem(
                what="is the size of a local cache, and the cache is shared",
                path="cache_size",
                value=given["cache_size"],
                allowed="with cache: nvme only; a shared cache grows until its objects expire",
                fix="leave cache_size out",
            )
        if "cache_bucket" in given and given.get("cache") != "express":
            yield without(
                "cache_bucket", given, "is a bucket for a shared cache that is not asked for", "cache: express"
            )


class DataLakeSettings(Section):
    """Settings of the data lake bucket."""

    bucket: str | None = item(read.bucket, default=None)
    bucket_name: str | None = item(read.bucket, default=None)
    encryption: Encryption = item(read.choice(Encryption), default="kms")
    kms_key_arn: str | None = item(read.kms_key, default=None)
    versioned: bool = item(read.flag, default=True)
    removal: Removal = item(read.choice(Removal), default="retain")
    # Objects move to infrequent access after 30 days at the earliest (S3 API reference, LifecycleRule).
    checkpoints_to_infrequent_access_after: Duration = item(read.age(30), default=Duration(30 * 86400))
    checkpoints_expire_after: Duration | None = item(read.age(1), default=None)
    noncurrent_versions_expire_after: Duration = item(read.age(1), default=Duration(30 * 86400))
    logs_expire_after: Duration = item(read.age(1), default=Duration(180 * 86400))

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """An existing bucket or the name of a new one; a key only where one is used."""
        yield from at_most_one(given, ("bucket", "bucket_name"))
        if given.get("encryption") == "s3" and "kms_key_arn" in given:
            yield Problem(
                what="is given with encryption: s3, which uses no key",
                path="kms_key_arn",
                value=given["kms_key_arn"],
                allowed="with encryption: kms only",
                fix="set encryption: kms, or leave the key out",
            )

    def values_together(self) -> Iterable[Problem]:
        """Checkpoints do not go before they move."""
        moves, goes = self.checkpoints_to_infrequent_access_after, self.checkpoints_expire_after
        if goes is not None and goes < moves:
            yield Problem(
                what=f"is less than the {moves} after which checkpoints go to infrequent access",
                path="checkpoints_expire_after",
                value=str(goes),
                allowed=f"{moves} or more: checkpoints_to_infrequent_access_after, 30d where it is not given",
                fix="give a longer age, or leave it out: checkpoints then never expire",
            )
