"""Sizing one Lustre configuration: the smallest legal capacity that covers the demand, and from there up the cheapest.

All arithmetic on capacities, throughput and metadata is the catalog's; nothing is stepped through, so that a plan costs
microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from training_storage.catalog.lustre import LustreCatalog
from training_storage.catalog.model import InstanceType, StorageOption
from training_storage.planner.demand import Needs, covers

MB_PER_S_PER_GBPS = 125.0
"""Decimal MB/s of one Gbit/s."""

# A share of the need that is rounding, not need: it must not cost a server.
_NOISE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreAsk:
    """Everything that decides a Lustre configuration.

    Attributes:
        lustre: Facts of FSx for Lustre.
        option: Deployment and storage type.
        tiers: Tiers that may be taken, ascending; ``(0,)`` for a type without tiers.
        needs: The demand.
        facts: The instance type.
        capacity_gib: A capacity that is given.
        throughput_capacity_mb_per_s: A throughput capacity that is given; INTELLIGENT_TIERING only.
        metadata_iops: A number of metadata IOPS that is given.
        gds: Whether GPUDirect Storage counts in the client limit.
        efa: Whether the file system is EFA-enabled; None to find out.
        fleet_efa: Whether the fleet may have EFA interfaces.
        region_efa: Whether the region has EFA-enabled file systems.
        usd_per_gib: Ranking price of one GiB-month by tier; None where not known.
        usd_per_metadata_iops: Ranking price of one metadata IOPS-month above the automatic number.
    """

    lustre: LustreCatalog
    option: StorageOption
    tiers: tuple[int, ...]
    needs: Needs
    facts: InstanceType
    capacity_gib: int | None
    throughput_capacity_mb_per_s: int | None
    metadata_iops: int | None
    gds: bool
    efa: bool | None
    fleet_efa: bool
    region_efa: bool
    usd_per_gib: Mapping[int, float | None]
    usd_per_metadata_iops: float | None


@dataclass(slots=True, kw_only=True)
class Sized:
    """One configuration.

    Attributes:
        tier: Throughput tier, 0 for a type without tiers.
        efa: Whether it is EFA-enabled.
        gib: Capacity; None for INTELLIGENT_TIERING.
        asked_gib: Capacity that the demand asks for before rounding up, for space and throughput.
        servers: File servers.
        read_mb_per_s: Baseline read throughput.
        write_mb_per_s: Baseline write throughput.
        metadata_mode: ``AUTOMATIC`` or ``USER_PROVISIONED``; None without a metadata configuration.
        metadata_iops: The number granted; None without one.
        usd: Ranking price a month; None where a row is missing.
    """

    tier: int
    efa: bool
    gib: int | None
    asked_gib: float
    servers: int
    read_mb_per_s: float
    write_mb_per_s: float
    metadata_mode: str | None
    metadata_iops: int | None
    usd: float | None

    @property
    def rank(self) -> tuple[bool, float, float]:
        """Sort key: priced before unpriced, then the price to a hundredth of a cent, then the capacity."""
        return (self.usd is None, round(self.usd or 0.0, 4), self.gib or 0)


def network_mb_per_s(facts: InstanceType) -> float:
    """Return the network of one instance, all cards together, in MB/s."""
    return facts.network_gbps * MB_PER_S_PER_GBPS


def servers_needed(ask: LustreAsk) -> int:
    """Return the file servers that one instance needs for its share over TCP, as far as its network reaches."""
    reach = min(ask.needs.share_mb_per_s, network_mb_per_s(ask.facts), ask.lustre.tcp_client_mb_per_s)
    return max(1, math.ceil(reach / ask.lustre.tcp_server_mb_per_s * (1 - _NOISE)))


def throughput_gib(ask: LustreAsk, tier: int) -> float:
    """Return the capacity whose baseline disk throughput covers the demand; burst never counts.

    Reads and writes have their own rate (they differ on SCRATCH_2); where saves overlap with training, both take their
    part of the disks at the same time.
    """
    demand = ask.needs.demand
    read_rate, write_rate = ask.option.read_mb_per_s_per_tib[tier], ask.option.write_mb_per_s_per_tib[tier]
    reading = (demand.read_mb_per_s or 0.0) / read_rate
    writing = (demand.checkpoint_write_mb_per_s or 0.0) / write_rate
    restoring = (demand.restore_read_mb_per_s or 0.0) / read_rate
    saves = ask.needs.saves
    training = reading + writing if saves is not None and saves.asynchronous else max(reading, writing)
    return max(training, restoring) * 1024


def covers_throughput(ask: LustreAsk, sized: Sized) -> bool:
    """Whether the baseline throughput covers the demand."""
    if sized.gib is None:
        return covers(sized.read_mb_per_s, ask.needs.required_mb_per_s)
    return covers(sized.gib, throughput_gib(ask, sized.tier))


def size(ask: LustreAsk, tier: int, *, efa: bool, servers: int) -> Sized | None:
    """Return the cheapest legal capacity of one tier that covers the demand, or the given capacity as it is.

    Args:
        ask: What decides.
        tier: Throughput tier, 0 for a type without tiers.
        efa: Whether the file system is EFA-enabled; its capacity steps are larger.
        servers: File servers that one instance needs for its share; 1 where clients come over EFA.

    Returns:
        The configuration; None where the metadata IOPS given are fewer than AUTOMATIC gives at every capacity that
        covers the demand, which FSx refuses.
    """
    lustre, option = ask.lustre, ask.option
    asked = max(throughput_gib(ask, tier), ask.needs.demand.hot_capacity_gib)
    wanted = wanted_iops(ask)
    if ask.capacity_gib is not None:
        return _configuration(ask, tier, efa, ask.capacity_gib, asked, wanted)
    floor = asked
    if servers > 1:
        behind = option.efa_step_gib[tier] if efa else option.gib_per_server[tier]
        floor = max(asked, (servers - 1) * behind + 1.0)
    least = lustre.round_up_gib(option, floor, tier, efa)
    if not option.metadata_configuration:
        return _configuration(ask, tier, efa, least, asked, wanted)
    target = wanted if ask.metadata_iops is None else float(ask.metadata_iops)
    best: Sized | None = None
    usd_per_gib = ask.usd_per_gib.get(tier, 0.0) or 0.0
    for capacity in (least, *_larger(ask, tier, efa, least, target)):
        if best is not None and best.usd is not None and capacity * usd_per_gib > best.usd:
            continue  # its storage alone costs more
        if ask.metadata_iops is not None and lustre.automatic_metadata_iops(capacity) > ask.metadata_iops:
            continue
        sized = _configuration(ask, tier, efa, capacity, asked, wanted)
        if best is None or sized.rank < best.rank:
            best = sized
    return best


def wanted_iops(ask: LustreAsk) -> float:
    """Return the metadata IOPS that the file opens ask for, 0 when they are not known."""
    opens = ask.needs.demand.file_opens_per_s
    return 0.0 if opens is None else opens / ask.lustre.opens_per_metadata_iops


def _larger(ask: LustreAsk, tier: int, efa: bool, least: int, target: float) -> list[int]:
    """Capacities above the least one that can be cheaper: those at which AUTOMATIC grants more of the target.

    Between two of them storage only costs more, so that these are all.
    """
    lustre = ask.lustre
    granted = lustre.automatic_metadata_iops(least)
    if granted >= target:
        return []
    most = lustre.next_metadata_iops(target)
    starts = [gib for gib, iops in lustre.automatic_metadata_iops_from_gib if gib > least and iops <= most]
    per_step = lustre.automatic_metadata_gib_per_step
    first = lustre.automatic_metadata_steps_from_gib // per_step
    steps = range(max(first, least // per_step + 1), most // lustre.metadata_iops_step + 1)
    starts.extend(step * per_step for step in steps)
    return [lustre.round_up_gib(ask.option, gib, tier, efa) for gib in starts]


def _configuration(ask: LustreAsk, tier: int, efa: bool, capacity: int, asked: float, wanted: float) -> Sized:
    lustre, option = ask.lustre, ask.option
    mode: str | None = None
    iops: int | None = None
    usd_per_gib = ask.usd_per_gib.get(tier)
    usd = None if usd_per_gib is None else capacity * usd_per_gib
    if option.metadata_configuration:
        automatic = lustre.automatic_metadata_iops(capacity)
        if ask.metadata_iops is not None:
            mode, iops = "USER_PROVISIONED", ask.metadata_iops
        elif covers(automatic, wanted):
            mode, iops = "AUTOMATIC", automatic
        else:
            mode, iops = "USER_PROVISIONED", lustre.next_metadata_iops(wanted)
        if usd is not None and iops > automatic:
            extra = ask.usd_per_metadata_iops
            usd = None if extra is None else usd + (iops - automatic) * extra
    return Sized(
        tier=tier,
        efa=efa,
        gib=capacity,
        asked_gib=asked,
        servers=lustre.servers(option, capacity, tier, efa),
        read_mb_per_s=lustre.read_mb_per_s(option, capacity, tier),
        write_mb_per_s=lustre.write_mb_per_s(option, capacity, tier),
        metadata_mode=mode,
        metadata_iops=iops,
        usd=usd,
    )


def size_tiered(ask: LustreAsk, *, efa: bool, servers: int) -> Sized:
    """Return the INTELLIGENT_TIERING configuration: throughput is bought, capacity grows by itself.

    Args:
        ask: What decides.
        efa: Whether the file system is EFA-enabled.
        servers: File servers that one instance needs for its share; 1 where clients come over EFA.
    """
    lustre = ask.lustre
    capacity = ask.throughput_capacity_mb_per_s
    if capacity is None:
        step = lustre.intelligent_tiering_throughput_step_mb_per_s
        capacity = max(lustre.round_up_throughput_capacity(ask.needs.required_mb_per_s), servers * step)
        # What the largest one misses is named in a warning.
        capacity = min(capacity, lustre.intelligent_tiering_throughput_max_mb_per_s // step * step)
    iops = ask.metadata_iops
    if iops is None:
        legal = lustre.intelligent_tiering_metadata_iops
        iops = next((value for value in legal if value >= wanted_iops(ask)), legal[-1])
    return Sized(
        tier=0,
        efa=efa,
        gib=None,
        asked_gib=ask.needs.demand.hot_capacity_gib,
        servers=lustre.intelligent_tiering_servers(capacity),
        read_mb_per_s=float(capacity),
        write_mb_per_s=float(capacity),
        metadata_mode="USER_PROVISIONED",
        metadata_iops=iops,
        usd=None,
    )
