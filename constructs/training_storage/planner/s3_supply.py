"""What S3 gives the fleet without a hot tier, and whether that serves the workload (contract sections 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from training_storage.catalog import Catalog
from training_storage.catalog.model import InstanceType
from training_storage.planner.demand import Needs, below, covers
from training_storage.planner.latency import read_time
from training_storage.planner.lustre import MB_PER_S_PER_GBPS
from training_storage.planner.supply import Limits, Outcome, Term, latency_terms, outcome, tightest
from training_storage.planner.words import gib, mb_per_s, number, percent, seconds
from training_storage.units import GB, GIB, MB

SAVED_CHECKPOINTS_ON_NVME = 2
"""Checkpoints that local NVMe must hold: the one being uploaded and the one being written."""

Gap = Literal["reads", "opens", "save", "restore", "interval", "stall", "nvme"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """One part of the demand that S3 does not serve.

    Attributes:
        gap: Which part.
        text: The part with both numbers.
    """

    gap: Gap
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Supply:
    """S3 as the only tier.

    Attributes:
        per_instance_mb_per_s: What one instance writes to S3, and reads from it unless S3 Files is mounted.
        read_per_instance_mb_per_s: What one instance reads.
        limits: What binds for the whole fleet.
        outcome: What that means for the workload.
        shortfalls: What S3 does not serve; empty where it can serve the workload.
    """

    per_instance_mb_per_s: float
    read_per_instance_mb_per_s: float
    limits: Limits
    outcome: Outcome
    shortfalls: tuple[Shortfall, ...]

    @property
    def can_serve(self) -> bool:
        """Whether S3 serves everything that is asked for."""
        return not self.shortfalls


def s3_gbps(facts: InstanceType) -> float:
    """Return what one instance moves to and from S3 in Gbit/s; passed to Mountpoint as its maximum throughput.

    The type's row in Mountpoint's table (without a row its network), as far as the IP bandwidth of our interface
    layout reaches.
    """
    table = facts.network_gbps if facts.mountpoint_gbps is None else facts.mountpoint_gbps
    return min(table, facts.ip_gbps)


def judge_s3(
    needs: Needs, facts: InstanceType, catalog: Catalog, *, s3_files: bool, files: bool, saves_on_nvme: bool
) -> S3Supply:
    """Return what S3 gives and what it does not serve.

    Args:
        needs: The demand.
        facts: The instance type.
        catalog: Where the rates stand.
        s3_files: Whether nodes read through S3 Files in place of Mountpoint or the S3 API.
        files: Whether the code opens files, in place of asking S3 for objects itself.
        saves_on_nvme: Whether POSIX code saves checkpoints, which then go to local NVMe first.
    """
    rates = catalog.object_storage
    part_mb = rates.part_bytes / MB
    per_instance = s3_gbps(facts) * MB_PER_S_PER_GBPS
    read_per_instance = per_instance
    if s3_files:
        read_per_instance = min(rates.s3_files_client_bytes_per_s / MB, facts.ip_gbps * MB_PER_S_PER_GBPS)
    instances, requests = needs.instances, needs.read_requests_per_s
    network = Term("network", instances * per_instance, "{} x {} MB/s of one instance", (instances, per_instance))
    moving: tuple[Term, ...] = (network,)
    if s3_files:
        ip, client = facts.ip_gbps * MB_PER_S_PER_GBPS, read_per_instance
        moving = (
            Term("network", instances * ip, "{} x {} MB/s of one instance", (instances, ip)),
            Term("client", instances * client, "{} x {} MB/s of one client of S3 Files", (instances, client)),
        )
    gets, puts = rates.get_requests_per_s_per_prefix, rates.put_requests_per_s_per_prefix
    get_mb = part_mb
    if requests and needs.demand.read_mb_per_s is not None:
        get_mb = min(part_mb, needs.demand.read_mb_per_s / requests)
    reads = (*moving, _requests("GET", gets, get_mb))
    time = read_time(needs, catalog.training, "s3_files" if s3_files else "s3", files=files)
    limits = Limits(
        reads=(*reads, *latency_terms(needs, time)),
        write=tightest((network, _requests("PUT", puts, part_mb))),
        restore=tightest((*moving, _requests("GET", gets, part_mb))),
        read_time=time,
    )
    result = outcome(needs, limits)
    return S3Supply(
        per_instance_mb_per_s=per_instance,
        read_per_instance_mb_per_s=read_per_instance,
        limits=limits,
        outcome=result,
        shortfalls=(
            *_read_shortfalls(needs, read_per_instance, requests, rates.get_requests_per_s_per_prefix),
            *save_shortfalls(needs, result, facts, saves_on_nvme=saves_on_nvme),
        ),
    )


def _requests(kind: str, per_s: int, mb: float) -> Term:
    return Term("requests", per_s * mb, f"{{}} {kind} a second of one prefix x {{}} MB", (per_s, mb))


def _read_shortfalls(
    needs: Needs, per_instance: float, requests: float | None, most_requests: int
) -> tuple[Shortfall, ...]:
    found: list[Shortfall] = []
    read = needs.demand.read_mb_per_s
    if read is not None and not covers(needs.instances * per_instance, read):
        found.append(
            Shortfall(
                gap="reads",
                text=f"reads need {mb_per_s(read)}; {needs.instances:,} x {mb_per_s(per_instance)} are "
                f"{mb_per_s(needs.instances * per_instance)}",
            )
        )
    if requests is not None and not covers(most_requests, requests):
        found.append(
            Shortfall(
                gap="opens",
                text=f"reading makes {number(requests)} requests a second; one prefix serves {most_requests:,}",
            )
        )
    return tuple(found)


def save_shortfalls(
    needs: Needs, result: Outcome, facts: InstanceType, *, saves_on_nvme: bool
) -> tuple[Shortfall, ...]:
    """Return what saves and restores miss; the same bounds hold for every tier whose rate is not sized for them.

    Args:
        needs: The demand.
        result: What the tier means for it.
        facts: The instance type.
        saves_on_nvme: Whether POSIX code saves checkpoints, which then go to local NVMe first.
    """
    saves, write_s, restore_s = needs.saves, result.checkpoint_write_s, result.restore_s
    if saves is None or write_s is None or restore_s is None:
        return ()
    found: list[Shortfall] = []
    if not covers(saves.max_write_s, write_s):
        found.append(
            Shortfall(
                gap="save", text=f"a save takes {seconds(write_s)}; max_write_time is {seconds(saves.max_write_s)}"
            )
        )
    if not covers(saves.max_restore_s, restore_s):
        found.append(
            Shortfall(
                gap="restore",
                text=f"a restore takes {seconds(restore_s)}; max_restore_time is {seconds(saves.max_restore_s)}",
            )
        )
    interval_s = saves.interval_at(write_s)
    if not below(write_s, interval_s):
        found.append(
            Shortfall(
                gap="interval",
                text=f"a save takes {seconds(write_s)} and would run into the next one after {seconds(interval_s)}",
            )
        )
    stall = saves.stall_fraction(write_s)
    if not saves.asynchronous and not below(stall, saves.max_stall):
        found.append(
            Shortfall(
                gap="stall",
                text=f"saves stall training {percent(stall)} of the time; max_stall is {percent(saves.max_stall)}",
            )
        )
    if saves_on_nvme:
        room = needs.instances * facts.local_nvme_gb * GB
        wanted = SAVED_CHECKPOINTS_ON_NVME * saves.checkpoint_bytes
        if not covers(room, wanted):
            found.append(
                Shortfall(
                    gap="nvme",
                    text=f"POSIX code saves to local NVMe, which must hold two checkpoints ({gib(wanted / GIB)}); "
                    f"the fleet has {gib(room / GIB)}",
                )
            )
    return tuple(found)
