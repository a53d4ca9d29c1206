"""Rules of what a Lustre file system is set to: metadata, version, links, key, backups, maintenance, logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from training_storage.errors import Problem
from training_storage.rules.base import Rule, rule
from training_storage.rules.lustre_settings import (
    API,
    GUIDE,
    NEW_CLIENTS,
    OLD_SERVER,
    PERSISTENT_2,
    SCRATCH,
    TIERED,
    TIERING,
    LustreSettings,
    kind_of,
    listed,
    lustre_of,
    row_of,
)

_BACKUP_DAYS_MAX: Final = 90
_MAINTENANCE = re.compile(r"[1-7]:(?:[01]\d|2[0-3]):[0-5]\d")


def _iops_form(settings: LustreSettings) -> str:
    values = lustre_of(settings).metadata_iops_values()
    step = values[-1] - values[-2]
    below = [value for value in values if value < step]
    return f"{', '.join(map(str, below))}, then multiples of {step} to {values[-1]}"


@rule(
    id="lustre.metadata-deployment-type",
    statement="Only PERSISTENT_2 file systems have a metadata configuration.",
    reason="FSx refuses it on other types.",
    source=API,
    passes=PERSISTENT_2,
    fails=replace(SCRATCH, metadata_mode="AUTOMATIC"),
)
def _metadata_deployment_type(settings: LustreSettings) -> Iterator[Problem]:
    row = row_of(settings)
    if row is None or row.metadata_configuration:
        return
    for path, value in (("metadata_mode", settings.metadata_mode), ("metadata_iops", settings.metadata_iops)):
        if value is not None:
            yield Problem(
                what=f"{kind_of(settings)} has no metadata configuration",
                path=path,
                value=value,
                allowed="a metadata configuration with PERSISTENT_2",
                fix="leave it out, or use PERSISTENT_2",
            )


@rule(
    id="lustre.metadata-mode",
    statement="The metadata mode is AUTOMATIC or USER_PROVISIONED.",
    reason="FSx knows no other.",
    source=API,
    passes=PERSISTENT_2,
    fails=replace(PERSISTENT_2, metadata_mode="MANUAL"),
)
def _metadata_mode(settings: LustreSettings) -> Iterator[Problem]:
    if settings.metadata_mode is not None and settings.metadata_mode not in {"AUTOMATIC", "USER_PROVISIONED"}:
        yield Problem(
            what="unknown metadata mode",
            path="metadata_mode",
            value=settings.metadata_mode,
            allowed="AUTOMATIC or USER_PROVISIONED",
        )


@rule(
    id="lustre.metadata-pair",
    statement="Metadata IOPS are given with USER_PROVISIONED, and only with it.",
    reason="FSx refuses a number in AUTOMATIC mode and asks for one in the other.",
    source=API,
    passes=replace(PERSISTENT_2, metadata_mode="USER_PROVISIONED", metadata_iops=12_000),
    fails=replace(PERSISTENT_2, metadata_iops=12_000),
)
def _metadata_pair(settings: LustreSettings) -> Iterator[Problem]:
    if settings.metadata_mode == "AUTOMATIC" and settings.metadata_iops is not None:
        yield Problem(
            what="metadata IOPS given in AUTOMATIC mode",
            path="metadata_iops",
            value=settings.metadata_iops,
            allowed="a number with USER_PROVISIONED only",
        )
    if settings.metadata_mode == "USER_PROVISIONED" and "metadata_iops" in settings.omitted:
        yield Problem(
            what="USER_PROVISIONED needs a number of metadata IOPS", path="metadata_iops", allowed=_iops_form(settings)
        )


@rule(
    id="lustre.metadata-iops",
    statement="Metadata IOPS of SSD file systems are 1500, 3000, 6000, 12000, then multiples of 12000 to 192000.",
    reason="FSx refuses other numbers.",
    source=API,
    passes=replace(PERSISTENT_2, metadata_mode="USER_PROVISIONED", metadata_iops=24_000),
    fails=replace(PERSISTENT_2, metadata_mode="USER_PROVISIONED", metadata_iops=18_000),
)
def _metadata_iops(settings: LustreSettings) -> Iterator[Problem]:
    values = lustre_of(settings).metadata_iops_values()
    if settings.metadata_iops is None or settings.storage_type == TIERING or settings.metadata_iops in values:
        return
    near = [
        *[value for value in values if value < settings.metadata_iops][-1:],
        *[value for value in values if value > settings.metadata_iops][:1],
    ]
    yield Problem(
        what="no legal number of metadata IOPS",
        path="metadata_iops",
        value=settings.metadata_iops,
        allowed=_iops_form(settings),
        fix=listed(tuple(map(str, near))),
    )


@rule(
    id="lustre.metadata-floor",
    statement="Provisioned metadata IOPS are not below what AUTOMATIC gives at the capacity.",
    reason="FSx refuses fewer, also when a later growth raises the automatic number above them.",
    source=f"{API}; hashicorp/terraform-provider-aws #44432",
    passes=replace(PERSISTENT_2, metadata_mode="USER_PROVISIONED", metadata_iops=6000),
    fails=replace(PERSISTENT_2, metadata_mode="USER_PROVISIONED", metadata_iops=3000),
)
def _metadata_floor(settings: LustreSettings) -> Iterator[Problem]:
    row, gib, iops = row_of(settings), settings.storage_capacity_gib, settings.metadata_iops
    if row is None or not row.metadata_configuration or gib is None or iops is None or settings.storage_type == TIERING:
        return
    floor = lustre_of(settings).automatic_metadata_iops(gib)
    if iops < floor:
        yield Problem(
            what=f"fewer metadata IOPS than AUTOMATIC gives at {gib} GiB",
            path="metadata_iops",
            value=iops,
            allowed=f"{floor} or more",
            fix=f"{floor}, or AUTOMATIC",
        )


@rule(
    id="lustre.version",
    statement="The Lustre version is 2.10, 2.12 or 2.15.",
    reason="FSx knows no other.",
    source=API,
    passes=PERSISTENT_2,
    fails=replace(PERSISTENT_2, file_system_type_version="2.17"),
)
def _version(settings: LustreSettings) -> Iterator[Problem]:
    known = lustre_of(settings).versions
    if settings.file_system_type_version is not None and settings.file_system_type_version not in known:
        yield Problem(
            what="unknown Lustre version",
            path="file_system_type_version",
            value=settings.file_system_type_version,
            allowed=listed(known),
        )


@rule(
    id="lustre.version-deployment-type",
    statement="The Lustre version is one that the deployment type can be made with; PERSISTENT_2 is never 2.10.",
    reason="FSx refuses the pair.",
    source=API,
    passes=PERSISTENT_2,
    fails=replace(PERSISTENT_2, file_system_type_version="2.10", metadata_mode=None),
)
def _version_deployment_type(settings: LustreSettings) -> Iterator[Problem]:
    row, version = row_of(settings), settings.file_system_type_version
    if row is None or version not in lustre_of(settings).versions or version in row.versions:
        return
    yield Problem(
        what=f"{kind_of(settings)} cannot be made with Lustre {version}",
        path="file_system_type_version",
        value=version,
        allowed=listed(row.versions),
    )


@rule(
    id="lustre.version-metadata",
    statement="A metadata configuration goes with Lustre 2.15.",
    reason="FSx refuses it with older versions, and it can never be added later.",
    source=API,
    passes=PERSISTENT_2,
    fails=replace(PERSISTENT_2, file_system_type_version="2.12"),
)
def _version_metadata(settings: LustreSettings) -> Iterator[Problem]:
    version = settings.file_system_type_version
    row = row_of(settings)
    if row is not None and not row.metadata_configuration:
        return
    if settings.metadata_mode is not None and version in lustre_of(settings).versions and version != "2.15":
        yield Problem(
            what="a metadata configuration needs Lustre 2.15",
            path="file_system_type_version",
            value=version,
            allowed="2.15",
        )


@rule(
    id="lustre.version-links",
    statement="A file system with links to S3 is not Lustre 2.10.",
    reason="Data repository associations exist from 2.12 on.",
    source=API,
    passes=replace(SCRATCH, linked=True, file_system_type_version="2.12"),
    fails=replace(SCRATCH, linked=True, file_system_type_version="2.10"),
)
def _version_links(settings: LustreSettings) -> Iterator[Problem]:
    if settings.linked and settings.file_system_type_version == OLD_SERVER:
        yield Problem(
            what="Lustre 2.10 has no links to S3",
            path="file_system_type_version",
            value=settings.file_system_type_version,
            allowed="2.12 or 2.15 with links",
            fix="2.15",
        )


@rule(
    id="lustre.version-clients",
    statement="Clients of Amazon Linux 2023, Ubuntu 22.04 and 24.04, RHEL 9 and Rocky 9 find a server of 2.12 or 2.15.",
    reason="Their Lustre client is 2.15, and mounting a 2.10 server ends in an I/O error.",
    source=f"{GUIDE}, Lustre client matrix; amazonlinux/amazon-linux-2023 #723",
    passes=replace(SCRATCH, client_os="al2023", file_system_type_version="2.15"),
    fails=replace(SCRATCH, client_os="al2023", file_system_type_version="2.10"),
)
def _version_clients(settings: LustreSettings) -> Iterator[Problem]:
    if settings.client_os in NEW_CLIENTS and settings.file_system_type_version == OLD_SERVER:
        yield Problem(
            what=f"a Lustre 2.10 server does not serve the 2.15 client of {settings.client_os}",
            path="file_system_type_version",
            value=settings.file_system_type_version,
            allowed="2.12 or 2.15",
            fix="2.15",
        )


@rule(
    id="lustre.links-supported",
    statement="Only SSD and HDD file systems are linked to S3.",
    reason="INTELLIGENT_TIERING cannot have data repository associations.",
    source=f"{GUIDE}, data repositories",
    passes=replace(PERSISTENT_2, linked=True),
    fails=replace(TIERED, linked=True),
)
def _links_supported(settings: LustreSettings) -> Iterator[Problem]:
    row = row_of(settings)
    if settings.linked and row is not None and not row.links:
        yield Problem(
            what=f"S3 links are not supported on {kind_of(settings)}",
            path="linked",
            value=settings.linked,
            allowed="no links (a workload file says links: [])",
            fix="use SSD storage, or leave the links out",
        )


@rule(
    id="lustre.kms-scratch",
    statement="Only persistent file systems take a customer managed key.",
    reason="Scratch file systems are encrypted with a key of the service; FSx refuses another.",
    source=API,
    passes=replace(PERSISTENT_2, kms_key=True),
    fails=replace(SCRATCH, kms_key=True),
)
def _kms(settings: LustreSettings) -> Iterator[Problem]:
    row = row_of(settings)
    if settings.kms_key and row is not None and not row.kms:
        yield Problem(
            what=f"{kind_of(settings)} takes no customer managed key",
            path="kms_key",
            value=settings.kms_key if isinstance(settings.kms_key, str) else None,
            allowed="a key with persistent types",
            fix="leave the key out (FSx then encrypts with a key of its own), or use a persistent type",
        )


@rule(
    id="lustre.backups-scratch",
    statement="Only persistent file systems have backups.",
    reason="FSx refuses backups of scratch file systems.",
    source=API,
    passes=replace(PERSISTENT_2, backup_retention_days=7),
    fails=replace(SCRATCH, backup_retention_days=7),
)
def _backups(settings: LustreSettings) -> Iterator[Problem]:
    row = row_of(settings)
    if settings.backup_retention_days and row is not None and not row.backups:
        yield Problem(
            what=f"{kind_of(settings)} has no backups",
            path="backup_retention_days",
            value=settings.backup_retention_days,
            allowed="backups with persistent types",
            fix="leave it out; keep what matters in the data lake",
        )


@rule(
    id="lustre.backups-links",
    statement="A file system with links to S3 has no backups.",
    reason="FSx refuses the pair; linked data has its durable copy in the bucket.",
    source=f"{API}; aws-cloudformation/cloudformation-coverage-roadmap #1687",
    passes=replace(PERSISTENT_2, backup_retention_days=7, linked=False),
    fails=replace(PERSISTENT_2, backup_retention_days=7, linked=True),
)
def _backups_links(settings: LustreSettings) -> Iterator[Problem]:
    if settings.backup_retention_days and settings.linked:
        yield Problem(
            what="a file system with links to S3 cannot have backups",
            path="backup_retention_days",
            value=settings.backup_retention_days,
            allowed="backups, or links",
            fix="leave one of the two out",
        )


@rule(
    id="lustre.backup-retention",
    statement="Automatic backups are kept for 1 to 90 days.",
    reason="FSx refuses other numbers; 0 is no backups.",
    source=f"{API}; {GUIDE}, quotas",
    passes=replace(PERSISTENT_2, backup_retention_days=90),
    fails=replace(PERSISTENT_2, backup_retention_days=91),
)
def _backup_range(settings: LustreSettings) -> Iterator[Problem]:
    days = settings.backup_retention_days
    if days is not None and not 0 <= days <= _BACKUP_DAYS_MAX:
        yield Problem(
            what="backup retention out of range",
            path="backup_retention_days",
            value=days,
            allowed=f"1 to {_BACKUP_DAYS_MAX} days, or 0 for no backups",
        )


@rule(
    id="lustre.compression",
    statement="Data compression is LZ4 or NONE.",
    reason="FSx knows no other.",
    source=API,
    passes=replace(PERSISTENT_2, compression="LZ4"),
    fails=replace(PERSISTENT_2, compression="ZSTD"),
)
def _compression(settings: LustreSettings) -> Iterator[Problem]:
    if settings.compression is not None and settings.compression not in {"LZ4", "NONE"}:
        yield Problem(
            what="unknown data compression", path="compression", value=settings.compression, allowed="LZ4 or NONE"
        )


@rule(
    id="lustre.maintenance-window",
    statement="The weekly maintenance start is d:HH:MM in UTC, d from 1 (Monday) to 7.",
    reason="FSx refuses other forms.",
    source=API,
    passes=replace(PERSISTENT_2, weekly_maintenance_start_time="7:04:00"),
    fails=replace(PERSISTENT_2, weekly_maintenance_start_time="Sun:04:00"),
)
def _maintenance_window(settings: LustreSettings) -> Iterator[Problem]:
    given = settings.weekly_maintenance_start_time
    if given is not None and not _MAINTENANCE.fullmatch(given):
        yield Problem(
            what="not a weekly maintenance start",
            path="weekly_maintenance_start_time",
            value=given,
            allowed="d:HH:MM in UTC, d from 1 (Monday) to 7 (Sunday), such as 7:04:00",
        )


@rule(
    id="lustre.log-group",
    statement="The log group's name begins with /aws/fsx.",
    reason="FSx refuses other destinations.",
    source=API,
    passes=replace(PERSISTENT_2, log_group_name="/aws/fsx/training"),
    fails=replace(PERSISTENT_2, log_group_name="/training/fsx"),
)
def _log_group(settings: LustreSettings) -> Iterator[Problem]:
    if settings.log_group_name is not None and not settings.log_group_name.startswith("/aws/fsx"):
        yield Problem(
            what="FSx writes to no such log group",
            path="log_group_name",
            value=settings.log_group_name,
            allowed="a name that begins with /aws/fsx",
        )


FEATURE_RULES: Final[tuple[Rule[LustreSettings], ...]] = (
    _metadata_deployment_type,
    _metadata_mode,
    _metadata_pair,
    _metadata_iops,
    _metadata_floor,
    _version,
    _version_deployment_type,
    _version_metadata,
    _version_links,
    _version_clients,
    _links_supported,
    _kms,
    _backups,
    _backups_links,
    _backup_range,
    _compression,
    _maintenance_window,
    _log_group,
)
"""Metadata, version, links, key, backups, maintenance, logs."""
