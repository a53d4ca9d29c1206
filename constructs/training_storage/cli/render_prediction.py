"""What training will see, for a reader in a terminal: first whether accelerators wait, and for what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from training_storage.cli.render_cost import usd
from training_storage.planner.words import mb_per_s, number, percent, seconds
from training_storage.units import plain_digits

if TYPE_CHECKING:
    from training_storage.planner.model import Plan
    from training_storage.planner.model_prediction import FirstEpoch, Prediction

HEADING: Final = "What training will see"

_NOISE: Final = 1e-9
"""A share of the time that is rounding, not time."""

_SAME_INTERVAL: Final = 0.005
"""Intervals that differ by less read as one."""


def prediction_notes(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the lines of the section: a name of at most 18 characters, and what there is to say.

    Args:
        plan: The plan.
    """
    found = plan.prediction
    yield "data", _data(plan)
    others = found.limits[1:]
    if others:
        yield "other limits", "; ".join(f"{each.name} {mb_per_s(each.mb_per_s)}" for each in others)
    yield from _saves(found)
    yield "failures", _failures(found)
    if found.effective_training_time_ratio is not None:
        unknown = "" if found.data_wait_fraction is not None else ", data wait not known and not counted"
        ratio = f"{plain_digits(found.effective_training_time_ratio * 100, 4)} %"
        yield "effective time", f"{ratio} of all time ends as training progress{unknown}{_at_worst(found)}"
    if found.idle_gpu_usd_per_hour is not None:
        lost = found.lost_gpu_usd_per_hour
        failures = "" if lost is None else f"; {usd(lost)} with all that failures, restarts and restores take"
        yield "idle accelerators", f"{usd(found.idle_gpu_usd_per_hour)} USD an hour for waits and stalls{failures}"
    if found.first_epoch is not None:
        yield "first pass", _first_pass(found.first_epoch)
        yield "loading ahead", _ahead(found.first_epoch)


def _at_worst(found: Prediction) -> str:
    ratio, low = found.effective_training_time_ratio, found.effective_training_time_ratio_low
    if ratio is None or low is None or low > ratio - _NOISE:
        return ""
    return f"; {plain_digits(low * 100, 4)} % where a save takes all that the disks give while it is written"


def _data(plan: Plan) -> str:
    found, demand, limit = plan.prediction, plan.demand.read_mb_per_s, plan.prediction.limits[0]
    bound = f"the limit is {found.binds}, {mb_per_s(limit.mb_per_s)} ({limit.because})"
    if found.data_wait_fraction is None or demand is None:
        return f"reads are not known; {bound}"
    if found.data_wait_fraction > _NOISE:
        wait = percent(found.data_wait_fraction)
        return f"accelerators wait {wait} of the time: {bound}, and reads need {mb_per_s(demand)}"
    return f"accelerators do not wait: reads need {mb_per_s(demand)}; {bound}"


def _saves(found: Prediction) -> Iterator[tuple[str, str]]:
    write_s, restore_s, interval_s = found.checkpoint_write_s, found.restore_s, found.checkpoint_interval_s
    if write_s is None or restore_s is None or interval_s is None:
        return
    if found.checkpoint_mode == "synchronous":
        effect = f"stalls training {percent(found.checkpoint_stall_fraction or 0.0)} of the time"
    else:
        effect = "asynchronous, stalls nothing"
    yield "save", f"{seconds(write_s)}, by {found.checkpoint_write_bound_by}; {effect}"
    during, wait = found.data_wait_during_save_fraction, found.data_wait_fraction or 0.0
    if during is not None and during > wait + _NOISE:
        share = percent(found.data_wait_with_saves_fraction or 0.0)
        yield "while it saves", f"reads get what is left: accelerators wait {percent(during)}, {share} of all the time"
    yield "restore", f"{seconds(restore_s)}, by {found.restore_bound_by}"
    young, daly = found.recommended_checkpoint_interval_s, found.daly_checkpoint_interval_s
    if young is not None and daly is not None:
        yield "interval", f"{seconds(interval_s)}{_against_young(found, interval_s, young, daly)}"


def _against_young(found: Prediction, interval_s: float, young: float, daly: float) -> str:
    """Say where the interval stands: Young and Daly weigh saves that stall against failures."""
    if found.checkpoint_mode == "asynchronous":
        return (
            f"; saves that stall would lose least each {seconds(young)} (Young; Daly {seconds(daly)}), asynchronous "
            "ones lose less the more often they come"
        )
    if abs(interval_s - young) <= _SAME_INTERVAL * young:
        return f": loses least by Young; by Daly {seconds(daly)}"
    return f"; {seconds(young)} loses least by Young, {seconds(daly)} by Daly"


def _failures(found: Prediction) -> str:
    rate = f"one in {seconds(found.mtbf_h * 3600)} on average"
    if found.lost_work_s_per_failure is None:
        return rate
    return f"{rate}; each throws away {seconds(found.lost_work_s_per_failure)} of work"


def _first_pass(found: FirstEpoch) -> str:
    if found.first_s <= found.steady_s * (1 + _NOISE):
        return (
            f"{seconds(found.first_s)}, no longer than later ones, if files come from S3 at the "
            f"{mb_per_s(found.load_mb_per_s)} that are assumed"
        )
    cost = "" if found.added_gpu_usd is None else f", {usd(found.added_gpu_usd)} USD of accelerators more"
    return (
        f"{seconds(found.first_s)} in place of {seconds(found.steady_s)}: files come from S3 at "
        f"{mb_per_s(found.load_mb_per_s)} (assumed), accelerators wait {percent(found.data_wait_fraction)}{cost}"
    )


def _ahead(found: FirstEpoch) -> str:
    cost = "" if found.preload_storage_usd is None else f" and {usd(found.preload_storage_usd)} USD of storage"
    return (
        f"the {number(found.read_gb)} GB take {seconds(found.preload_s)}{cost} before the accelerators are there, with "
        "`training-storage preload`; the first pass is then like later ones"
    )
