"""Kinds of the arguments of a Lustre file system, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from aws_cdk import aws_logs as logs

from training_storage._arguments import (
    CATALOG,
    FLAG,
    KEY,
    LOG_GROUP,
    REMOVAL,
    SECURITY_GROUP,
    SUBNET,
    TEXT,
    VPC,
    WHOLE,
    Kind,
    optional,
)
from training_storage.errors import Problem

_RETENTION: Final = Kind(
    allowed="a RetentionDays of the CDK",
    fits=lambda value: isinstance(value, logs.RetentionDays),
    fix="logs.RetentionDays.SIX_MONTHS",
)
_SUBNET_OR_SEVERAL: Final = replace(SUBNET, fits=lambda value: isinstance(value, list | tuple) or SUBNET.fits(value))
"""Several subnets are a rule's to refuse, which says why there is only one."""

LUSTRE_KINDS: Final[Mapping[str, Kind]] = {
    "vpc": VPC,
    "subnet": _SUBNET_OR_SEVERAL,
    "storage_capacity_gib": WHOLE,
    "deployment_type": TEXT,
    "storage_type": TEXT,
    "per_unit_storage_throughput": optional(WHOLE),
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
