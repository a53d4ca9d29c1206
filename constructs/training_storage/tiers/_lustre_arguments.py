"""Arguments of a Lustre file system: their kinds, what is taken where they are left out, and which exclude others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from aws_cdk import aws_logs as logs

from training_storage._arguments import (
    CATALOG,
    FLAG,
    KEY,
    LOG_GROUP,
    REMOVAL,
    SECURITY_GROUP,
    SUBNET_OR_SEVERAL,
    TEXT,
    VPC,
    WHOLE,
    Kind,
    optional,
)
from training_storage.catalog.lustre import LustreCatalog
from training_storage.errors import Problem
from training_storage.rules.lustre_settings import TIERING
from training_storage.tiers._tokens import concrete

_RETENTION: Final = Kind(
    allowed="a RetentionDays of the CDK",
    fits=lambda value: isinstance(value, logs.RetentionDays),
    fix="logs.RetentionDays.SIX_MONTHS",
)
LUSTRE_KINDS: Final[Mapping[str, Kind]] = {
    "vpc": VPC,
    "subnet": SUBNET_OR_SEVERAL,
    "storage_capacity_gib": optional(WHOLE),
    "deployment_type": TEXT,
    "storage_type": TEXT,
    "per_unit_storage_throughput": optional(WHOLE),
    "throughput_capacity_mb_per_s": optional(WHOLE),
    "drive_cache_type": optional(TEXT),
    "read_cache_mode": optional(TEXT),
    "read_cache_gib": optional(WHOLE),
    "metadata_mode": optional(TEXT),
    "metadata_iops": optional(WHOLE),
    "efa_enabled": FLAG,
    "data_compression_type": TEXT,
    "file_system_type_version": TEXT,
    "kms_key": optional(KEY),
    "security_group": optional(SECURITY_GROUP),
    "manage_security_group_rules": FLAG,
    "log_group": optional(LOG_GROUP),
    "log_retention": optional(_RETENTION),
    "weekly_maintenance_start_time": TEXT,
    "automatic_backup_retention_days": optional(WHOLE),
    "removal_policy": optional(REMOVAL),
    "catalog": optional(CATALOG),
}
"""Kind of each argument of ``LustreFileSystem``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """The arguments that depend on deployment and storage type.

    Attributes:
        storage_capacity_gib: As given.
        per_unit_storage_throughput: As given, or the lowest tier of the type.
        throughput_capacity_mb_per_s: As given.
        drive_cache_type: As given, or none for HDD.
        read_cache_mode: As given, or what the size of the read cache means.
        read_cache_gib: As given.
        metadata_mode: As given, or the mode that every region takes.
        metadata_iops: As given, or the least that INTELLIGENT_TIERING has.
    """

    storage_capacity_gib: float | None
    per_unit_storage_throughput: float | None
    throughput_capacity_mb_per_s: float | None
    drive_cache_type: str | None
    read_cache_mode: str | None
    read_cache_gib: float | None
    metadata_mode: str | None
    metadata_iops: float | None

    def filled(self, lustre: LustreCatalog, deployment_type: str, storage_type: str) -> StorageClass:
        """Return the arguments with their defaults; a type that is a token, or does not exist, has none."""
        option = lustre.option(concrete(deployment_type) or "", concrete(storage_type) or "")
        filled, tiered = self, concrete(storage_type) == TIERING
        if concrete(storage_type) == "HDD" and self.drive_cache_type is None:
            filled = replace(filled, drive_cache_type="NONE")
        if tiered and self.read_cache_mode is None:
            mode = "PROPORTIONAL_TO_THROUGHPUT_CAPACITY" if self.read_cache_gib is None else "USER_PROVISIONED"
            filled = replace(filled, read_cache_mode=mode)
        if option is not None and option.tiers and self.per_unit_storage_throughput is None:
            filled = replace(filled, per_unit_storage_throughput=option.tiers[0])
        if option is not None and option.metadata_configuration and self.metadata_mode is None:
            filled = replace(filled, metadata_mode="USER_PROVISIONED" if tiered else "AUTOMATIC")
        if tiered and filled.metadata_mode == "USER_PROVISIONED" and self.metadata_iops is None:
            filled = replace(filled, metadata_iops=lustre.intelligent_tiering_metadata_iops[0])
        return filled

    @property
    def omitted(self) -> frozenset[str]:
        """Names of what is still left out."""
        return frozenset(name for name in self.__slots__ if getattr(self, name) is None)


def one_log_group(log_group: logs.ILogGroup | None, log_retention: logs.RetentionDays | None) -> list[Problem]:
    """Return whether a group is given together with an option of a new one."""
    if log_group is None or log_retention is None:
        return []
    return [
        Problem(
            what="a log group is given, and how long a new one would keep its events",
            path="log_retention",
            allowed="log_group or log_retention",
            fix="leave one of the two out",
        )
    ]
