"""What a rule of a Lustre file system looks at, and how its fields are called elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from training_storage.catalog import Catalog
from training_storage.catalog.lustre import LustreCatalog
from training_storage.catalog.model import InstanceType, StorageOption
from training_storage.rules.subject import Subject, catalog_of

NEW_CLIENTS: Final = frozenset({"al2023", "rhel9", "rocky9", "ubuntu22.04", "ubuntu24.04"})
"""Operating systems whose Lustre client is 2.15, which a 2.10 server does not serve."""

OLD_SERVER: Final = "2.10"
"""The version that has no links to S3 and does not serve new clients."""

_IMAGE_PARTS: Final[Mapping[str, str]] = {
    "amazon-linux-2023": "al2023",
    "al2023": "al2023",
    "ubuntu-22.04": "ubuntu22.04",
    "ubuntu-24.04": "ubuntu24.04",
}
"""Operating system by a part of the parameter name of an image (AWS Systems Manager public parameters)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreSettings(Subject):
    """One file system as it would be asked for.

    Every field is None where it is not given or not known, and rules pass over None. Where leaving a field out is
    itself the mistake, name the field in ``omitted``.

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
        region: Region that it stands in, such as ``us-east-1``.
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
    region: str | None = None
    omitted: frozenset[str] = frozenset()
    # Nearly every rule asks for these two, so they are looked up once.
    _lustre: LustreCatalog = field(init=False, compare=False, repr=False)
    _row: StorageOption | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        lustre = catalog_of(self).lustre
        known = self.deployment_type is not None and self.storage_type is not None
        row = lustre.option(self.deployment_type or "", self.storage_type or "") if known else None
        object.__setattr__(self, "_lustre", lustre)
        object.__setattr__(self, "_row", row)


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
    "drive_cache_type": "lustre.drive_cache",
    "read_cache_mode": "lustre.read_cache",
    "read_cache_gib": "lustre.read_cache",
    "subnet_count": "network.subnet_id",
    "client_os": "compute.image",
}
"""Field paths of ``LUSTRE_RULES`` as fields of a workload file; for ``base.relabel``."""


def lustre_of(settings: LustreSettings) -> LustreCatalog:
    """The facts of FSx for Lustre that the settings are held against."""
    return settings._lustre


def client_os(image: str | None, facts: InstanceType | None, catalog: Catalog) -> str | None:
    """Return the operating system of the clients where the image says it, else None.

    Args:
        image: ``auto``, ``ami-...`` or ``ssm:/parameter/name``; parameters of public images carry the name.
        facts: Row of the instance type, which ``auto`` takes the image from.
        catalog: Where the parameters of public images stand.
    """
    name = image or ""
    if image == "auto":
        name = (catalog.image_parameter(facts) if facts is not None else None) or ""
    return next((known for part, known in _IMAGE_PARTS.items() if part in name), None)


def row_of(settings: LustreSettings) -> StorageOption | None:
    """The catalog row of the deployment and storage type; None where there is no such pair or it is not known."""
    return settings._row


def kind_of(settings: LustreSettings) -> str:
    """Deployment and storage type as messages say them."""
    return f"{settings.deployment_type} {settings.storage_type}"


def listed(values: tuple[int, ...] | tuple[str, ...]) -> str:
    """Values as messages say them: ``125, 250, 500 or 1000``."""
    words = list(map(str, values))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


API: Final = "FSx API reference, CreateFileSystem and CreateFileSystemLustreConfiguration"
GUIDE: Final = "FSx for Lustre User Guide"
TIERING: Final = "INTELLIGENT_TIERING"

# Subjects that keep every rule, from which the pairs of the rules are made.
PERSISTENT_2: Final = LustreSettings(
    deployment_type="PERSISTENT_2",
    storage_type="SSD",
    storage_capacity_gib=4800,
    per_unit_storage_throughput=250,
    metadata_mode="AUTOMATIC",
    file_system_type_version="2.15",
    efa=False,
)
SCRATCH: Final = LustreSettings(deployment_type="SCRATCH_2", storage_type="SSD", storage_capacity_gib=1200)
HDD: Final = LustreSettings(
    deployment_type="PERSISTENT_1",
    storage_type="HDD",
    storage_capacity_gib=6000,
    per_unit_storage_throughput=12,
    drive_cache_type="NONE",
)
TIERED: Final = LustreSettings(
    deployment_type="PERSISTENT_2",
    storage_type=TIERING,
    throughput_capacity_mb_per_s=4000,
    metadata_mode="USER_PROVISIONED",
    metadata_iops=6000,
    read_cache_mode="NO_CACHE",
)
