"""Rules of an FSx for Lustre file system. The numbers are those of the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from training_storage.catalog import default_catalog
from training_storage.catalog.model import StorageOption
from training_storage.errors import Problem
from training_storage.rules.base import Rule

NEW_CLIENTS: Final = frozenset({"al2023", "rhel9", "rocky9", "ubuntu22.04", "ubuntu24.04"})
"""Operating systems whose Lustre client is 2.15, which a 2.10 server does not serve."""

_IT: Final = "INTELLIGENT_TIERING"
_IT_THROUGHPUT_STEP: Final = 4000
_IT_THROUGHPUT_MAX: Final = 2_000_000
_IT_METADATA_IOPS: Final = (6000, 12000)
_IT_CACHE_GIB_PER_STEP: Final = (32, 131_072)
_READ_CACHE_MODES: Final = ("NO_CACHE", "USER_PROVISIONED", "PROPORTIONAL_TO_THROUGHPUT_CAPACITY")
_BACKUP_DAYS_MAX: Final = 90
_MAINTENANCE = re.compile(r"[1-7]:(?:[01]\d|2[0-3]):[0-5]\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreSettings:
    """One file system as it would be asked for.

    Every field is None where it is not given or not known, and rules pass over None. Where leaving a field out is itself
    the mistake, name the field in ``omitted``.

    Attributes:
        deployment_type: ``SCRATCH_2``, ``PERSISTENT_1`` or ``PERSISTENT_2``.
        storage_type: ``SSD``, ``HDD`` or ``INTELLIGENT_TIERING``.
        storage_capacity_gib: Capacity in GiB.
        per_unit_storage_throughput: Throughput tier, MB/s per TiB.
        throughput_capacity_mb_per_s: INTELLIGENT_TIERING only, MB/s.
        metadata_mode: ``AUTOMATIC`` or ``USER_PROVISIONED``.
        metadata_iops: Provisioned metadata IOPS.
        efa: Whether the file system is EFA-enabled.
        gds: Whether clients are counted with GPUDirect Storage.
        compression: ``LZ4`` or ``NONE``.
        file_system_type_version: Lustre version such as ``2.15``.
        backup_retention_days: Days that automatic backups are kept; 0 is no backups.
        kms_key: The customer managed key, or True for one whose name is not known; None or False without one.
        linked: Whether the file system has a link to S3.
        drive_cache_type: HDD only: ``NONE`` or ``READ``.
        read_cache_mode: INTELLIGENT_TIERING only: how the SSD read cache is sized.
        read_cache_gib: Size of a ``USER_PROVISIONED`` read cache, GiB.
        subnet_count: Number of subnets given.
        weekly_maintenance_start_time: ``d:HH:MM`` in UTC, Monday is 1.
        log_group_name: Name of the log group that data repository events go to.
        client_os: Operating system of the clients, one of ``NEW_CLIENTS`` or another name.
        omitted: Names of fields that are known to be left out, as against not known yet.
    """

    deployment_type: str | None = None
    storage_type: str | None = None
    storage_capacity_gib: int | None = None
    per_unit_storage_throughput: int | None = None
    throughput_capacity_mb_per_s: int | None = None
    metadata_mode: str | None = None
    metadata_iops: int | None = None
    efa: bool | None = None
    gds: bool | None = None
    compression: str | None = None
    file_system_type_version: str | None = None
    backup_retention_days: int | None = None
    kms_key: bool | str | None = None
    linked: bool | None = None
    drive_cache_type: str | None = None
    read_cache_mode: str | None = None
    read_cache_gib: int | None = None
    subnet_count: int | None = None
    weekly_maintenance_start_time: str | None = None
    log_group_name: str | None = None
    client_os: str | None = None
    omitted: frozenset[str] = frozenset()


LUSTRE_CONSTRUCT_PATHS: Final[Mapping[str, str]] = {
    "efa": "efa_enabled",
    "compression": "data_compression_type",
    "backup_retention_days": "automatic_backup_retention_days",
    "subnet_count": "subnet",
    "log_group_name": "log_group",
}
"""Field paths of ``LUSTRE_RULES`` as arguments of ``LustreFileSystem`` where they differ; for ``base.relabel``."""

LUSTRE_WORKLOAD_PATHS: Final[Mapping[str, str]] = {
    "deployment_type": "lustre.deployment_type",
    "storage_type": "lustre.storage_type",
    "storage_capacity_gib": "lustre.storage_capacity",
    "per_unit_storage_throughput": "lustre.per_unit_storage_throughput",
    "throughput_capacity_mb_per_s": "lustre.throughput_capacity",
    "metadata_mode": "lustre.metadata_iops",
    "metadata_iops": "lustre.metadata_iops",
    "efa": "lustre.efa",
    "gds": "lustre.gds",
    "compression": "lustre.compression",
    "file_system_type_version": "lustre.file_system_type_version",
    "backup_retention_days": "lustre.backup_retention_days",
    "kms_key": "lustre.kms_key_arn",
    "linked": "lustre.links",
    "subnet_count": "network.subnet_id",
    "client_os": "compute.image",
}
"""Field paths of ``LUSTRE_RULES`` as fields of a workload file; for ``base.relabel``."""


def _row(settings: LustreSettings) -> StorageOption | None:
    """The catalog row of the deployment and storage type; None where there is no such pair or it is not known."""
    if settings.deployment_type is None or settings.storage_type is None:
        return None
    return default_catalog().lustre.option(settings.deployment_type, settings.storage_type)


def _kind(settings: LustreSettings) -> str:
    return f"{settings.deployment_type} {settings.storage_type}"


def _listed(values: tuple[int, ...] | tuple[str, ...]) -> str:
    words = [f"{value:,}" if isinstance(value, int) and value >= 10_000 else str(value) for value in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _deployment_type(settings: LustreSettings) -> Iterator[Problem]:
    known = default_catalog().lustre.deployment_types
    if settings.deployment_type is not None and settings.deployment_type not in known:
        yield Problem(
            what="unknown deployment type",
            path="deployment_type",
            value=settings.deployment_type,
            allowed=_listed(known),
        )


def _storage_type(settings: LustreSettings) -> Iterator[Problem]:
    lustre = default_catalog().lustre
    if settings.deployment_type not in lustre.deployment_types or settings.storage_type is None:
        return
    if _row(settings) is None:
        yield Problem(
            what=f"{settings.deployment_type} has no such storage type",
            path="storage_type",
            value=settings.storage_type,
            allowed=_listed(lustre.storage_types(settings.deployment_type)),
        )


def _capacity_required(settings: LustreSettings) -> Iterator[Problem]:
    row = _row(settings)
    if row is not None and row.step_gib and "storage_capacity_gib" in settings.omitted:
        yield Problem(what=f"{_kind(settings)} needs a capacity", path="storage_capacity_gib", allowed=_steps(row, None))


def _steps(row: StorageOption, tier: int | None) -> str:
    step = row.step_gib.get(tier or 0) or row.step_gib.get(0)
    if step is None:  # the step depends on a tier that is not known yet
        return ", ".join(f"multiples of {gib:,} GiB at {key} MB/s per TiB" for key, gib in sorted(row.step_gib.items()))
    first = [gib for gib in row.first_gib if gib != step]
    return (f"{', '.join(map(str, first))}, then " if first else "") + f"multiples of {step} GiB"


def _illegal_capacity(settings: LustreSettings, *, efa: bool, what: str) -> Iterator[Problem]:
    row, gib, tier = _row(settings), settings.storage_capacity_gib, settings.per_unit_storage_throughput
    if row is None or gib is None or not row.step_gib or (tier is not None and row.tiers and tier not in row.tiers):
        return
    steps = row.efa_step_gib if efa else row.step_gib
    tiers = (tier,) if tier is not None and row.tiers else tuple(row.tiers) or (0,)
    lustre = default_catalog().lustre
    if any(lustre.is_legal_capacity(row, gib, tier=each, efa=efa) for each in tiers):
        return
    near = sorted({size for each in tiers for size in lustre.neighbours(row, gib, tier=each, efa=efa) if size})
    if efa:
        allowed = ", ".join(f"multiples of {steps[each]} GiB at {each} MB/s per TiB" for each in tiers)
    else:
        allowed = _steps(row, tier)
    yield Problem(what=what, path="storage_capacity_gib", value=gib, allowed=allowed, fix=f"{_listed(tuple(map(str, near)))} GiB")


def _capacity_step(settings: LustreSettings) -> Iterator[Problem]:
    yield from _illegal_capacity(settings, efa=False, what=f"no capacity of {_kind(settings)}")


def _efa_capacity_step(settings: LustreSettings) -> Iterator[Problem]:
    row = _row(settings)
    if settings.efa and row is not None and row.efa_step_gib:
        yield from _illegal_capacity(settings, efa=True, what="no capacity of an EFA-enabled file system")


def _efa_deployment_type(settings: LustreSettings) -> Iterator[Problem]:
    row = _row(settings)
    if settings.efa and row is not None and not row.metadata_configuration:
        yield Problem(
            what=f"{_kind(settings)} cannot be EFA-enabled",
            path="efa",
            value=settings.efa,
            allowed="EFA with PERSISTENT_2",
            fix="use PERSISTENT_2, or leave EFA off",
        )


def _efa_metadata(settings: LustreSettings) -> Iterator[Problem]:
    if settings.efa and "metadata_mode" in settings.omitted:
        yield Problem(
            what="an EFA-enabled file system needs a metadata configuration",
            path="metadata_mode",
            allowed="AUTOMATIC or USER_PROVISIONED",
        )


def _gds_efa(settings: LustreSettings) -> Iterator[Problem]:
    if settings.gds and settings.efa is False:
        yield Problem(
            what="GPUDirect Storage works over EFA only",
            path="gds",
            value=settings.gds,
            allowed="gds with an EFA-enabled file system",
        )


def _tier(settings: LustreSettings) -> Iterator[Problem]:
    row, tier = _row(settings), settings.per_unit_storage_throughput
    if row is not None and row.tiers and tier is not None and tier not in row.tiers:
        yield Problem(
            what=f"no throughput tier of {_kind(settings)}",
            path="per_unit_storage_throughput",
            value=tier,
            allowed=f"{_listed(row.tiers)} MB/s per TiB",
        )


def _tier_required(settings: LustreSettings) -> Iterator[Problem]:
    row = _row(settings)
    if row is not None and row.tiers and "per_unit_storage_throughput" in settings.omitted:
        yield Problem(
            what=f"{_kind(settings)} needs a throughput tier",
            path="per_unit_storage_throughput",
            allowed=f"{_listed(row.tiers)} MB/s per TiB",
        )


def _tier_forbidden(settings: LustreSettings) -> Iterator[Problem]:
    row = _row(settings)
    if row is not None and not row.tiers and settings.per_unit_storage_throughput is not None:
        yield Problem(
            what=f"{_kind(settings)} has no throughput tiers",
            path="per_unit_storage_throughput",
            value=settings.per_unit_storage_throughput,
            allowed="nothing",
            fix="leave it out, or use a persistent SSD type",
        )


def _metadata_deployment_type(settings: LustreSettings) -> Iterator[Problem]:
    row = _row(settings)
    if row is None or row.metadata_configuration:
        return
    for path, value in (("metadata_mode", settings.metadata_mode), ("metadata_iops", settings.metadata_iops)):
        if value is not None:
            yield Problem(
                what=f"{_kind(settings)} has no metadata configuration",
                path=path,
                value=value,
                allowed="a metadata configuration with PERSISTENT_2",
                fix="leave it out, or use PERSISTENT_2",
            )


def _metadata_mode(settings: LustreSettings) -> Iterator[Problem]:
    if settings.metadata_mode is not None and settings.metadata_mode not in {"AUTOMATIC", "USER_PROVISIONED"}:
        yield Problem(
            what="unknown metadata mode",
            path="metadata_mode",
            value=settings.metadata_mode,
            allowed="AUTOMATIC or USER_PROVISIONED",
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
        yield Problem(what="USER_PROVISIONED needs a number of metadata IOPS", path="metadata_iops", allowed=_iops_form())


def _iops_form() -> str:
    values = default_catalog().lustre.metadata_iops_values
    step = values[-1] - values[-2]
    below = [value for value in values if value < step]
    return f"{', '.join(map(str, below))}, then multiples of {step} to {values[-1]}"


def _metadata_iops(settings: LustreSettings) -> Iterator[Problem]:
    values = default_catalog().lustre.metadata_iops_values
    if settings.metadata_iops is None or settings.storage_type == _IT or settings.metadata_iops in values:
        return
    near = [
        *[value for value in values if value < settings.metadata_iops][-1:],
        *[value for value in values if value > settings.metadata_iops][:1],
    ]
    yield Problem(
        what="no legal number of metadata IOPS",
        path="metadata_iops",
        value=settings.metadata_iops,
        allowed=_iops_form(),
        fix=_listed(tuple(map(str, near))),
    )


def _metadata_floor(settings: LustreSettings) -> Iterator[Problem]:
    row, gib, iops = _row(settings), settings.storage_capacity_gib, settings.metadata_iops
    if row is None or not row.metadata_configuration or gib is None or iops is None or settings.storage_type == _IT:
        return
    if any(_capacity_step(settings)) or iops not in default_catalog().lustre.metadata_iops_values:
        return  # said by the rules for those
    floor = default_catalog().lustre.automatic_metadata_iops(gib)
    if iops < floor:
        yield Problem(
            what=f"fewer metadata IOPS than AUTOMATIC gives at {gib} GiB",
            path="metadata_iops",
            value=iops,
            allowed=f"{floor} or more",
            fix=f"{floor}, or AUTOMATIC",
        )


def _version(settings: LustreSettings) -> Iterator[Problem]:
    known = default_catalog().lustre.versions
    if settings.file_system_type_version is not None and settings.file_system_type_version not in known:
        yield Problem(
            what="unknown Lustre version",
            path="file_system_type_version",
            value=settings.file_system_type_version,
            allowed=_listed(known),
        )


def _version_deployment_type(settings: LustreSettings) -> Iterator[Problem]:
    row, version = _row(settings), settings.file_system_type_version
    if row is None or version not in default_catalog().lustre.versions or version in row.versions:
        return
    yield Problem(
        what=f"{_kind(settings)} cannot be made with Lustre {version}",
        path="file_system_type_version",
        value=version,
        allowed=_listed(row.versions),
    )


def _version_metadata(settings: LustreSettings) -> Iterator[Problem]:
    version = settings.file_system_type_version
    row = _row(settings)
    if row is not None and not row.metadata_configuration:
        return
    if settings.metadata_mode is not None and version in default_catalog().lustre.versions and version != "2.15":
        yield Problem(
            what="a metadata configuration needs Lustre 2.15",
            path="file_system_type_version",
            value=version,
            allowed="2.15",
        )


def _version_links(settings: LustreSettings) -> Iterator[Problem]:
    if settings.linked and settings.file_system_type_version == "2.10":
        yield Problem(
            what="Lustre 2.10 has no links to S3",
            path="file_system_type_version",
            value=settings.file_system_type_version,
            allowed="2.12 or 2.15 with links",
            fix="2.15",
        )


def _version_clients(settings: LustreSettings) -> Iterator[Problem]:
    if settings.client_os in NEW_CLIENTS and settings.file_system_type_version == "2.10":
        yield Problem(
            what=f"a Lustre 2.10 server does not serve the 2.15 client of {settings.client_os}",
            path="file_system_type_version",
            value=settings.file_system_type_version,
            allowed="2.12 or 2.15",
            fix="2.15",
        )


def _links_supported(settings: LustreSettings) -> Iterator[Problem]:
    row = _row(settings)
    if settings.linked and row is not None and not row.links:
        yield Problem(
            what=f"S3 links are not supported on {_kind(settings)}",
            path="linked",
            value=settings.linked,
            allowed="no links (a workload file says links: [])",
            fix="use SSD storage, or leave the links out",
        )


def _kms(settings: LustreSettings) -> Iterator[Problem]:
    row = _row(settings)
    if settings.kms_key and row is not None and not row.kms:
        yield Problem(
            what=f"{_kind(settings)} takes no customer managed key",
            path="kms_key",
            value=settings.kms_key if isinstance(settings.kms_key, str) else None,
            allowed="a key with persistent types",
            fix="leave the key out (FSx then encrypts with a key of its own), or use a persistent type",
        )


def _backups(settings: LustreSettings) -> Iterator[Problem]:
    row = _row(settings)
    if settings.backup_retention_days and row is not None and not row.backups:
        yield Problem(
            what=f"{_kind(settings)} has no backups",
            path="backup_retention_days",
            value=settings.backup_retention_days,
            allowed="backups with persistent types",
            fix="leave it out; keep what matters in the data lake",
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


def _backup_range(settings: LustreSettings) -> Iterator[Problem]:
    days = settings.backup_retention_days
    if days is not None and not 0 <= days <= _BACKUP_DAYS_MAX:
        yield Problem(
            what="backup retention out of range",
            path="backup_retention_days",
            value=days,
            allowed=f"1 to {_BACKUP_DAYS_MAX} days, or 0 for no backups",
        )


def _drive_cache(settings: LustreSettings) -> Iterator[Problem]:
    cache = settings.drive_cache_type
    if settings.storage_type is None:
        return
    if settings.storage_type != "HDD" and cache is not None:
        yield Problem(
            what=f"{settings.storage_type} storage has no drive cache",
            path="drive_cache_type",
            value=cache,
            allowed="a drive cache with HDD",
        )
    if settings.storage_type == "HDD" and ("drive_cache_type" in settings.omitted or (cache or "NONE") not in {"NONE", "READ"}):
        yield Problem(
            what="HDD storage needs a drive cache type", path="drive_cache_type", value=cache, allowed="NONE or READ"
        )


def _it_throughput(settings: LustreSettings) -> Iterator[Problem]:
    given, storage = settings.throughput_capacity_mb_per_s, settings.storage_type
    if storage is None:
        return
    form = f"multiples of {_IT_THROUGHPUT_STEP} MB/s to {_IT_THROUGHPUT_MAX}"
    path = "throughput_capacity_mb_per_s"
    if storage != _IT and given is not None:
        yield Problem(
            what=f"{storage} storage has no throughput capacity",
            path=path,
            value=given,
            allowed="a throughput capacity with INTELLIGENT_TIERING",
            fix="give per_unit_storage_throughput instead",
        )
    elif storage == _IT and given is None and path in settings.omitted:
        yield Problem(what="INTELLIGENT_TIERING needs a throughput capacity", path=path, allowed=form)
    elif storage == _IT and given is not None and (given % _IT_THROUGHPUT_STEP or not 0 < given <= _IT_THROUGHPUT_MAX):
        yield Problem(what="no throughput capacity of INTELLIGENT_TIERING", path=path, value=given, allowed=form)


def _it_capacity(settings: LustreSettings) -> Iterator[Problem]:
    if settings.storage_type == _IT and settings.storage_capacity_gib is not None:
        yield Problem(
            what="INTELLIGENT_TIERING grows and shrinks by itself and takes no capacity",
            path="storage_capacity_gib",
            value=settings.storage_capacity_gib,
            allowed="nothing",
            fix="leave it out",
        )


def _it_read_cache(settings: LustreSettings) -> Iterator[Problem]:
    mode, gib, throughput = settings.read_cache_mode, settings.read_cache_gib, settings.throughput_capacity_mb_per_s
    if settings.storage_type is None:
        return
    if settings.storage_type != _IT:
        for path, value in (("read_cache_mode", mode), ("read_cache_gib", gib)):
            if value is not None:
                yield Problem(
                    what=f"{settings.storage_type} storage has no read cache",
                    path=path,
                    value=value,
                    allowed="a read cache with INTELLIGENT_TIERING",
                )
        return
    if "read_cache_mode" in settings.omitted or (mode is not None and mode not in _READ_CACHE_MODES):
        yield Problem(
            what="INTELLIGENT_TIERING needs a read cache mode",
            path="read_cache_mode",
            value=mode,
            allowed=_listed(_READ_CACHE_MODES),
        )
    if gib is not None and mode is not None and mode != "USER_PROVISIONED":
        yield Problem(
            what="read cache size given, but not USER_PROVISIONED",
            path="read_cache_gib",
            value=gib,
            allowed="a size with USER_PROVISIONED only",
        )
    if gib is not None and throughput is not None and not any(_it_throughput(settings)):
        low, high = (each * throughput // _IT_THROUGHPUT_STEP for each in _IT_CACHE_GIB_PER_STEP)
        if not low <= gib <= high:
            yield Problem(
                what=f"read cache size out of range at {throughput} MB/s",
                path="read_cache_gib",
                value=gib,
                allowed=f"{low} to {high} GiB",
            )


def _it_metadata(settings: LustreSettings) -> Iterator[Problem]:
    if settings.storage_type != _IT:
        return
    if settings.metadata_mode == "AUTOMATIC" or settings.metadata_iops not in {None, *_IT_METADATA_IOPS}:
        yield Problem(
            what="no metadata configuration of INTELLIGENT_TIERING",
            path="metadata_iops",
            value=settings.metadata_iops if settings.metadata_iops is not None else settings.metadata_mode,
            allowed=f"USER_PROVISIONED with {_listed(tuple(map(str, _IT_METADATA_IOPS)))}",
        )


def _compression(settings: LustreSettings) -> Iterator[Problem]:
    if settings.compression is not None and settings.compression not in {"LZ4", "NONE"}:
        yield Problem(
            what="unknown data compression", path="compression", value=settings.compression, allowed="LZ4 or NONE"
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


def _log_group(settings: LustreSettings) -> Iterator[Problem]:
    if settings.log_group_name is not None and not settings.log_group_name.startswith("/aws/fsx"):
        yield Problem(
            what="FSx writes to no such log group",
            path="log_group_name",
            value=settings.log_group_name,
            allowed="a name that begins with /aws/fsx",
        )


def _one_subnet(settings: LustreSettings) -> Iterator[Problem]:
    if settings.subnet_count is not None and settings.subnet_count != 1:
        yield Problem(
            what="a Lustre file system stands in one subnet",
            path="subnet_count",
            value=settings.subnet_count,
            allowed="exactly 1 subnet, in the zone of the clients",
        )


_P2 = LustreSettings(
    deployment_type="PERSISTENT_2",
    storage_type="SSD",
    storage_capacity_gib=4800,
    per_unit_storage_throughput=250,
    metadata_mode="AUTOMATIC",
    file_system_type_version="2.15",
    efa=False,
)
_SCRATCH = LustreSettings(deployment_type="SCRATCH_2", storage_type="SSD", storage_capacity_gib=1200)
_HDD = LustreSettings(
    deployment_type="PERSISTENT_1",
    storage_type="HDD",
    storage_capacity_gib=6000,
    per_unit_storage_throughput=12,
    drive_cache_type="NONE",
)
_TIERED = LustreSettings(
    deployment_type="PERSISTENT_2",
    storage_type=_IT,
    throughput_capacity_mb_per_s=4000,
    metadata_mode="USER_PROVISIONED",
    metadata_iops=6000,
    read_cache_mode="NO_CACHE",
)

_API = "FSx API reference, CreateFileSystem and CreateFileSystemLustreConfiguration"
_GUIDE = "FSx for Lustre User Guide"


def _rule(
    name: str,
    statement: str,
    reason: str,
    source: str,
    check: Callable[[LustreSettings], Iterator[Problem]],
    passes: LustreSettings,
    fails: LustreSettings,
) -> Rule[LustreSettings]:
    return Rule(
        id=f"lustre.{name}",
        statement=statement,
        reason=reason,
        source=source,
        check=check,
        passes=passes,
        fails=fails,
    )


LUSTRE_RULES: Final[tuple[Rule[LustreSettings], ...]] = (
    _rule(
        "deployment-type",
        "The deployment type is SCRATCH_2, PERSISTENT_1 or PERSISTENT_2.",
        "SCRATCH_1 can neither grow nor be linked to S3, and FSx takes it when no type is named.",
        _API,
        _deployment_type,
        _P2,
        replace(_P2, deployment_type="SCRATCH_1"),
    ),
    _rule(
        "storage-type",
        "HDD storage goes with PERSISTENT_1, INTELLIGENT_TIERING with PERSISTENT_2, SSD with every type.",
        "FSx refuses other pairs.",
        _API,
        _storage_type,
        _HDD,
        replace(_HDD, deployment_type="PERSISTENT_2"),
    ),
    _rule(
        "capacity-required",
        "SSD and HDD file systems have a storage capacity.",
        "FSx has no default for it.",
        _API,
        _capacity_required,
        _P2,
        replace(_P2, storage_capacity_gib=None, omitted=frozenset({"storage_capacity_gib"})),
    ),
    _rule(
        "capacity-step",
        "The capacity is a legal one of its deployment type, storage type and tier.",
        "FSx refuses sizes between the steps; no linter knows them. There is no upper bound but the account quota.",
        _API,
        _capacity_step,
        _P2,
        replace(_P2, storage_capacity_gib=3600),
    ),
    _rule(
        "efa-capacity-step",
        "With EFA the capacity is a multiple of 38,400, 19,200, 9,600 or 4,800 GiB at 125, 250, 500 or 1000 MB/s per TiB.",
        "EFA-enabled file systems are built of larger servers; FSx refuses smaller ones.",
        f"{_GUIDE}, getting started; aws-pcs operations notes in awslabs/awsome-distributed-ai",
        _efa_capacity_step,
        replace(_P2, efa=True, storage_capacity_gib=19_200),
        replace(_P2, efa=True, storage_capacity_gib=1200),
    ),
    _rule(
        "efa-deployment-type",
        "Only PERSISTENT_2 file systems are EFA-enabled.",
        "FSx refuses EFA on other types, and it can never be switched on later.",
        _API,
        _efa_deployment_type,
        replace(_P2, efa=True, storage_capacity_gib=19_200),
        replace(_SCRATCH, efa=True),
    ),
    _rule(
        "efa-metadata",
        "An EFA-enabled file system has a metadata configuration.",
        "The guide asks for one; without it FSx may refuse the file system.",
        _GUIDE,
        _efa_metadata,
        replace(_P2, efa=True, storage_capacity_gib=19_200),
        replace(
            _P2, efa=True, storage_capacity_gib=19_200, metadata_mode=None, omitted=frozenset({"metadata_mode"})
        ),
    ),
    _rule(
        "gds-efa",
        "GPUDirect Storage is counted with an EFA-enabled file system only.",
        "It moves data over EFA straight into GPU memory; over TCP there is no such way.",
        f"{_GUIDE}, performance",
        _gds_efa,
        replace(_P2, efa=True, gds=True),
        replace(_P2, efa=False, gds=True),
    ),
    _rule(
        "throughput-tier",
        "The throughput tier is one that its deployment and storage type has.",
        "FSx refuses other values.",
        _API,
        _tier,
        _P2,
        replace(_P2, per_unit_storage_throughput=200),
    ),
    _rule(
        "throughput-required",
        "Persistent SSD and HDD file systems have a throughput tier.",
        "FSx refuses a persistent file system without one.",
        _API,
        _tier_required,
        _P2,
        replace(_P2, per_unit_storage_throughput=None, omitted=frozenset({"per_unit_storage_throughput"})),
    ),
    _rule(
        "throughput-forbidden",
        "Scratch and INTELLIGENT_TIERING file systems have no throughput tier.",
        "FSx refuses a scratch file system with one.",
        _API,
        _tier_forbidden,
        _SCRATCH,
        replace(_SCRATCH, per_unit_storage_throughput=200),
    ),
    _rule(
        "metadata-deployment-type",
        "Only PERSISTENT_2 file systems have a metadata configuration.",
        "FSx refuses it on other types.",
        _API,
        _metadata_deployment_type,
        _P2,
        replace(_SCRATCH, metadata_mode="AUTOMATIC"),
    ),
    _rule(
        "metadata-mode",
        "The metadata mode is AUTOMATIC or USER_PROVISIONED.",
        "FSx knows no other.",
        _API,
        _metadata_mode,
        _P2,
        replace(_P2, metadata_mode="MANUAL"),
    ),
    _rule(
        "metadata-pair",
        "Metadata IOPS are given with USER_PROVISIONED, and only with it.",
        "FSx refuses a number in AUTOMATIC mode and asks for one in the other.",
        _API,
        _metadata_pair,
        replace(_P2, metadata_mode="USER_PROVISIONED", metadata_iops=12_000),
        replace(_P2, metadata_iops=12_000),
    ),
    _rule(
        "metadata-iops",
        "Metadata IOPS of SSD file systems are 1500, 3000, 6000, 12000, then multiples of 12000 to 192000.",
        "FSx refuses other numbers.",
        _API,
        _metadata_iops,
        replace(_P2, metadata_mode="USER_PROVISIONED", metadata_iops=24_000),
        replace(_P2, metadata_mode="USER_PROVISIONED", metadata_iops=18_000),
    ),
    _rule(
        "metadata-floor",
        "Provisioned metadata IOPS are not below what AUTOMATIC gives at the capacity.",
        "FSx refuses fewer, also when a later growth raises the automatic number above them.",
        f"{_API}; hashicorp/terraform-provider-aws #44432",
        _metadata_floor,
        replace(_P2, metadata_mode="USER_PROVISIONED", metadata_iops=6000),
        replace(_P2, metadata_mode="USER_PROVISIONED", metadata_iops=3000),
    ),
    _rule(
        "version",
        "The Lustre version is 2.10, 2.12 or 2.15.",
        "FSx knows no other.",
        _API,
        _version,
        _P2,
        replace(_P2, file_system_type_version="2.17"),
    ),
    _rule(
        "version-deployment-type",
        "The Lustre version is one that the deployment type can be made with; PERSISTENT_2 is never 2.10.",
        "FSx refuses the pair.",
        _API,
        _version_deployment_type,
        _P2,
        replace(_P2, file_system_type_version="2.10", metadata_mode=None),
    ),
    _rule(
        "version-metadata",
        "A metadata configuration goes with Lustre 2.15.",
        "FSx refuses it with older versions, and it can never be added later.",
        _API,
        _version_metadata,
        _P2,
        replace(_P2, file_system_type_version="2.12"),
    ),
    _rule(
        "version-links",
        "A file system with links to S3 is not Lustre 2.10.",
        "Data repository associations exist from 2.12 on.",
        _API,
        _version_links,
        replace(_SCRATCH, linked=True, file_system_type_version="2.12"),
        replace(_SCRATCH, linked=True, file_system_type_version="2.10"),
    ),
    _rule(
        "version-clients",
        "Clients of Amazon Linux 2023, Ubuntu 22.04 and 24.04, RHEL 9 and Rocky 9 find a server of 2.12 or 2.15.",
        "Their Lustre client is 2.15, and mounting a 2.10 server ends in an I/O error.",
        f"{_GUIDE}, Lustre client matrix; amazonlinux/amazon-linux-2023 #723",
        _version_clients,
        replace(_SCRATCH, client_os="al2023", file_system_type_version="2.15"),
        replace(_SCRATCH, client_os="al2023", file_system_type_version="2.10"),
    ),
    _rule(
        "links-supported",
        "Only SSD and HDD file systems are linked to S3.",
        "INTELLIGENT_TIERING cannot have data repository associations.",
        f"{_GUIDE}, data repositories",
        _links_supported,
        replace(_P2, linked=True),
        replace(_TIERED, linked=True),
    ),
    _rule(
        "kms-scratch",
        "Only persistent file systems take a customer managed key.",
        "Scratch file systems are encrypted with a key of the service; FSx refuses another.",
        _API,
        _kms,
        replace(_P2, kms_key=True),
        replace(_SCRATCH, kms_key=True),
    ),
    _rule(
        "backups-scratch",
        "Only persistent file systems have backups.",
        "FSx refuses backups of scratch file systems.",
        _API,
        _backups,
        replace(_P2, backup_retention_days=7),
        replace(_SCRATCH, backup_retention_days=7),
    ),
    _rule(
        "backups-links",
        "A file system with links to S3 has no backups.",
        "FSx refuses the pair; linked data has its durable copy in the bucket.",
        f"{_API}; aws-cloudformation/cloudformation-coverage-roadmap #1687",
        _backups_links,
        replace(_P2, backup_retention_days=7, linked=False),
        replace(_P2, backup_retention_days=7, linked=True),
    ),
    _rule(
        "backup-retention",
        "Automatic backups are kept for 1 to 90 days.",
        "FSx refuses other numbers; 0 is no backups.",
        f"{_API}; {_GUIDE}, quotas",
        _backup_range,
        replace(_P2, backup_retention_days=90),
        replace(_P2, backup_retention_days=91),
    ),
    _rule(
        "drive-cache",
        "HDD file systems say whether they have an SSD read cache; other types do not.",
        "FSx requires the drive cache type with HDD and refuses it elsewhere.",
        _API,
        _drive_cache,
        _HDD,
        replace(_P2, drive_cache_type="READ"),
    ),
    _rule(
        "tiering-throughput",
        "INTELLIGENT_TIERING has a throughput capacity in multiples of 4000 MB/s to 2,000,000; other types have none.",
        "The newest API text also names 1000 and 2000; multiples of 4000 are right in every source.",
        f"{_API}; {_GUIDE}, Intelligent-Tiering",
        _it_throughput,
        _TIERED,
        replace(_TIERED, throughput_capacity_mb_per_s=3000),
    ),
    _rule(
        "tiering-capacity",
        "INTELLIGENT_TIERING takes no storage capacity.",
        "It grows and shrinks with the data.",
        _API,
        _it_capacity,
        _TIERED,
        replace(_TIERED, storage_capacity_gib=4800),
    ),
    _rule(
        "tiering-read-cache",
        "INTELLIGENT_TIERING says how its read cache is sized: 32 to 131,072 GiB per 4000 MB/s where the size is given.",
        "FSx requires the read cache configuration there and refuses it elsewhere.",
        f"{_API}; {_GUIDE}, Intelligent-Tiering",
        _it_read_cache,
        replace(_TIERED, read_cache_mode="USER_PROVISIONED", read_cache_gib=32),
        replace(_TIERED, read_cache_mode="USER_PROVISIONED", read_cache_gib=16),
    ),
    _rule(
        "tiering-metadata",
        "INTELLIGENT_TIERING has USER_PROVISIONED metadata of 6000 or 12000 IOPS.",
        "The newest API text allows more; this set is right in every source.",
        f"{_GUIDE}, Intelligent-Tiering; aws-samples/aws-hpc-recipes",
        _it_metadata,
        _TIERED,
        replace(_TIERED, metadata_mode="AUTOMATIC", metadata_iops=None),
    ),
    _rule(
        "compression",
        "Data compression is LZ4 or NONE.",
        "FSx knows no other.",
        _API,
        _compression,
        replace(_P2, compression="LZ4"),
        replace(_P2, compression="ZSTD"),
    ),
    _rule(
        "maintenance-window",
        "The weekly maintenance start is d:HH:MM in UTC, d from 1 (Monday) to 7.",
        "FSx refuses other forms.",
        _API,
        _maintenance_window,
        replace(_P2, weekly_maintenance_start_time="7:04:00"),
        replace(_P2, weekly_maintenance_start_time="Sun:04:00"),
    ),
    _rule(
        "log-group",
        "The log group's name begins with /aws/fsx.",
        "FSx refuses other destinations.",
        _API,
        _log_group,
        replace(_P2, log_group_name="/aws/fsx/training"),
        replace(_P2, log_group_name="/training/fsx"),
    ),
    _rule(
        "one-subnet",
        "A Lustre file system stands in exactly one subnet.",
        "FSx refuses more; a file system lives in one zone, like the GPUs that read it.",
        _API,
        _one_subnet,
        replace(_P2, subnet_count=1),
        replace(_P2, subnet_count=2),
    ),
)
"""Every rule of one file system."""
