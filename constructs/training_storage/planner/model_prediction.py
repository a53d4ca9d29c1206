"""What a plan means for training: whether accelerators wait, for what, and what saves and failures take.

Decimal MB/s, seconds, hours as the names say; shares of the time are 0 to 1; None where a part of the demand is not
known or does not apply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LimitName = Literal["disk", "network", "client", "requests", "opens", "latency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyLimit:
    """One thing that bounds how fast the whole fleet reads.

    Attributes:
        name: ``disk`` (baseline of the file system), ``network`` (of the fleet), ``client`` (what one client may move),
            ``requests`` (of one S3 prefix), ``opens`` (metadata IOPS), ``latency`` (reads that the loaders keep in
            flight; only where the workload gives its loader).
        mb_per_s: Reads of the whole fleet that it lets through, MB/s.
        because: The calculation with its numbers.
    """

    name: LimitName
    mb_per_s: float
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstEpoch:
    """The first pass over the data, which lazy loading reads through from S3.

    Attributes:
        read_gb: Data of one pass, GB.
        load_mb_per_s: Rate at which files arrive from S3, MB/s: an upper bound that is assumed, none is published.
        steady_s: A later pass, seconds.
        first_s: The first pass, seconds.
        data_wait_fraction: Share of the first pass that accelerators wait.
        added_gpu_usd: What the longer first pass costs in accelerators; None where their price is not known.
        preload_s: How long loading ahead takes, seconds, without the fleet.
        preload_storage_usd: What the file system costs while it is loaded ahead; None where a price of it is not known;
            0 of one that is there already, which is paid anyway.
        assumption: What the rate rests on.
    """

    read_gb: float
    load_mb_per_s: float
    steady_s: float
    first_s: float
    data_wait_fraction: float
    added_gpu_usd: float | None
    preload_s: float
    preload_storage_usd: float | None
    assumption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What training will see.

    Attributes:
        read_supply_mb_per_s: Reads that the tier delivers to the whole fleet, MB/s: the smallest of ``limits``.
        binds: Name of that limit, whether or not the demand reaches it.
        limits: Everything that bounds reads, the tightest first.
        data_wait_fraction: Share of the time that accelerators wait for data: max(0, 1 - supply / read demand).
        data_wait_during_save_fraction: The same while an asynchronous save is written to Lustre at the rate that is
            planned for it, and reads get what it leaves of the disks; None where saves take nothing from reads.
        data_wait_with_saves_fraction: Both together, each for its share of the time.
        checkpoint_mode: ``synchronous`` (saves stall training) or ``asynchronous`` (they overlap with it).
        checkpoint_interval_s: Training between two saves as planned: the given interval, or the recommended one.
        checkpoint_write_s: One save, seconds.
        checkpoint_write_bound_by: Limit that sets it.
        checkpoint_stall_fraction: Share of the time that saves stall training: w / (interval + w); 0 when asynchronous.
        restore_s: One restore, seconds.
        restore_bound_by: Limit that sets it.
        recommended_checkpoint_interval_s: Interval that loses least where saves stall training (Young): sqrt(2 w mtbf),
            seconds. Asynchronous saves lose less the more often they come, as far as the disks allow.
        daly_checkpoint_interval_s: The same by Daly's first order: sqrt(2 w mtbf) - w, seconds; never below 0.
        mtbf_h: Mean time between failures of the fleet, hours.
        failures_per_day: Expected failures of the fleet in 24 hours.
        lost_work_s_per_failure: Work that one failure throws away on average, seconds, restore and restart not counted.
        effective_training_time_ratio: Share of the time that ends as training progress (ETTR), with data wait, saves,
            failures, restarts and restores taken off; None without checkpoints. An unknown data wait counts as none.
        effective_training_time_ratio_low: The same where an asynchronous save takes all that the disks give while it is
            written, and reads get nothing meanwhile; None where saves and reads do not share disks, or reads are not
            known.
        idle_gpu_usd_per_hour: (data wait + stall) x price of the fleet; None where the price is not known, or neither.
        lost_gpu_usd_per_hour: (1 - effective training time ratio) x price of the fleet: waits, stalls, what failures
            throw away, restarts and restores; None where one of the two is not known.
        first_epoch: The first pass where it reads through from S3; None where there is no lazy loading.
    """

    read_supply_mb_per_s: float
    binds: LimitName
    limits: tuple[SupplyLimit, ...]
    data_wait_fraction: float | None
    data_wait_during_save_fraction: float | None
    data_wait_with_saves_fraction: float | None
    checkpoint_mode: Literal["synchronous", "asynchronous"] | None
    checkpoint_interval_s: float | None
    checkpoint_write_s: float | None
    checkpoint_write_bound_by: LimitName | None
    checkpoint_stall_fraction: float | None
    restore_s: float | None
    restore_bound_by: LimitName | None
    recommended_checkpoint_interval_s: float | None
    daly_checkpoint_interval_s: float | None
    mtbf_h: float
    failures_per_day: float
    lost_work_s_per_failure: float | None
    effective_training_time_ratio: float | None
    effective_training_time_ratio_low: float | None
    idle_gpu_usd_per_hour: float | None
    lost_gpu_usd_per_hour: float | None
    first_epoch: FirstEpoch | None

    @property
    def gpu_wait_fraction(self) -> float | None:
        """Data wait and stall together; an unknown part counts as 0, None where both are unknown."""
        parts = (self.data_wait_fraction, self.checkpoint_stall_fraction)
        known = [part for part in parts if part is not None]
        return sum(known) if known else None
