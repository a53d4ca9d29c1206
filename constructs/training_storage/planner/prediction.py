"""From limits and outcome of the chosen tier to what training will see (contract section 3, prediction)."""

from __future__ import annotations

from operator import attrgetter

from training_storage.planner.draft import Draft
from training_storage.planner.efficiency import effective_ratio, lost_work_s
from training_storage.planner.first_epoch import first_epoch
from training_storage.planner.latency import explain_read
from training_storage.planner.model import LustrePlan
from training_storage.planner.model_prediction import Prediction, SupplyLimit
from training_storage.planner.prices import fleet_usd_per_hour
from training_storage.planner.supply import Limits, Outcome, data_wait
from training_storage.units import MB

_BY_RATE = attrgetter("mb_per_s")

_NOISE = 1e-9
"""Shares of the time that differ by less are equal."""


def predict(draft: Draft, limits: Limits, result: Outcome, lustre: LustrePlan | None) -> Prediction:
    """Return the prediction for the chosen tier.

    Args:
        draft: The plan while it is written; takes assumptions.
        limits: What the chosen tier delivers.
        result: What that means for saves and restores.
        lustre: The file system, where it is the hot tier.
    """
    needs = draft.needs
    terms = sorted(limits.reads, key=_BY_RATE)  # equal ones keep their order: causes first
    supply = float(terms[0].mb_per_s)
    if limits.read_time is not None:
        draft.assume(explain_read(limits.read_time))
    wait, stall = result.data_wait_fraction, result.checkpoint_stall_fraction
    usd = fleet_usd_per_hour(draft)
    idle = None if wait is None and stall is None else (wait or 0.0) + (stall or 0.0)
    saves, write_s, restore_s = needs.saves, result.checkpoint_write_s, result.restore_s
    interval_s = lost_s = ratio = low = daly_s = during = with_saves = None
    if saves is not None and write_s is not None and restore_s is not None:
        interval_s = saves.interval_at(write_s)
        daly_s = max(0.0, saves.recommended_interval_s(write_s) - write_s)
        cycle = {
            "interval_s": interval_s,
            "write_s": write_s,
            "mtbf_s": saves.mtbf_s,
            "recovery_s": saves.restart_s + restore_s,
        }
        undisturbed = effective_ratio(**cycle, asynchronous=saves.asynchronous)
        ratio = undisturbed * (1 - (wait or 0.0))
        lost_s = lost_work_s(**cycle, asynchronous=saves.asynchronous)
        if saves.asynchronous and lustre is not None and wait is not None:
            during, with_saves = _with_saves(draft, lustre, supply, wait, max(write_s, saves.longest_write_s))
            # A save that nothing slows down leaves reads nothing of the disks for as long as it is written.
            low = undisturbed * (1 - wait) * (1 - write_s / max(interval_s, write_s))
    return Prediction(
        read_supply_mb_per_s=supply,
        binds=terms[0].name,
        limits=tuple(
            SupplyLimit(name=term.name, mb_per_s=float(term.mb_per_s), because=term.because()) for term in terms
        ),
        data_wait_fraction=wait,
        data_wait_during_save_fraction=during,
        data_wait_with_saves_fraction=with_saves,
        checkpoint_mode=None if saves is None else "asynchronous" if saves.asynchronous else "synchronous",
        checkpoint_interval_s=interval_s,
        checkpoint_write_s=write_s,
        checkpoint_write_bound_by=None if saves is None else limits.write.name,
        checkpoint_stall_fraction=stall,
        restore_s=restore_s,
        restore_bound_by=None if saves is None else limits.restore.name,
        recommended_checkpoint_interval_s=result.recommended_checkpoint_interval_s,
        daly_checkpoint_interval_s=daly_s,
        mtbf_h=result.mtbf_h,
        failures_per_day=24 / result.mtbf_h,
        lost_work_s_per_failure=lost_s,
        effective_training_time_ratio=ratio,
        effective_training_time_ratio_low=low,
        idle_gpu_usd_per_hour=None if usd is None or idle is None else idle * usd,
        lost_gpu_usd_per_hour=None if usd is None or ratio is None else (1 - ratio) * usd,
        first_epoch=first_epoch(draft, lustre, supply),
    )


def _with_saves(
    draft: Draft, lustre: LustrePlan, supply: float, wait: float, save_s: float
) -> tuple[float | None, float | None]:
    """Return the data wait while a save is written at the rate that is planned for it, and that of all the time.

    Reads and writes share the disks: a write takes as much of them as it takes of their write throughput, and reads
    get what is left. On S3 both have their own direction.

    Args:
        draft: The plan while it is written.
        lustre: The file system.
        supply: Reads that it delivers between saves.
        wait: The data wait between saves.
        save_s: A save that is spread over the time that it may take, or one that takes longer anyway.
    """
    saves = draft.needs.saves
    if saves is None:
        return None, None
    writing = saves.checkpoint_bytes / MB / save_s
    left = lustre.throughput_mb_per_s * max(0.0, 1 - writing / lustre.write_throughput_mb_per_s)
    during = data_wait(draft.needs.demand.read_mb_per_s, min(supply, left)) or 0.0
    if during <= wait + _NOISE:
        return wait, wait
    return during, wait + (during - wait) * min(1.0, save_s / saves.interval_at(save_s))
