"""What FSx for Lustre offers: legal capacities, throughput, servers, metadata and limits.

Capacities are GiB, throughput is decimal MB/s, tiers are MB/s per TiB with 1 TiB = 1024 GiB: 4800 GiB at 500 MB/s per
TiB give 2343.75 MB/s. A tier is given as None (or 0) where the option has none.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import TypeVar

from training_storage.catalog.model import Source, StorageOption
from training_storage.errors import CatalogError, Problem

N = TypeVar("N", int, float)

_NOISE = 1e-9
"""Share of a need that is float rounding, not need: it must not cost a whole capacity step."""


def _at(by_tier: Mapping[int, N], tier: int | None, option: StorageOption, what: str) -> N:
    """Look a number up by tier; an option without tiers has it under 0, and one number for all tiers needs no tier."""
    if tier is not None and tier in by_tier:
        return by_tier[tier]
    if 0 in by_tier:
        return by_tier[0]
    values = set(by_tier.values())
    if tier is None and len(values) == 1:
        return values.pop()
    name = f"{option.deployment_type} {option.storage_type}"
    raise CatalogError(
        Problem(
            what=f"{name} has no {what} for this tier",
            path="per_unit_storage_throughput",
            value=tier,
            allowed=", ".join(map(str, sorted(by_tier))) if by_tier else "no such option",
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreCatalog:
    """Facts of FSx for Lustre, and the arithmetic on them. Where each number comes from is in ``sources``.

    Attributes:
        options: Every deployment and storage type that can be asked for.
        metadata_iops_first: Legal metadata IOPS below the step, ascending.
        metadata_iops_step: Step of metadata IOPS above those.
        metadata_iops_max: The most metadata IOPS of one file system, in either mode.
        automatic_metadata_iops_from_gib: (GiB, IOPS): what AUTOMATIC gives from that capacity on, ascending.
        automatic_metadata_steps_from_gib: From this capacity on AUTOMATIC gives one step for each ...
        automatic_metadata_gib_per_step: ... full so many GiB.
        opens_per_metadata_iops: File creates, opens or closes a second that one metadata IOPS serves.
        metadata_iops_per_server: Metadata IOPS of one metadata server.
        max_links: Data repository associations of one file system.
        default_quota_gib: Default account quota of each of scratch, PERSISTENT_1 and PERSISTENT_2 capacity.
        hdd_max_gib: Default quota of one HDD file system.
        max_efa_connections: EFA connections of one file system; each interface of each client counts one.
        efa_client_mb_per_s: The most that one client moves over EFA.
        gds_client_mb_per_s: The most that one client moves over EFA with GPUDirect Storage.
        tcp_client_mb_per_s: The most that one client moves over TCP.
        tcp_server_mb_per_s: The most that one client moves over TCP to or from one file server.
        efa_advised_mb_per_s: Throughput of the file system from which AWS advises EFA.
        intelligent_tiering_throughput_step_mb_per_s: Throughput capacity comes in multiples of this.
        intelligent_tiering_throughput_max_mb_per_s: The most throughput capacity.
        intelligent_tiering_network_mb_per_s_per_step: Network baseline of each step (one file server).
        intelligent_tiering_metadata_iops: Legal USER_PROVISIONED metadata IOPS.
        intelligent_tiering_cache_min_gib_per_step: Smallest read cache for each step of throughput, GiB.
        intelligent_tiering_cache_max_gib_per_step: Largest read cache for each step of throughput, GiB.
        intelligent_tiering_default_quota_mb_per_s: Default account quota of throughput capacity.
        intelligent_tiering_cache_default_quota_gib: Default account quota of read cache.
        sources: Where each number comes from, by attribute name.
    """

    options: Mapping[tuple[str, str], StorageOption] = field(hash=False)
    metadata_iops_first: tuple[int, ...]
    metadata_iops_step: int
    metadata_iops_max: int
    automatic_metadata_iops_from_gib: tuple[tuple[int, int], ...]
    automatic_metadata_steps_from_gib: int
    automatic_metadata_gib_per_step: int
    opens_per_metadata_iops: float
    metadata_iops_per_server: int
    max_links: int
    default_quota_gib: int
    hdd_max_gib: int
    max_efa_connections: int
    efa_client_mb_per_s: float
    gds_client_mb_per_s: float
    tcp_client_mb_per_s: float
    tcp_server_mb_per_s: float
    efa_advised_mb_per_s: float
    intelligent_tiering_throughput_step_mb_per_s: int
    intelligent_tiering_throughput_max_mb_per_s: int
    intelligent_tiering_network_mb_per_s_per_step: float
    intelligent_tiering_metadata_iops: tuple[int, ...]
    intelligent_tiering_cache_min_gib_per_step: int
    intelligent_tiering_cache_max_gib_per_step: int
    intelligent_tiering_default_quota_mb_per_s: int
    intelligent_tiering_cache_default_quota_gib: int
    sources: Mapping[str, Source] = field(hash=False)
    _iops: tuple[int, ...] = field(init=False, repr=False, compare=False, default=())
    _versions: tuple[str, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        stepped = range(
            self.metadata_iops_first[-1] + self.metadata_iops_step, self.metadata_iops_max + 1, self.metadata_iops_step
        )
        object.__setattr__(self, "_iops", (*self.metadata_iops_first, *stepped))
        known = {version for option in self.options.values() for version in option.versions}
        ordered = sorted(known, key=lambda version: tuple(map(int, version.split("."))))
        object.__setattr__(self, "_versions", tuple(ordered))

    # -- options

    def option(self, deployment_type: str, storage_type: str) -> StorageOption | None:
        """Return the row of a deployment and storage type, or None where FSx has no such pair."""
        return self.options.get((deployment_type, storage_type))

    @property
    def deployment_types(self) -> tuple[str, ...]:
        """Deployment types that can be asked for."""
        return tuple(dict.fromkeys(deployment for deployment, _ in self.options))

    def storage_types(self, deployment_type: str) -> tuple[str, ...]:
        """Return the storage types of a deployment type; empty where there is no such deployment type."""
        return tuple(storage for deployment, storage in self.options if deployment == deployment_type)

    @property
    def versions(self) -> tuple[str, ...]:
        """Every Lustre version that some option can be created with, oldest first."""
        return self._versions

    # -- capacity

    def step_gib(self, option: StorageOption, tier: int | None, efa: bool = False) -> int:
        """Return the capacity step in GiB.

        Raises:
            CatalogError: The option has no such tier, no capacity of its own, or no EFA.
        """
        return _at(option.efa_step_gib if efa else option.step_gib, tier, option, "EFA capacity" if efa else "capacity")

    def is_legal_capacity(self, option: StorageOption, gib: float, tier: int | None, efa: bool = False) -> bool:
        """Whether FSx takes this capacity. There is no upper bound: the largest is an account quota."""
        if not efa and gib in option.first_gib:
            return True
        return gib > 0 and gib % self.step_gib(option, tier, efa) == 0

    def round_up_gib(self, option: StorageOption, needed_gib: float, tier: int | None, efa: bool = False) -> int:
        """Return the smallest legal capacity that covers a need: the one rounding function, always up.

        Args:
            option: Deployment and storage type.
            needed_gib: What is needed, in GiB; a billionth of it counts as float rounding. 0 gives the smallest.
            tier: Throughput tier, or None without tiers.
            efa: Whether the file system is EFA-enabled; its steps are larger and depend on the tier.
        """
        needed = needed_gib - needed_gib * _NOISE
        if not efa:
            for first in option.first_gib:
                if needed <= first:
                    return first
        step = self.step_gib(option, tier, efa)
        return max(1, ceil(needed / step)) * step

    def neighbours(
        self, option: StorageOption, gib: float, tier: int | None, efa: bool = False
    ) -> tuple[int | None, int]:
        """Return the legal capacities next below and next above, for messages; None where nothing smaller is legal."""
        step = self.step_gib(option, tier, efa)
        first = () if efa else option.first_gib
        below = [each for each in first if each < gib]
        if (under := ceil(gib / step) - 1) > 0:
            below.append(under * step)
        above = [each for each in first if each > gib]
        above.append((max(0, int(gib // step)) + 1) * step)
        return (max(below) if below else None), min(above)

    # -- what a capacity gives

    def servers(self, option: StorageOption, gib: float, tier: int | None, efa: bool = False) -> int:
        """Return the file servers behind a capacity; with EFA one for each EFA step."""
        behind = option.efa_step_gib if efa else option.gib_per_server
        return ceil(gib / _at(behind, tier, option, "EFA capacity" if efa else "capacity"))

    def read_mb_per_s(self, option: StorageOption, gib: float, tier: int | None) -> float:
        """Return the baseline disk throughput for reads in MB/s; burst never counts."""
        return gib / 1024 * _at(option.read_mb_per_s_per_tib, tier, option, "throughput")

    def write_mb_per_s(self, option: StorageOption, gib: float, tier: int | None) -> float:
        """Return the baseline disk throughput for writes in MB/s; half that of reads on SCRATCH_2."""
        return gib / 1024 * _at(option.write_mb_per_s_per_tib, tier, option, "throughput")

    # -- metadata

    def automatic_metadata_iops(self, gib: float) -> int:
        """Return the metadata IOPS that AUTOMATIC gives at a capacity of PERSISTENT_2 SSD."""
        if gib >= self.automatic_metadata_steps_from_gib:
            steps = int(gib // self.automatic_metadata_gib_per_step)
            return min(self.metadata_iops_step * steps, self.metadata_iops_max)
        granted = 0
        for start, iops in self.automatic_metadata_iops_from_gib:
            if gib >= start:
                granted = iops
        return granted

    def metadata_iops_values(self) -> tuple[int, ...]:
        """Return every legal number of USER_PROVISIONED metadata IOPS of SSD storage, ascending."""
        return self._iops

    def next_metadata_iops(self, needed: float) -> int:
        """Return the smallest legal number that covers a need; the largest legal number where none does."""
        return self._iops[min(bisect_left(self._iops, needed - needed * _NOISE), len(self._iops) - 1)]

    def ip_addresses(self, servers: int, metadata_iops: int | None) -> int:
        """Return the addresses that a file system takes in its subnet: one a file server and one a metadata server.

        Args:
            servers: File servers.
            metadata_iops: Metadata IOPS granted; None without a metadata configuration (there is one metadata server).
        """
        return servers + max(1, ceil((metadata_iops or 0) / self.metadata_iops_per_server))

    # -- INTELLIGENT_TIERING: throughput is bought, capacity grows by itself

    def is_legal_throughput_capacity(self, mb_per_s: float) -> bool:
        """Whether INTELLIGENT_TIERING takes this throughput capacity."""
        step, most = self.intelligent_tiering_throughput_step_mb_per_s, self.intelligent_tiering_throughput_max_mb_per_s
        return 0 < mb_per_s <= most and mb_per_s % step == 0

    def round_up_throughput_capacity(self, needed_mb_per_s: float) -> int:
        """Return the smallest throughput capacity of INTELLIGENT_TIERING that covers a need."""
        step = self.intelligent_tiering_throughput_step_mb_per_s
        return max(1, ceil((needed_mb_per_s - needed_mb_per_s * _NOISE) / step)) * step

    def intelligent_tiering_servers(self, throughput_capacity_mb_per_s: float) -> int:
        """Return the file servers of INTELLIGENT_TIERING: one for each step of throughput capacity."""
        return ceil(throughput_capacity_mb_per_s / self.intelligent_tiering_throughput_step_mb_per_s)
