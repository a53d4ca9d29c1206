"""What the planner's formulas say of the inputs of a simulation, and where they do not claim to be exact.

Each formula stands beside its claim: an empty text where it is exact, else why it is not.
"""

from __future__ import annotations

import math
from typing import Final

from training_storage.planner.efficiency import effective_ratio, lost_work_s
from training_storage.planner.supply import data_wait
from training_storage.planner.words import number, percent, seconds
from training_storage.simulation.model import PipelineInput, RunInput

EXACT: Final = ""
"""The claim of a formula that is exact for the inputs."""

_CLAIMED: Final = 0.025  # relative; half of the 5 % that the checks allow

# Reads of varying latency, from these on: far from balance and many enough for their mean to count (Little's law).
_FAR_FROM_BALANCE: Final = 2
_MANY_SLOTS: Final = 16


def delivered_mb_per_s(given: PipelineInput) -> float:
    """Return what one accelerator takes, MB/s: the smallest of its demand, its share of the supply, and the latency.

    Latency lets through the bytes on the way, ``slots x unit``, over the time of one read: latency and the bytes at the
    rate of one stream.
    """
    return _delivered(given, _stream_s(given))


def wait_fraction(given: PipelineInput) -> float:
    """Return the share of the time that accelerators wait for data: 1 - delivered / demand."""
    return data_wait(given.demand_mb_per_s, delivered_mb_per_s(given)) or 0.0


def delivered_claim(given: PipelineInput) -> str:
    """Return why the delivered rate is not exact."""
    return _pipeline_claim(given, delivered_mb_per_s(given), _with_transfer(given))


def wait_claim(given: PipelineInput) -> str:
    """Return why the wait is not exact; where it is small it depends most on what the formula leaves out."""
    demand = given.demand_mb_per_s
    return _pipeline_claim(given, demand - delivered_mb_per_s(given), demand - _with_transfer(given))


def _pipeline_claim(given: PipelineInput, plain: float, refined: float) -> str:
    if given.varying_latency and not _mean_counts(given):
        order = ", and units are handed over in order" if given.in_order else ""
        return f"the latency of a read varies{order}; the formula knows its mean"
    if abs(plain - refined) > _CLAIMED * abs(plain):
        transfer = seconds(_transfer_s(given))
        return f"a read is short or alone: the {transfer} that its bytes take on the link count beside the latency"
    return EXACT


def _mean_counts(given: PipelineInput) -> bool:
    """Whether the mean of varying latencies is all that matters."""
    if given.in_order or given.slots < _MANY_SLOTS:
        return False
    in_flight, rest = _in_flight(given, _stream_s(given)), min(given.demand_mb_per_s, given.supply_mb_per_s)
    return in_flight >= rest * _FAR_FROM_BALANCE or in_flight <= rest / _FAR_FROM_BALANCE


def _delivered(given: PipelineInput, bytes_s: float) -> float:
    return min(given.demand_mb_per_s, given.supply_mb_per_s, _in_flight(given, bytes_s))


def _in_flight(given: PipelineInput, bytes_s: float) -> float:
    read_s = given.latency_s + bytes_s
    return given.slots * given.unit_mb / read_s if read_s > 0 else math.inf


def _with_transfer(given: PipelineInput) -> float:
    """Return the same with the time that a unit takes over the link, where no other is in its way."""
    return _delivered(given, max(_stream_s(given), _transfer_s(given)))


def _stream_s(given: PipelineInput) -> float:
    return 0.0 if given.stream_mb_per_s is None else given.unit_mb / given.stream_mb_per_s


def _transfer_s(given: PipelineInput) -> float:
    return given.unit_mb / (given.supply_mb_per_s * given.accelerators)


def stall_fraction(given: RunInput) -> float:
    """Return the share of the time that saves stall training: w / (dt + w), 0 where they overlap."""
    return 0.0 if given.asynchronous else given.save_s / given.cycle_s


def wait_with_saves_fraction(given: RunInput) -> float:
    """Return the share of training that accelerators wait for data, with and without a save beside it."""
    wait, saving = given.wait_fraction, given.saving_wait_fraction
    return wait if saving is None else wait + (saving - wait) * min(1.0, given.save_s / given.interval_s)


def cycle_claim(given: RunInput) -> str:
    """Return why a share of the cycle (stall, waiting during saves) is not exact.

    Failures come before the end of a cycle, where the save is, more often than in it: to first order that takes
    (dt + w) / 2M off the share.
    """
    if given.cycle_s / given.mtbf_s / 2 > _CLAIMED:
        return f"a failure each {number(given.mtbf_s / given.cycle_s)} cycles cuts cycles short before their save"
    return EXACT


def effective_training_time_ratio(given: RunInput) -> float:
    """Return the share of the time that ends as training progress: that of the planner, less the data wait."""
    return effective_ratio(
        interval_s=given.interval_s,
        write_s=given.save_s,
        mtbf_s=given.mtbf_s,
        recovery_s=given.restart_s + given.restore_s,
        asynchronous=given.asynchronous,
    ) * (1 - given.wait_fraction)


def lost_s_per_failure(given: RunInput) -> float:
    """Return the training that one failure throws away on average, seconds, with the waits in it."""
    return lost_work_s(
        interval_s=given.interval_s,
        write_s=given.save_s,
        mtbf_s=given.mtbf_s,
        recovery_s=given.restart_s + given.restore_s,
        asynchronous=given.asynchronous,
    )


def effective_claim(given: RunInput) -> str:
    """Return why the ratio is not exact."""
    while_saving = given.saving_wait_fraction
    if given.asynchronous and while_saving is not None and while_saving != given.wait_fraction and given.save_s > 0:
        return (
            f"saves and reads share the throughput: accelerators wait {percent(while_saving)} of the time while a save "
            "is written, and the formula lets them overlap"
        )
    return lost_claim(given)


def lost_claim(given: RunInput) -> str:
    """Return why the training that a failure throws away is not exact."""
    if given.asynchronous and given.save_s > given.interval_s:
        due = seconds(given.interval_s)
        return f"a save of {seconds(given.save_s)} holds up the next snapshot, which is due after {due}"
    return EXACT
