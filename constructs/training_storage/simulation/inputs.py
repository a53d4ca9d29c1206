"""From a plan to what is simulated."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from training_storage.planner.demand import Needs, measure
from training_storage.planner.latency import ReadTime, read_time, unit_bytes
from training_storage.planner.model import Plan
from training_storage.planner.supply import data_wait
from training_storage.planner.words import percent, seconds
from training_storage.simulation.model import PipelineInput, RunInput
from training_storage.simulation.pipeline import MOST_ACCELERATORS
from training_storage.units import GIB, MB

DEFAULT_WORKERS: Final = 4
"""Readers of one accelerator where the workload tells no loader."""

DEFAULT_PREFETCH: Final = 2
"""Units that each keeps on the way where the workload tells no loader."""

_SAME: Final = 1e-9  # shares of the time that differ by less are equal


@dataclass(frozen=True, slots=True)
class Notes:
    """What the reader must know of the simulation, in the order in which it came up."""

    texts: list[str]

    def say(self, text: str) -> None:
        """Add one."""
        self.texts.append(text)


def pipeline_of(plan: Plan, notes: Notes) -> PipelineInput | None:
    """Return the way of the data to some of the accelerators; None where reads are not known or not there."""
    demand, accelerators = plan.demand.read_mb_per_s_per_accelerator, plan.accelerators
    if not demand:
        why = "the read rate is not known" if demand is None else "nothing is read"
        notes.say(f"{why}: no data path is simulated, and accelerators of the run do not wait for data")
        return None
    needs = measure(plan.workload, plan.compute.facts, plan.catalog, [])
    supply = min(limit.mb_per_s for limit in plan.prediction.limits if limit.name != "latency")
    time, loader = _read_time(plan, needs), plan.workload.dataset.loader
    if loader is None:
        notes.say(
            f"dataset.loader is not given: {DEFAULT_WORKERS} x {DEFAULT_PREFETCH} reads in flight are simulated "
            "without latency, as the plan counts none"
        )
    elif time is None or time.first_byte_s is None:
        notes.say("the latency of this tier is not known: reads are simulated without, as the plan counts none")
    latency = stream = None
    if time is not None and time.first_byte_s is not None:
        latency, stream = time.first_byte_s + time.open_s, time.stream_mb_per_s
    return PipelineInput(
        demand_mb_per_s=demand,
        supply_mb_per_s=supply / accelerators,
        unit_mb=unit_bytes(needs) / MB,
        workers=DEFAULT_WORKERS if loader is None else loader.workers_per_accelerator,
        prefetch=DEFAULT_PREFETCH if loader is None else loader.prefetch,
        latency_s=latency or 0.0,
        stream_mb_per_s=stream,
        # Less than one accelerator (a fraction of a GPU) has the share of a whole one in everything.
        accelerators=max(1, min(MOST_ACCELERATORS, math.floor(accelerators))),
    )


def _read_time(plan: Plan, needs: Needs) -> ReadTime | None:
    """Return how long one read takes on the tier of the plan, as the planner counts it."""
    files = plan.workload.dataset.interface == "posix"
    if plan.lustre is not None:
        tier, files = f"lustre.{plan.lustre.storage_type}", True
    elif plan.express is not None:
        tier = "s3_express"
    else:
        tier = "s3_files" if plan.tiers.file_access == "s3-files" else "s3"
    return read_time(needs, plan.catalog.training, tier, files=files)


def run_of(plan: Plan, run_s: float, wait: float, notes: Notes) -> RunInput | None:
    """Return the run; None without checkpoints.

    Args:
        plan: The plan.
        run_s: Length of the run, seconds.
        wait: Share of training that accelerators wait for data, as the pipeline measured it.
        notes: Takes what the reader must know.
    """
    checkpoints, found = plan.workload.checkpoints, plan.prediction
    interval, save, restore = found.checkpoint_interval_s, found.checkpoint_write_s, found.restore_s
    if checkpoints is None or interval is None or save is None or restore is None:
        notes.say("without a checkpoints section no run is simulated: a failure would throw away all of it")
        return None
    if interval <= 0:
        notes.say("the interval between two saves is 0: no run is simulated")
        return None
    during = _wait_beside_a_save(plan, save) if checkpoints.asynchronous else None
    return RunInput(
        run_s=run_s,
        mtbf_s=found.mtbf_h * 3600,
        interval_s=interval,
        save_s=save,
        restart_s=float(checkpoints.restart_time.seconds),
        restore_s=restore,
        asynchronous=checkpoints.asynchronous,
        wait_fraction=wait,
        # A save leaves reads no more than they have without it.
        saving_wait_fraction=None if during is None else max(during, wait),
    )


def _wait_beside_a_save(plan: Plan, save_s: float) -> float | None:
    """Return the share of the time that accelerators wait while a save is written in ``save_s``.

    Reads and writes share the disks of a file system: a save takes as much of them as it takes of their write
    throughput, and reads get what is left. None where that is as much as without a save, and on S3, where reads and
    writes have a direction each.
    """
    lustre, read, size_gib = plan.lustre, plan.demand.read_mb_per_s, plan.demand.checkpoint_gib
    if lustre is None or not read or not size_gib or save_s <= 0:
        return None
    taken = min(1.0, size_gib * GIB / MB / save_s / lustre.write_throughput_mb_per_s)
    supply = plan.prediction.read_supply_mb_per_s
    wait = data_wait(read, min(supply, lustre.throughput_mb_per_s * (1 - taken)))
    alone = data_wait(read, supply)
    return wait if wait is not None and alone is not None and wait > alone + _SAME else None


def reads_first(plan: Plan, given: RunInput) -> RunInput | None:
    """Return the same run with saves held back to what reads leave of the disks; None where they leave nothing.

    The run as it stands is the other end: a save takes all it can get, and reads what it leaves.
    """
    lustre, read, size_gib = plan.lustre, plan.demand.read_mb_per_s, plan.demand.checkpoint_gib
    if lustre is None or not read or not size_gib or given.saving_wait_fraction is None:
        return None
    taken = min(read, plan.prediction.read_supply_mb_per_s) / lustre.throughput_mb_per_s
    left_mb_per_s = (1 - taken) * lustre.write_throughput_mb_per_s
    if left_mb_per_s <= 0:
        return None
    save_s = max(given.save_s, size_gib * GIB / MB / left_mb_per_s)
    return replace(given, save_s=save_s, saving_wait_fraction=None)


def describe_sharing(given: RunInput, gentle: RunInput | None, ratio: float | None) -> str:
    """Return what saves and reads that share the disks mean, and the other end of it."""
    head = (
        f"saves and reads share the disks: while a save takes all it can get, for {seconds(given.save_s)}, "
        f"accelerators wait {percent(given.saving_wait_fraction or 0.0)} of the time"
    )
    if gentle is None or ratio is None:
        return f"{head}; reads that come first would leave saves nothing"
    return (
        f"{head}; held back so that reads come first, a save takes {seconds(gentle.save_s)} and the effective time "
        f"simulated is {ratio * 100:.2f} %"
    )
