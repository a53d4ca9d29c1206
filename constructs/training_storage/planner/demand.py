"""What the workload asks of the storage (contract section 3, demand).

Decimal MB/s and GiB in the printed ``Demand``; bytes and seconds in what the planner itself works with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from training_storage.catalog import Catalog
from training_storage.catalog.model import InstanceType
from training_storage.errors import Problem
from training_storage.planner.model import Demand
from training_storage.planner.words import listed
from training_storage.units import GIB, MB, MIB
from training_storage.workload.model import Checkpoints, Dataset, Workload

CAPACITY_SHARE = 0.8
"""Share of a hot tier that is planned as full; the rest is headroom."""

PART_BYTES = 8 * MIB
"""Part size of S3 clients: the default of Mountpoint and of the S3 Connector for PyTorch."""

# Two figures that differ by less than this are equal: both sides are quotients of decimal input.
_TOLERANCE = 1e-9


def covers(supply: float, need: float) -> bool:
    """Whether the supply is at least the need."""
    return supply >= need * (1 - _TOLERANCE)


def below(value: float, limit: float) -> bool:
    """Whether the value is really under the limit; equal is not under."""
    return value < limit * (1 - _TOLERANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saves:
    """The checkpoints section as bounds.

    Attributes:
        checkpoint_bytes: Size of one checkpoint.
        interval_s: Time between saves; None where it follows from the failure rate.
        asynchronous: Whether saves overlap with training.
        max_write_s: ``max_write_time``.
        max_stall: Share of the time that synchronous saves may stall training.
        stall_write_s: Longest synchronous save that keeps to ``max_stall``; None for asynchronous saves.
        longest_write_s: What the write rate is planned for: the smallest of the bounds.
        max_restore_s: ``max_restore_time``.
        restore_readers: Replicas that each read the whole checkpoint at restart.
        restart_s: From a failure to the start of the restore.
        mtbf_s: Mean time between failures of the fleet.
    """

    checkpoint_bytes: float
    interval_s: float | None
    asynchronous: bool
    max_write_s: float
    max_stall: float
    stall_write_s: float | None
    longest_write_s: float
    max_restore_s: float
    restore_readers: int
    restart_s: float
    mtbf_s: float

    @property
    def stall_bound(self) -> bool:
        """Whether ``max_stall`` and not ``max_write_time`` sets the write rate."""
        return self.stall_write_s is not None and below(self.stall_write_s, self.max_write_s)

    def recommended_interval_s(self, write_s: float) -> float:
        """Return the interval that loses least time to saves that stall, and to failures (Young): sqrt(2 w mtbf)."""
        return math.sqrt(2 * write_s * self.mtbf_s)

    def interval_at(self, write_s: float) -> float:
        """Return the interval given, or the recommended one for saves that take ``write_s``."""
        return self.recommended_interval_s(write_s) if self.interval_s is None else self.interval_s

    def stall_fraction(self, write_s: float) -> float:
        """Return the share of the time that saves stall training; 0 for asynchronous saves."""
        return 0.0 if self.asynchronous else write_s / (self.interval_at(write_s) + write_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The demand with what lies behind it.

    Attributes:
        demand: The printed figures.
        instances: Instances.
        accelerators: Accelerators of the fleet.
        file_bytes: Size of one file; None when not known.
        file_count: Files of the data set; None when not known.
        sample_bytes: Size of one sample; None when not known.
        read_requests_per_s: GET and HEAD requests that reading makes on S3; None when reads are not known.
        reads_in_flight: Reads that the loaders of the fleet keep in flight; None when the loader is not known.
        accelerator_mttf_h: Hours between failures of one accelerator.
        saves: The checkpoints section as bounds; None without one.
    """

    demand: Demand
    instances: int
    accelerators: float
    file_bytes: float | None
    file_count: float | None
    sample_bytes: float | None
    read_requests_per_s: float | None
    reads_in_flight: float | None
    accelerator_mttf_h: float
    saves: Saves | None

    @property
    def mtbf_h(self) -> float:
        """Mean time between failures of the fleet, hours."""
        return self.accelerator_mttf_h / self.accelerators

    @property
    def required_mb_per_s(self) -> float:
        """Required throughput, 0 when nothing is known."""
        return self.demand.required_mb_per_s or 0.0

    @property
    def share_mb_per_s(self) -> float:
        """What one instance has to move, 0 when nothing is known."""
        return self.required_mb_per_s / self.instances


