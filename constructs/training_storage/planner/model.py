"""The plan: what is asked of the storage, what is chosen, and why. Frozen; nothing above it works a number out again.

Decimal MB/s; GiB for capacities; None where a figure does not apply or is not known. ``Plan.to_dict`` has the shape of
the contract, every key always present.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Literal

from training_storage.catalog import Catalog
from training_storage.catalog.model import InstanceType
from training_storage.planner.model_cost import Cost
from training_storage.planner.model_prediction import Prediction
from training_storage.workload.model import Workload

HotTier = Literal["none", "lustre", "express"]
FileAccess = Literal["none", "mountpoint", "s3-files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the workload asks for; see contract section 3 for each figure."""

    read_mb_per_s: float | None
    read_mb_per_s_per_instance: float | None
    read_mb_per_s_per_accelerator: float | None
    file_opens_per_s: float | None
    checkpoint_gib: float | None
    checkpoint_write_mb_per_s: float | None
    restore_read_mb_per_s: float | None
    required_mb_per_s: float | None
    hot_capacity_gib: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """Which tiers hold the data and how nodes see the lake as files."""

    data_lake: bool
    hot: HotTier
    file_access: FileAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputePlan:
    """The fleet as it will be launched: every ``auto`` resolved.

    Attributes:
        instance_type: EC2 name.
        instance_count: Instances.
        purchase: ``on-demand``, ``spot``, ``reservation`` or ``capacity-block``.
        efa: Whether the fleet gets EFA interfaces.
        placement_group: ``cluster`` or ``none``.
        mountpoint_gbps: Rate passed to Mountpoint as its maximum throughput, Gbit/s.
        facts: The catalog row, or the row made from ``type_facts``; not printed.
    """

    instance_type: str
    instance_count: int
    purchase: str
    efa: bool
    placement_group: Literal["cluster", "none"]
    mountpoint_gbps: float
    facts: InstanceType = field(metadata={"print": False})


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPlan:
    """One data repository association.

    Attributes:
        path: Path on the file system such as ``/datasets``.
        bucket: Bucket name, or None for the data lake of this workload (whose name may not be known yet).
        prefix: Key prefix with a trailing slash; empty for the whole bucket.
        import_events: ``new``, ``changed``, ``deleted``: what FSx imports by itself.
        export_events: The same for export; empty by default, so that pruning never deletes in S3.
        import_metadata_on_create: Whether the whole listing is imported while the link is made.
    """

    path: str
    bucket: str | None
    prefix: str
    import_events: tuple[str, ...]
    export_events: tuple[str, ...]
    import_metadata_on_create: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LustrePlan:
    """The file system.

    Attributes:
        deployment_type: ``SCRATCH_2``, ``PERSISTENT_1`` or ``PERSISTENT_2``.
        storage_type: ``SSD``, ``HDD`` or ``INTELLIGENT_TIERING``.
        storage_capacity_gib: Capacity; None for INTELLIGENT_TIERING.
        per_unit_storage_throughput: Tier in MB/s per TiB; None for SCRATCH_2 and INTELLIGENT_TIERING.
        throughput_capacity_mb_per_s: INTELLIGENT_TIERING only.
        throughput_mb_per_s: Baseline disk throughput of the whole file system (reads).
        write_throughput_mb_per_s: The same for writes; half of it on SCRATCH_2.
        client_limit_mb_per_s: What one instance can move.
        metadata_mode: ``AUTOMATIC`` or ``USER_PROVISIONED``; None where the type has no metadata configuration.
        metadata_iops: The number granted in either mode; None where the type has none.
        efa: Whether the file system is EFA-enabled.
        efa_interfaces_per_client: EFA connections one client opens; None where clients use TCP.
        file_system_type_version: Lustre version.
        ip_addresses: Addresses that servers and metadata servers take in the subnet.
        servers: File servers.
        asked_capacity_gib: Capacity that the demand asks for, before rounding up to a legal one.
        ranking_usd_per_month: Storage and metadata price that ranked this configuration, by the us-east-1 rows; None
            where a row is missing.
        links: Links to S3, in the order in which they are made.
    """

    deployment_type: str
    storage_type: str
    storage_capacity_gib: int | None
    per_unit_storage_throughput: int | None
    throughput_capacity_mb_per_s: int | None
    throughput_mb_per_s: float
    write_throughput_mb_per_s: float
    client_limit_mb_per_s: float
    metadata_mode: str | None
    metadata_iops: int | None
    efa: bool
    efa_interfaces_per_client: int | None
    file_system_type_version: str
    ip_addresses: int
    servers: int
    asked_capacity_gib: float
    ranking_usd_per_month: float | None
    links: tuple[LinkPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpressPlan:
    """The directory buckets."""

    availability_zone_id: str
    bucket_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCachePlan:
    """The directory bucket that all nodes keep Mountpoint's cache in.

    Attributes:
        availability_zone_id: Its zone, that of the fleet.
        expire_after_days: Days after which objects leave it; Mountpoint never removes any. None for a bucket that is
            there already, whose owner decides.
    """

    availability_zone_id: str
    expire_after_days: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class S3FilesPlan:
    """The S3 Files file system."""

    read_only: bool
    root_access: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPlan:
    """One mount on every node.

    Attributes:
        path: ``/fsx``, ``/lake``, ``/source``, ``/hot``.
        kind: ``lustre``, ``mountpoint`` or ``s3-files``.
        read_only: Whether the mount refuses writes.
        options: What the mount needs beyond that, all plain values: for Mountpoint ``bucket`` (None: the data lake),
            ``prefix``, ``maximum_throughput_gbps``, ``cache`` (``none``, ``nvme`` or ``express``), ``cache_size_mib``
            (None: 80 % of the disk), ``directory_bucket`` (True for the hot tier express) and with it
            ``write_part_size_mib`` (None: 8 MiB).
    """

    path: str
    kind: Literal["lustre", "mountpoint", "s3-files"]
    read_only: bool
    options: dict[str, str | int | float | bool | None] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """Where training code finds its directories; None where there is no such directory."""

    datasets: str | None
    checkpoints: str | None
    scratch: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One option that was looked at.

    Attributes:
        rule: What was decided: ``hot-tier``, ``file-access``, ``lustre.configuration``, ``lustre.efa``, ...
        option: The option such as ``lustre`` or ``PERSISTENT_2 SSD 250 MB/s per TiB``.
        verdict: ``chosen`` or ``rejected``.
        because: The reason with its numbers.
    """

    rule: str
    option: str
    verdict: Literal["chosen", "rejected"]
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWarning:
    """Something that the reader should know before deploying. Ids are public contract."""

    id: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole answer for one workload.

    Attributes:
        workload: The workload it answers; printed as its name.
        region_partition: Partition of the region; not printed.
        catalog: The facts that it rests on, which what is built from it is held against; not printed.
        prediction: Whether accelerators will wait, for what, and what saves and failures take.
        cost: The bill, line by line.
    """

    workload: Workload
    region_partition: str = field(metadata={"print": False})
    catalog: Catalog = field(metadata={"print": False}, repr=False, compare=False)
    accelerators: float
    demand: Demand
    tiers: Tiers
    compute: ComputePlan
    lustre: LustrePlan | None
    express: ExpressPlan | None
    shared_cache: SharedCachePlan | None
    s3_files: S3FilesPlan | None
    mounts: tuple[MountPlan, ...]
    paths: Paths
    prediction: Prediction
    decisions: tuple[Decision, ...]
    cost: Cost
    assumptions: tuple[str, ...]
    warnings: tuple[PlanWarning, ...]

    @property
    def name(self) -> str:
        """The workload's name, prefix of every stack."""
        return self.workload.name

    def to_dict(self) -> dict[str, object]:
        """Return plain data in the shape of the contract."""
        plain = plain_data(self)
        assert isinstance(plain, dict)  # noqa: S101 - narrows the type for mypy; plain_data maps a dataclass to a dict
        return plain

    def to_json(self) -> str:
        """Return the plan as JSON text: same plan, same bytes."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"


def plain_data(value: object) -> object:
    """Return plain data for JSON: dataclasses as mappings without what is not printed, a workload as its name."""
    if isinstance(value, Workload):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain_data(getattr(value, f.name)) for f in fields(value) if f.metadata.get("print", True)}
    if isinstance(value, tuple | list):
        return [plain_data(item) for item in value]
    if isinstance(value, dict):
        return {key: plain_data(item) for key, item in value.items()}
    return value
