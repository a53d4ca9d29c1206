"""Typed rows of the catalog. All frozen; numbers carry their unit in the name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal

Trust = Literal["seen", "derived", "remembered", "conflict", "user"]
ImageFamily = Literal["dl-base-gpu", "neuron"]
InterfaceKind = Literal["interface", "efa", "efa-only"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a row comes from.

    Attributes:
        text: The document or repository that was read.
        date: ISO date of the reading, or of the document where it has one; empty where a user's file gives none.
        trust: How sure the row is; ``user`` for rows that a user's file brought in.
    """

    text: str
    date: str
    trust: Trust


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """One interface of a launch template.

    Attributes:
        network_card_index: Card, counted from 0.
        device_index: Device on that card: 0 or 1.
        interface_type: ``interface`` (ENA), ``efa`` (both) or ``efa-only``.
    """

    network_card_index: int
    device_index: int
    interface_type: InterfaceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One EC2 accelerator type.

    Attributes:
        name: EC2 name such as ``p5en.48xlarge``.
        accelerators: Accelerators in one instance; fractions of a GPU count as such (g6f.large: 0.125).
        accelerator_model: Model name such as ``H200``.
        accelerator_manufacturer: ``NVIDIA``, ``AWS``, ``Qualcomm``...; None for a type given by ``type_facts``.
        accelerator_memory_gib: Memory of one accelerator in GiB; None when not known.
        vcpus: vCPUs; None for a type given by ``type_facts``.
        memory_gib: Host memory in GiB; None for a type given by ``type_facts``.
        architecture: ``x86_64`` or ``arm64``.
        network_gbps: Network bandwidth of all cards together, Gbit/s.
        ip_gbps: IP bandwidth of the interface layout that we build, Gbit/s: 100 for every type with several network
            cards, else ``network_gbps``.
        network_cards: Number of network cards.
        efa_interfaces: EFA interfaces of the layout that we build; 0 for a type without EFA.
        primary_card_has_efa: Whether card 0 takes an EFA interface (p6-b300 and p6e-gb200: no).
        efa_layout: Interfaces of the launch template with EFA on, primary first; empty without EFA.
        local_nvme_gb: Instance store in GB, all disks together.
        local_nvme_disks: Number of instance-store disks.
        fsx_efa_client: Whether FSx for Lustre serves it over EFA; None where the facts do not say.
        fsx_efa_interfaces: EFA connections one client opens by default; 0 where it is no EFA client.
        gds: Whether FSx serves it with GPUDirect Storage; None where the facts do not say.
        mountpoint_gbps: Its row in Mountpoint's own throughput table, Gbit/s; None without a row.
        image_family: Which public image family boots it; None where none is known.
        usage_classes: ``on-demand``, ``spot``, ``capacity-block``.
        placement_strategies: Placement group strategies that EC2 takes for it.
        capacity_block: Whether it is sold as Capacity Block.
        on_demand_usd_per_hour: us-east-1 Linux price; None when unknown.
        known: False for a type that came from ``type_facts``.
        source: Where the row comes from.
    """

    name: str
    accelerators: float
    accelerator_model: str | None
    accelerator_manufacturer: str | None
    accelerator_memory_gib: float | None
    vcpus: int | None
    memory_gib: float | None
    architecture: str
    network_gbps: float
    ip_gbps: float
    network_cards: int
    efa_interfaces: int
    primary_card_has_efa: bool
    efa_layout: tuple[NetworkInterface, ...]
    local_nvme_gb: float
    local_nvme_disks: int
    fsx_efa_client: bool | None
    fsx_efa_interfaces: int
    gds: bool | None
    mountpoint_gbps: float | None
    image_family: ImageFamily | None
    usage_classes: tuple[str, ...]
    placement_strategies: tuple[str, ...]
    capacity_block: bool
    on_demand_usd_per_hour: float | None
    known: bool
    source: Source

    @property
    def has_efa(self) -> bool:
        """Whether the type has an EFA interface at all."""
        return self.efa_interfaces > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One AWS region.

    Attributes:
        name: ``us-east-1``.
        partition: ``aws``, ``aws-cn``, ``aws-us-gov``...
        zone_id_prefix: ``use1`` in ``use1-az6``.
        zone_ids: Zone IDs known today; a user's file can add to them.
        lustre_tiers: PERSISTENT_2 SSD tiers offered, MB/s per TiB; empty where the region has no PERSISTENT_2; None
            without a row (then it counts as full, with an assumption line).
        lustre_efa: Whether EFA-enabled file systems are offered; None without a row.
        express_zone_ids: Zone IDs with S3 Express One Zone; empty where there is none.
        s3_files: Whether S3 Files is offered; None without a row (counts as yes, with an assumption line).
        source: Where the row comes from.
        field_sources: Where single fields come from that the row's source does not cover, by field name.
    """

    name: str
    partition: str
    zone_id_prefix: str
    zone_ids: tuple[str, ...]
    lustre_tiers: tuple[int, ...] | None
    lustre_efa: bool | None
    express_zone_ids: tuple[str, ...]
    s3_files: bool | None
    source: Source
    field_sources: Mapping[str, Source] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceWorkload:
    """One MLPerf Storage row: what one accelerator of one model reads.

    Attributes:
        model: ``unet3d``.
        accelerator: ``H100``.
        sample_bytes: Bytes of one sample.
        batch_size: Samples a step.
        samples_per_file: Samples in one file.
        step_s: Compute seconds of one step.
        au_threshold: Accelerator utilisation at which the run passes.
        source: Where the row comes from.
    """

    model: str
    accelerator: str
    sample_bytes: float
    batch_size: int
    samples_per_file: int
    step_s: float
    au_threshold: float
    source: Source

    @property
    def read_bytes_per_s(self) -> float:
        """Bytes per second that one accelerator reads at its AU threshold."""
        return self.au_threshold * self.batch_size * self.sample_bytes / self.step_s

    @property
    def samples_per_s(self) -> float:
        """Samples per second that one accelerator reads at its AU threshold."""
        return self.au_threshold * self.batch_size / self.step_s


