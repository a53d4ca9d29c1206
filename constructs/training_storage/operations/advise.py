"""Whether checkpoints are saved as often as they should be: what was observed against what is configured.

Pure: the observations come from the hot tier, the figures of the fleet from the plan of the workload file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Final

from training_storage.errors import RefusedError
from training_storage.planner.efficiency import effective_ratio, lost_work_s

SAVE_SECONDS: Final = "save_seconds"
"""Metric in a checkpoint's ``metrics.json`` by which the training job says how long the save took."""

WORTH: Final = 0.001
"""Share of the GPU hours below which a change of the interval is not worth a line in a training script."""

NEWEST: Final = 20
"""Saves that the median is taken of: enough against a hiccup, few enough to follow a change."""

_NS: Final = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the checkpoints on the hot tier tell.

    Attributes:
        saves: Complete checkpoints that were looked at.
        write_s: Median time of a save, seconds.
        write_from: ``metric`` (the job said it) or ``files`` (from the first file to the last: a lower bound, because
            a file's time is that of its last write).
        interval_s: Median training between two saves, seconds; None with fewer than two.
    """

    saves: int
    write_s: float
    write_from: str
    interval_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What the interval costs, and what another one would.

    Attributes:
        accelerators: Accelerators of the fleet.
        mtbf_h: Mean time between failures of the fleet, hours.
        mtbf_from: ``observed`` or ``assumed``.
        configured_interval_s: Training between two saves as the workload file says; that of the plan with ``auto``.
        observed: What was observed.
        max_write_s: What the workload file lets one save take.
        recommended_interval_s: Training between two saves that loses least with the observed saves and failures.
        ratio_now: Share of the time that ends as progress with the observed interval (the configured one where none was
            observed), data wait not counted.
        ratio_recommended: The same with the recommended interval.
        gained_gpu_hours_per_day: GPU hours that the recommended interval gains; 0 where it is not worth a change.
        lost_work_s_per_failure: Work that a failure throws away with the observed interval, seconds.
        findings: What differs from what was planned, in words.
        advice: What to do, in one sentence.
    """

    accelerators: float
    mtbf_h: float
    mtbf_from: str
    configured_interval_s: float
    observed: Observed
    max_write_s: float
    recommended_interval_s: float
    ratio_now: float
    ratio_recommended: float
    gained_gpu_hours_per_day: float
    lost_work_s_per_failure: float
    findings: tuple[str, ...]
    advice: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)


def observe(checkpoints: Sequence[Mapping[str, Any]], *, asynchronous: bool) -> Observed:
    """Read save times and intervals off checkpoints as the agent's status has them.

    Args:
        checkpoints: Checkpoints with ``series``, ``complete``, ``modified_ns``, ``first_modified_ns`` and ``metrics``.
        asynchronous: Whether saves overlap with training: then the time between two ends is the training between them.

    Raises:
        RefusedError: There is no complete checkpoint.
    """
    whole = [each for each in checkpoints if each["complete"]]
    if not whole:
        raise RefusedError(
            "no complete checkpoint was seen on the hot tier, so there is no save to learn from; "
            "fix: run this again when the job has saved"
        )
    by_series: dict[str, list[Mapping[str, Any]]] = {}
    for each in whole:
        by_series.setdefault(str(each["series"]), []).append(each)
    # The run that saved last is the one that goes on.
    series = max(by_series.values(), key=lambda found: max(int(each["modified_ns"]) for each in found))
    newest = sorted(series, key=lambda each: int(each["modified_ns"]))[-NEWEST:]
    told = [float(value) for each in newest if (value := (each.get("metrics") or {}).get(SAVE_SECONDS)) is not None]
    spans = [max(0.0, (int(each["modified_ns"]) - int(each["first_modified_ns"])) / _NS) for each in newest]
    write_s = median(told or spans)
    ends = [int(each["modified_ns"]) / _NS for each in newest]
    gaps = [later - earlier for earlier, later in pairwise(ends)]
    interval = None if not gaps else max(0.0, median(gaps) - (0.0 if asynchronous else write_s))
    return Observed(saves=len(newest), write_s=write_s, write_from="metric" if told else "files", interval_s=interval)