def measure(workload: Workload, facts: InstanceType, catalog: Catalog, problems: list[Problem]) -> Needs:
    """Return what the workload asks for.

    Args:
        workload: The workload.
        facts: The instance type of its fleet.
        catalog: Where reference workloads stand.
        problems: Takes a problem for each part that cannot be worked out; that part is then left out.
    """
    instances = workload.compute.instance_count
    accelerators = instances * facts.accelerators
    dataset = workload.dataset
    read_per_accelerator = _read_bytes_per_s(dataset, facts, catalog, problems)
    read = None if read_per_accelerator is None else read_per_accelerator * accelerators
    listed_file_bytes = _listed_file_bytes(dataset)
    opens = _opens_per_s(dataset, accelerators, read, listed_file_bytes)
    file_bytes = listed_file_bytes
    samples = dataset.read_rate.samples if dataset.read_rate else None
    if file_bytes is None and samples is not None and samples.per_file == 1:
        file_bytes = samples.size.bytes
    mttf_h = _accelerator_mttf_h(workload, catalog)
    saves = _saves(workload.checkpoints, mttf_h * 3600 / accelerators) if workload.checkpoints else None
    write = restore = None
    hot_bytes = dataset.size.bytes * dataset.hot_fraction + workload.scratch_size.bytes
    if saves is not None and workload.checkpoints is not None:
        write = saves.checkpoint_bytes / saves.longest_write_s / MB
        restore = saves.checkpoint_bytes * saves.restore_readers / saves.max_restore_s / MB
        hot_bytes += (workload.checkpoints.keep_hot + 1) * saves.checkpoint_bytes
    read_mb = None if read is None else read / MB
    return Needs(
        demand=Demand(
            read_mb_per_s=read_mb,
            read_mb_per_s_per_instance=None if read_mb is None else read_mb / instances,
            read_mb_per_s_per_accelerator=None if read_per_accelerator is None else read_per_accelerator / MB,
            file_opens_per_s=opens,
            checkpoint_gib=None if saves is None else saves.checkpoint_bytes / GIB,
            checkpoint_write_mb_per_s=write,
            restore_read_mb_per_s=restore,
            required_mb_per_s=_required(read_mb, write, restore, saves is not None and saves.asynchronous),
            hot_capacity_gib=hot_bytes / CAPACITY_SHARE / GIB,
        ),
        instances=instances,
        accelerators=accelerators,
        file_bytes=file_bytes,
        file_count=_file_count(dataset, listed_file_bytes),
        sample_bytes=_sample_bytes(dataset, facts, catalog),
        read_requests_per_s=_read_requests(read, opens, file_bytes),
        reads_in_flight=_reads_in_flight(dataset, accelerators),
        accelerator_mttf_h=mttf_h,
        saves=saves,
    )


def _accelerator_mttf_h(workload: Workload, catalog: Catalog) -> float:
    """Hours between failures of one accelerator: as given, else the catalog's, which a user's file may correct."""
    if "accelerator_mttf" in workload.compute.model_fields_set:
        return workload.compute.accelerator_mttf.seconds / 3600
    return float(catalog.training.accelerator_mttf.accelerator_mttf_h)


def _read_bytes_per_s(dataset: Dataset, facts: InstanceType, catalog: Catalog, problems: list[Problem]) -> float | None:
    """Bytes per second that one accelerator reads; None when not known."""
    rate = dataset.read_rate
    if rate is None:
        return None
    if rate.per_accelerator is not None:
        return rate.per_accelerator.bytes_per_s
    if rate.samples is not None:
        return rate.samples.size.bytes * rate.samples.per_second_per_accelerator
    if rate.tokens is not None:
        return rate.tokens.per_second_per_accelerator * rate.tokens.bytes_per_token
    if rate.reference is not None:
        return _reference_bytes_per_s(rate.reference, facts, catalog, problems)
    return None