@dataclass(frozen=True, slots=True)
class PriceTier:
    """From how many units of a month on another price holds.

    Attributes:
        above: Units of one month that are paid at the prices before.
        usd: Price of each unit beyond them.
    """

    above: float
    usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One row of the price book.

    Attributes:
        item: Stable name such as ``lustre.PERSISTENT_2.SSD.500`` or ``ec2.p5.48xlarge``.
        region: Region of the row.
        unit: ``GiB-month``, ``IOPS-month``, ``hour``...
        usd: Price of one unit, the first ones of a month where there are tiers; None when known to be unknown.
        source: Where the row comes from.
        tiers: What further units of a month cost, ascending; empty where each costs the same.
    """

    item: str
    region: str
    unit: str
    usd: float | None
    source: Source
    tiers: tuple[PriceTier, ...] = ()

    def cost(self, quantity: float) -> float | None:
        """Return what a quantity of one month costs, USD; None where the price is not known.

        AWS counts a month and a region of an account together: what else the account uses comes on top, and lowers the
        price of the units beyond a tier.
        """
        if self.usd is None:
            return None
        steps = (PriceTier(0.0, self.usd), *self.tiers)
        ends = (*(tier.above for tier in self.tiers), inf)
        return sum(
            (min(quantity, end) - step.above) * step.usd
            for step, end in zip(steps, ends, strict=True)
            if quantity > step.above
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOption:
    """Capacity and throughput facts of one Lustre deployment and storage type.

    Attributes:
        deployment_type: ``SCRATCH_2``, ``PERSISTENT_1`` or ``PERSISTENT_2``.
        storage_type: ``SSD``, ``HDD`` or ``INTELLIGENT_TIERING``.
        first_gib: Legal capacities below the step, ascending (1200 for SSD types; empty for HDD).
        step_gib: Capacity step without EFA, by tier; the key 0 holds it where the type has no tiers.
        efa_step_gib: Capacity step with EFA, by tier; empty where EFA is not offered.
        tiers: Legal ``per_unit_storage_throughput`` values, MB/s per TiB; empty where it must be absent.
        read_mb_per_s_per_tib: Baseline read throughput by tier (key 0 without tiers).
        write_mb_per_s_per_tib: Baseline write throughput by tier (key 0 without tiers).
        gib_per_server: GiB behind one file server without EFA, by tier (key 0 without tiers).
        links: Whether data repository associations are supported.
        backups: Whether backups are supported.
        kms: Whether a customer managed key is supported.
        metadata_configuration: Whether a metadata configuration is supported (and, for us, always sent).
        versions: Lustre versions that can be created.
        source: Where the row comes from.
    """

    deployment_type: str
    storage_type: str
    first_gib: tuple[int, ...]
    step_gib: Mapping[int, int]
    efa_step_gib: Mapping[int, int]
    tiers: tuple[int, ...]
    read_mb_per_s_per_tib: Mapping[int, float]
    write_mb_per_s_per_tib: Mapping[int, float]
    gib_per_server: Mapping[int, int]
    links: bool
    backups: bool
    kms: bool
    metadata_configuration: bool
    versions: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """One S3 storage class, as seen by a lifecycle rule and by those who read the object.

    Attributes:
        name: ``STANDARD_IA``.
        first_transition_day: Earliest age in days at which a rule may move objects to it; None where none does.
        minimum_billed_days: Days that are billed at least; None where there is no such minimum.
        readable: Whether FSx for Lustre, Mountpoint and S3 Files can read the object as it lies, without a restore.
        source: Where the row comes from.
    """

    name: str
    first_transition_day: int | None
    minimum_billed_days: int | None
    readable: bool
    source: Source
