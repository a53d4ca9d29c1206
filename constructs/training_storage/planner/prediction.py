"""From limits and outcome of the chosen tier to what training will see (contract section 3, prediction)."""

from __future__ import annotations

from training_storage.planner.draft import Draft
from training_storage.planner.model_prediction import Prediction, SupplyLimit
from training_storage.planner.prices import fleet_usd_per_hour
from training_storage.planner.supply import Limits, Outcome
from training_storage.planner.words import mb_per_s


def predict(draft: Draft, limits: Limits, result: Outcome) -> Prediction:
    """Return the prediction for the chosen tier.

    Args:
        draft: The plan while it is written; takes assumptions and warnings.
        limits: What the chosen tier delivers.
        result: What that means for saves and restores.
    """
    needs = draft.needs
    saves, write_s = needs.saves, result.checkpoint_write_s
    found = (
        SupplyLimit(name="disk", mb_per_s=limits.read_mb_per_s, because=f"{mb_per_s(limits.read_mb_per_s)} in all"),
    )
    usd = fleet_usd_per_hour(draft)
    idle = [part for part in (result.data_wait_fraction, result.checkpoint_stall_fraction) if part is not None]
    young = result.recommended_checkpoint_interval_s
    return Prediction(
        read_supply_mb_per_s=found[0].mb_per_s,
        binds=found[0].name,
        limits=found,
        data_wait_fraction=result.data_wait_fraction,
        checkpoint_mode=None if saves is None else "asynchronous" if saves.asynchronous else "synchronous",
        checkpoint_interval_s=None if saves is None or write_s is None else saves.interval_at(write_s),
        checkpoint_write_s=write_s,
        checkpoint_stall_fraction=result.checkpoint_stall_fraction,
        restore_s=result.restore_s,
        recommended_checkpoint_interval_s=young,
        daly_checkpoint_interval_s=None if young is None or write_s is None else max(0.0, young - write_s),
        mtbf_h=result.mtbf_h,
        failures_per_day=24 / result.mtbf_h,
        lost_work_s_per_failure=None,
        effective_training_time_ratio=None,
        idle_gpu_usd_per_hour=None if usd is None or not idle else sum(idle) * usd,
        first_epoch=None,
    )