def advise(
    observed: Observed,
    *,
    accelerators: float,
    configured_interval_s: float,
    max_write_s: float,
    recovery_s: float,
    asynchronous: bool,
    assumed_mtbf_h: float,
    failures: int | None = None,
    over_h: float | None = None,
) -> Advice:
    """Compare the interval with the one that the observed saves and failures ask for.

    Args:
        observed: What was observed.
        accelerators: Accelerators of the fleet.
        configured_interval_s: Training between two saves as configured, seconds.
        max_write_s: What one save may take, seconds.
        recovery_s: From a failure to training again, seconds.
        asynchronous: Whether saves overlap with training.
        assumed_mtbf_h: Mean time between failures that the plan assumes, hours.
        failures: Failures that were seen; None: the assumption stands.
        over_h: Hours in which they were seen.

    Returns:
        The advice. With no failure seen the mean time is at least the hours without one (the likeliest value has no
        upper end), so the longer of both counts.

    Raises:
        RefusedError: The failures or their hours are no numbers to divide.
    """
    mtbf_h, source = assumed_mtbf_h, "assumed"
    if failures is not None:
        if failures < 0 or over_h is None or not over_h > 0:
            raise RefusedError(
                f"{failures} failures in {over_h} hours give no failure rate; allowed: 0 or more failures, and more "
                "than 0 hours; fix: give both --failures and --over"
            )
        mtbf_h = over_h / failures if failures else max(over_h, assumed_mtbf_h)
        source = "observed"
    cycle = {"write_s": observed.write_s, "mtbf_s": mtbf_h * 3600, "recovery_s": recovery_s}
    now_s = configured_interval_s if observed.interval_s is None else observed.interval_s
    recommended = _best_interval(observed.write_s, mtbf_h * 3600, recovery_s, asynchronous=asynchronous)
    ratio_now = effective_ratio(interval_s=now_s, asynchronous=asynchronous, **cycle)
    ratio_best = effective_ratio(interval_s=recommended, asynchronous=asynchronous, **cycle)
    gain = ratio_best - ratio_now
    worth = gain >= WORTH
    gained = gain * accelerators * 24 if worth else 0.0
    return Advice(
        accelerators=accelerators,
        mtbf_h=mtbf_h,
        mtbf_from=source,
        configured_interval_s=configured_interval_s,
        observed=observed,
        max_write_s=max_write_s,
        recommended_interval_s=recommended,
        ratio_now=ratio_now,
        ratio_recommended=ratio_best,
        gained_gpu_hours_per_day=gained,
        lost_work_s_per_failure=lost_work_s(interval_s=now_s, asynchronous=asynchronous, **cycle),
        findings=tuple(_findings(observed, configured_interval_s, max_write_s)),
        advice=_sentence(now_s, recommended, gained, worth=worth),
    )


def _best_interval(write_s: float, mtbf_s: float, recovery_s: float, *, asynchronous: bool) -> float:
    """Return the training between two saves that loses least.

    Synchronous saves: where the closed form of ``planner.efficiency`` is highest, by golden section around Young's
    sqrt(2 w M). Asynchronous ones cost training nothing in that form, so Young's interval stands: closer saves would
    only take throughput from reads.
    """
    young = math.sqrt(2 * max(write_s, 0.0) * mtbf_s)
    if asynchronous or young <= 0:
        return max(young, write_s)
    low, high = young / 20, young * 20
    golden = (math.sqrt(5) - 1) / 2

    def kept(logarithm: float) -> float:
        return effective_ratio(
            interval_s=math.exp(logarithm), write_s=write_s, mtbf_s=mtbf_s, recovery_s=recovery_s, asynchronous=False
        )

    a, b = math.log(low), math.log(high)
    for _ in range(60):
        one, two = b - golden * (b - a), a + golden * (b - a)
        if kept(one) < kept(two):
            a = one
        else:
            b = two
    return math.exp((a + b) / 2)


def _findings(observed: Observed, configured_s: float, max_write_s: float) -> Iterable[str]:
    if observed.write_s > max_write_s:
        yield (
            f"a save takes {observed.write_s:,.0f} s, and the workload file allows {max_write_s:,.0f} s: more write "
            "throughput, fewer bytes, or asynchronous saves"
        )
    if observed.interval_s is not None and configured_s > 0:
        ratio = observed.interval_s / configured_s
        if not 0.8 <= ratio <= 1.25:
            word = "more" if ratio < 1 else "less"
            yield (
                f"the job saves {word} often than the workload file says: every {observed.interval_s:,.0f} s of "
                f"training, not every {configured_s:,.0f} s; sizes and cost of the plan follow the file"
            )


def _sentence(now_s: float, recommended_s: float, gained: float, *, worth: bool) -> str:
    if not worth:
        return "leave the interval as it is: another one would gain less than 0.1 % of the GPU hours"
    word = "more" if recommended_s < now_s else "less"
    return (
        f"save {word} often: every {recommended_s:,.0f} s of training in place of {now_s:,.0f} s gains "
        f"{gained:,.1f} GPU hours a day"
    )