def _reference_bytes_per_s(model: str, facts: InstanceType, catalog: Catalog, problems: list[Problem]) -> float | None:
    accelerator = facts.accelerator_model
    row = catalog.reference(model, accelerator) if accelerator else None
    if row is not None:
        return row.read_bytes_per_s
    with_rows = sorted({known.accelerator for known in catalog.reference_workloads if known.model == model})
    models = sorted({known.model for known in catalog.reference_workloads})
    if not with_rows:
        what, allowed = "no such reference workload", listed(models, "or")
    else:
        what = f"the reference workload {model} has no row for {accelerator or 'an unknown accelerator'}"
        allowed = f"accelerators with a row: {listed(with_rows)}"
    problems.append(
        Problem(
            what=what,
            path="dataset.read_rate.reference",
            value=model,
            allowed=allowed,
            fix="give the rate itself: per_accelerator, samples or tokens",
        )
    )
    return None


def _sample_bytes(dataset: Dataset, facts: InstanceType, catalog: Catalog) -> float | None:
    rate = dataset.read_rate
    if rate is None:
        return None
    if rate.samples is not None:
        return rate.samples.size.bytes
    if rate.reference is not None:
        row = catalog.reference(rate.reference, facts.accelerator_model)
        return None if row is None else row.sample_bytes
    return None


def _reads_in_flight(dataset: Dataset, accelerators: float) -> float | None:
    loader = dataset.loader
    return None if loader is None else accelerators * loader.workers_per_accelerator * loader.prefetch


def _listed_file_bytes(dataset: Dataset) -> float | None:
    if dataset.average_file_size is not None:
        return dataset.average_file_size.bytes
    if dataset.file_count:
        return dataset.size.bytes / dataset.file_count
    return None


def _opens_per_s(dataset: Dataset, accelerators: float, read: float | None, file_bytes: float | None) -> float | None:
    samples = dataset.read_rate.samples if dataset.read_rate else None
    if samples is not None:
        return samples.per_second_per_accelerator * accelerators / samples.per_file
    if read is None or file_bytes is None:
        return None
    return read / file_bytes


def _file_count(dataset: Dataset, file_bytes: float | None) -> float | None:
    if dataset.file_count is not None:
        return dataset.file_count
    if file_bytes is not None:
        return dataset.size.bytes / file_bytes
    samples = dataset.read_rate.samples if dataset.read_rate else None
    if samples is not None:
        return dataset.size.bytes / (samples.size.bytes * samples.per_file)
    return None


def _read_requests(read: float | None, opens: float | None, file_bytes: float | None) -> float | None:
    """One request to open a file and one for each part; with an unknown file size, the parts of the read rate."""
    if read is None:
        return None
    if opens is None or file_bytes is None:
        return read / PART_BYTES
    return opens * (1 + math.ceil(file_bytes / PART_BYTES))


def _saves(checkpoints: Checkpoints, mtbf_s: float) -> Saves:
    if checkpoints.parameters is not None:
        size = checkpoints.parameters * checkpoints.bytes_per_parameter
    else:
        size = checkpoints.size.bytes if checkpoints.size is not None else 0.0
    interval_s = None if checkpoints.interval == "auto" else float(checkpoints.interval.seconds)
    max_write_s = float(checkpoints.max_write_time.seconds)
    stall_write_s = None
    if checkpoints.asynchronous:
        # A save that takes longer than the interval would run into the next one.
        longest = min(max_write_s, 2 * mtbf_s if interval_s is None else interval_s)
    else:
        share = checkpoints.max_stall / (1 - checkpoints.max_stall)
        stall_write_s = 2 * mtbf_s * share**2 if interval_s is None else interval_s * share
        longest = min(max_write_s, stall_write_s)
    return Saves(
        checkpoint_bytes=size,
        interval_s=interval_s,
        asynchronous=checkpoints.asynchronous,
        max_write_s=max_write_s,
        max_stall=checkpoints.max_stall,
        stall_write_s=stall_write_s,
        longest_write_s=longest,
        max_restore_s=float(checkpoints.max_restore_time.seconds),
        restore_readers=checkpoints.restore_readers,
        restart_s=float(checkpoints.restart_time.seconds),
        mtbf_s=mtbf_s,
    )


def _required(read: float | None, write: float | None, restore: float | None, asynchronous: bool) -> float | None:
    if read is None and write is None and restore is None:
        return None
    reading, writing = read or 0.0, write or 0.0
    return max(reading + writing if asynchronous else max(reading, writing), restore or 0.0)
