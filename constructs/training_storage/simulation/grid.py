"""Closed forms against the simulation on a grid of inputs: what ``docs/simulation.md`` shows and a test holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, product
from typing import Final

from training_storage.planner.words import mb_per_s, number, percent, seconds
from training_storage.simulation import closed_forms
from training_storage.simulation.model import PipelineInput, RunInput
from training_storage.simulation.pipeline import simulate_pipeline
from training_storage.simulation.random_streams import even_exponential, exponential
from training_storage.simulation.run import simulate_run

SMALLEST_SHARE: Final = 0.01
"""Shares of the time below this are not compared by their ratio: a hundredth of a hundredth is no error to speak of."""

_SEED: Final = 1
_FEWEST_FAILURES: Final = 400  # that reach a save; evenly spread they pin a share to about 1 / 400
_FAILURES_A_CYCLE: Final = 20  # so that where in a cycle failures fall is spread evenly too
_INDEPENDENT_FAILURES: Final = 10_000  # one standard deviation of the lost share is then near 1 %
_STEPS: Final = 10**7


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One figure of one case.

    Attributes:
        group: What kind of case it is.
        inputs: The case in words.
        figure: What is compared.
        closed_form: What the formula says.
        simulated: What was measured.
        claim: Why the formula does not claim to be exact; empty where it does.
    """

    group: str
    inputs: str
    figure: str
    closed_form: float
    simulated: float
    claim: str

    @property
    def difference(self) -> float:
        """Of the simulation from the formula, relative."""
        return self.simulated / self.closed_form - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All checks.

    Attributes:
        cases: Simulations that were run.
        checks: What was compared; some cases give several.
    """

    cases: int
    checks: tuple[Check, ...]

    @property
    def exact(self) -> tuple[Check, ...]:
        """Those where the formula claims to be exact."""
        return tuple(check for check in self.checks if not check.claim)

    @property
    def inexact(self) -> tuple[Check, ...]:
        """Those where it does not."""
        return tuple(check for check in self.checks if check.claim)


def run_grid() -> Grid:
    """Simulate every case and compare."""
    checks: list[Check] = []
    cases = 0
    for group, pipeline in pipeline_cases():
        checks += _check_pipeline(group, pipeline)
        cases += 1
    for group, run, independent in run_cases():
        checks += _check_run(group, run, independent=independent)
        cases += 1
    return Grid(cases=cases, checks=tuple(checks))


# The pipeline

_LOADERS: Final = ((1, 1), (4, 2), (8, 4), (16, 8))
# Latency in seconds and MB/s of one stream: Lustre on SSD, S3 Express One Zone, S3; a file system opens first.
_TIERS: Final = (("Lustre", 0.002, None), ("S3 Express", 0.01, None), ("S3", 0.2, 85.0))
_UNITS_MB: Final = (0.115, 8.388608, 146.6)
_DEMANDS: Final = ((25.0, 1.25), (400.0, 0.7), (2859.0, 1.25), (2859.0, 0.9))


def pipeline_cases() -> Iterator[tuple[str, PipelineInput]]:
    """Yield every case of the pipeline with its group."""
    for (workers, prefetch), (tier, latency, stream), unit, (demand, ratio) in product(
        _LOADERS, _TIERS, _UNITS_MB, _DEMANDS
    ):
        yield (
            f"reads from {tier}",
            PipelineInput(
                demand_mb_per_s=demand,
                supply_mb_per_s=demand * ratio,
                unit_mb=unit,
                workers=workers,
                prefetch=prefetch,
                latency_s=latency,
                stream_mb_per_s=stream,
                accelerators=4,
            ),
        )
    # Reads in flight for 0.4 to 4 times the demand, with latencies that vary about the same mean.
    for in_order, in_flight in product((False, True), (0.4, 0.8, 1.0, 1.25, 2.0, 4.0)):
        demand = 16 * 4 * 8.388608 / 0.1 / in_flight
        yield (
            f"reads of varying latency{', handed over in order' if in_order else ''}",
            PipelineInput(
                demand_mb_per_s=demand,
                supply_mb_per_s=demand * 4,
                unit_mb=8.388608,
                workers=16,
                prefetch=4,
                latency_s=0.1,
                accelerators=4,
                varying_latency=True,
                in_order=in_order,
            ),
        )


def _check_pipeline(group: str, given: PipelineInput) -> Iterator[Check]:
    measured = simulate_pipeline(given, seed=_SEED)
    inputs = (
        f"{given.workers} x {given.prefetch} reads of {number(given.unit_mb)} MB in flight, first byte after "
        f"{seconds(given.latency_s)}{' on average' if given.varying_latency else ''}"
        f"{'' if given.stream_mb_per_s is None else f', then {mb_per_s(given.stream_mb_per_s)}'}; "
        f"{mb_per_s(given.demand_mb_per_s)} needed, {mb_per_s(given.supply_mb_per_s)} supplied to each of "
        f"{given.accelerators} accelerators"
    )
    yield Check(
        group=group,
        inputs=inputs,
        figure="delivered MB/s",
        closed_form=closed_forms.delivered_mb_per_s(given),
        simulated=measured.delivered_mb_per_s,
        claim=closed_forms.delivered_claim(given),
    )
    wait = closed_forms.wait_fraction(given)
    if wait >= SMALLEST_SHARE:
        claim = closed_forms.wait_claim(given)
        yield Check(
            group=group,
            inputs=inputs,
            figure="data wait",
            closed_form=wait,
            simulated=measured.wait_fraction,
            claim=claim,
        )


# The run

_SAVES_S: Final = (5.0, 60.0, 300.0)
_INTERVALS_S: Final = (600.0, 1800.0, 7200.0)
_MTBFS_S: Final = (3600.0, 11_124.0, 43_200.0)  # 50,000, 16,384 (Llama 3: 3.09 h) and 4,167 accelerators
_RECOVERIES_S: Final = ((0.0, 60.0), (300.0, 600.0))


def run_cases() -> Iterator[tuple[str, RunInput, bool]]:
    """Yield every case of a run with its group, and whether its failures are drawn independently."""
    for asynchronous, save, interval, mtbf, (restart, restore) in product(
        (False, True), _SAVES_S, _INTERVALS_S, _MTBFS_S, _RECOVERIES_S
    ):
        given = RunInput(
            run_s=1.0,
            mtbf_s=mtbf,
            interval_s=interval,
            save_s=save,
            restart_s=restart,
            restore_s=restore,
            asynchronous=asynchronous,
            wait_fraction=0.0 if restart else 0.2,
        )
        yield f"{_mode(given)} saves", given, False
    for asynchronous, save, interval, mtbf in product(
        (False, True), (60.0, 300.0), (1800.0, 3600.0), (7200.0, 14_400.0)
    ):
        given = RunInput(
            run_s=1.0,
            mtbf_s=mtbf,
            interval_s=interval,
            save_s=save,
            restart_s=300.0,
            restore_s=300.0,
            asynchronous=asynchronous,
        )
        yield f"{_mode(given)} saves, failures drawn one by one", given, True
    for share, save, mtbf in product((0.3, 1.0), (60.0, 300.0), (11_124.0, 43_200.0)):
        given = RunInput(
            run_s=1.0,
            mtbf_s=mtbf,
            interval_s=1800.0,
            save_s=save,
            restart_s=300.0,
            restore_s=300.0,
            asynchronous=True,
            saving_wait_fraction=share,
        )
        yield "asynchronous saves that share the throughput with reads", given, False
    for save, mtbf in product((600.0, 1200.0), (11_124.0, 43_200.0)):
        given = RunInput(
            run_s=1.0,
            mtbf_s=mtbf,
            interval_s=300.0,
            save_s=save,
            restart_s=300.0,
            restore_s=300.0,
            asynchronous=True,
        )
        yield "asynchronous saves that take longer than the interval", given, False


def _check_run(group: str, given: RunInput, *, independent: bool) -> Iterator[Check]:
    gaps = _gaps(given, independent=independent)
    moments = list(accumulate(gaps))
    # The run ends with its last failure, so that each gap counts once and whole.
    length = math.nextafter(moments[-1], math.inf)
    measured = simulate_run(replace(given, run_s=length), failures=moments, most_steps=_STEPS)
    inputs = (
        f"{_mode(given)} saves of {seconds(given.save_s)} each {seconds(given.interval_s)}, a failure each "
        f"{seconds(given.mtbf_s)}, {seconds(given.restart_s)} to restart and {seconds(given.restore_s)} to restore"
        f"{f', {percent(given.wait_fraction)} data wait' if given.wait_fraction else ''}"
        f"{'' if given.saving_wait_fraction is None else f', {percent(given.saving_wait_fraction)} during a save'}"
    )
    ratio, claim = closed_forms.effective_training_time_ratio(given), closed_forms.effective_claim(given)
    found = measured.effective_training_time_ratio
    yield Check(group=group, inputs=inputs, figure="effective time", closed_form=ratio, simulated=found, claim=claim)
    if 1 - ratio >= SMALLEST_SHARE:
        yield Check(
            group=group, inputs=inputs, figure="lost time", closed_form=1 - ratio, simulated=1 - found, claim=claim
        )
    yield Check(
        group=group,
        inputs=inputs,
        figure="lost to a failure, s",
        closed_form=closed_forms.lost_s_per_failure(given),
        simulated=measured.lost_s_per_failure or 0.0,
        claim=closed_forms.lost_claim(given),
    )
    if given.saving_wait_fraction is not None:
        yield Check(
            group=group,
            inputs=inputs,
            figure="data wait with saves",
            closed_form=closed_forms.wait_with_saves_fraction(given),
            simulated=measured.wait_fraction,
            claim=closed_forms.cycle_claim(given),
        )
    if not given.asynchronous:
        yield Check(
            group=group,
            inputs=inputs,
            figure="stall",
            closed_form=closed_forms.stall_fraction(given),
            simulated=measured.stall_fraction,
            claim=closed_forms.cycle_claim(given),
        )


def _gaps(given: RunInput, *, independent: bool) -> list[float]:
    """Return times between failures.

    Spread evenly over their distribution unless ``independent``. What a gap brings depends on that gap alone (a failure
    leaves nothing behind but its restore), so that even spread takes the chance out of the comparison and nothing else.
    Only gaps that reach the end of a first save count as progress: the more of them miss it, the more gaps. And the
    more cycles lie between two failures, the more gaps it takes until they end everywhere in a cycle alike.
    """
    if independent:
        draws = exponential(_SEED, "failures", given.mtbf_s)
        return [next(draws) for _ in range(_INDEPENDENT_FAILURES)]
    reach_s = given.restart_s + given.restore_s + given.interval_s + given.save_s
    reaching, cycles = _FEWEST_FAILURES * math.exp(reach_s / given.mtbf_s), given.mtbf_s / given.cycle_s
    count = math.ceil(max(reaching, _FAILURES_A_CYCLE * cycles))
    return even_exponential(_SEED, "failures", given.mtbf_s, count)


def _mode(given: RunInput) -> str:
    return "asynchronous" if given.asynchronous else "synchronous"
