"""A plan, simulated: its data path, then runs of its length, and what the closed forms said of the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final

from training_storage.planner.words import number, percent, seconds
from training_storage.simulation import closed_forms
from training_storage.simulation.inputs import Notes, describe_sharing, pipeline_of, reads_first, run_of
from training_storage.simulation.model import PipelineInput, PipelineResult, Progress, RunInput, RunResult
from training_storage.simulation.pipeline import simulate_pipeline
from training_storage.simulation.result import Figure, Simulation, Unit
from training_storage.simulation.run import simulate_run

if TYPE_CHECKING:
    from training_storage.planner.model import Plan
    from training_storage.units import Duration

DEFAULT_RUN_DAYS: Final = 30
"""Length of a run where neither the caller nor the plan says one."""

_ENOUGH_FAILURES: Final = 1000  # over all runs: a mean over them is within some percent
_MOST_RUNS: Final = 100
_MOST_STEPS: Final = 400_000  # over all runs: half a second or so
_FEWEST_RESTORES: Final = 20  # of all runs, where there are more failures than that
_WORTH_SAYING: Final = 0.01  # of the time
_FEWEST_CYCLES: Final = 20  # of a run, for its begin and end not to count


def simulate(
    plan: Plan, *, seed: int = 0, run_length: Duration | None = None, progress: Progress | None = None
) -> Simulation:
    """Simulate a plan event by event and put what is measured beside what the plan predicts.

    Same plan, seed and length: same figures. The data path is simulated first; what accelerators waited there slows the
    run. Of a run whose few failures would tell nothing, more are simulated with seeds that follow from this one, and
    the figures are means over them. The number of events is bounded whatever the plan.

    Args:
        plan: The plan.
        seed: Of everything that is drawn.
        run_length: How long one run trains. Left out: that of the plan's cost, else 30 days.
        progress: Called now and then with the share that is done.
    """
    notes = Notes([])
    run_s = _run_s(plan, run_length, notes)
    figures: list[Figure] = []
    pipeline, measured = pipeline_of(plan, notes), None
    if pipeline is not None:
        measured = simulate_pipeline(pipeline, seed=seed, progress=_part(progress, 0.0, 0.2))
        figures += _pipeline_figures(plan, pipeline, measured)
        _explain_order(pipeline, measured, seed, notes)
        if measured.bundle > 1:
            notes.say(f"{number(pipeline.slots)} reads in flight are simulated in bundles of {number(measured.bundle)}")
    given = run_of(plan, run_s, 0.0 if measured is None else measured.wait_fraction, notes)
    results: list[RunResult] = []
    if given is not None:
        results = _runs(given, seed, _part(progress, 0.2, 1.0))
        figures += _run_figures(
            plan, given, results, "" if pipeline is None else closed_forms.delivered_claim(pipeline)
        )
        _explain(plan, given, results, seed, notes)
    ratios = sorted(each.effective_training_time_ratio for each in results)
    return Simulation(
        workload=plan.name,
        seed=seed,
        run_s=run_s,
        runs=len(results),
        pipeline=measured,
        pipeline_input=pipeline,
        run=results[0] if results else None,
        run_input=given,
        ratio_low=_quantile(ratios, 0.05),
        ratio_high=_quantile(ratios, 0.95),
        figures=tuple(figures),
        notes=tuple(notes.texts),
    )


def _run_s(plan: Plan, run_length: Duration | None, notes: Notes) -> float:
    if run_length is not None:
        return float(run_length.seconds)
    if plan.cost.run_h is not None:
        return plan.cost.run_h * 3600
    notes.say(f"the length of a run is not given: {DEFAULT_RUN_DAYS} days are simulated")
    return DEFAULT_RUN_DAYS * 86_400.0


def _runs(given: RunInput, seed: int, progress: Progress | None) -> list[RunResult]:
    """Return as many runs as it takes for enough failures, the first with the seed itself."""
    count = math.ceil(min(_MOST_RUNS, max(1.0, _ENOUGH_FAILURES * given.mtbf_s / given.run_s)))
    found = []
    for place in range(count):
        found.append(simulate_run(given, seed=f"{seed}.{place}" if place else seed, most_steps=_MOST_STEPS // count))
        if progress is not None:
            progress((place + 1) / count)
    return found


def _explain_order(given: PipelineInput, measured: PipelineResult, seed: int, notes: Notes) -> None:
    """Say what a loader that keeps the order would wait, where that matters.

    Nothing is published on how latencies spread about what is: exponential is an assumption, on the wide side.
    """
    if not given.latency_s:
        return
    varied = replace(given, varying_latency=True, in_order=True, accelerators=min(2, given.accelerators))
    wait = simulate_pipeline(varied, seed=seed).wait_fraction
    if wait > measured.wait_fraction + _WORTH_SAYING:
        notes.say(
            f"if latencies spread widely (exponential about the same mean, an assumption) and the loader handed over "
            f"reads in their order, accelerators would wait {percent(wait)} of the time for data, in place of "
            f"{percent(measured.wait_fraction)}: more workers or prefetch help"
        )


def _explain(plan: Plan, given: RunInput, results: Sequence[RunResult], seed: int, notes: Notes) -> None:
    first = results[0]
    if first.cut_short:
        notes.say(
            f"a failure each {seconds(given.mtbf_s)}: the simulation ends after {first.failures:,} of them, "
            f"{seconds(first.wall_s)} into a run of {seconds(given.run_s)}"
        )
    if len(results) > 1:
        notes.say(
            f"{len(results)} runs with seeds that follow from {seed}, since one has about "
            f"{number(given.run_s / given.mtbf_s)} failures"
        )
    if given.saving_wait_fraction is not None:
        gentle = reads_first(plan, given)
        ratio = None
        if gentle is not None:
            ratio = fmean(each.effective_training_time_ratio for each in _runs(gentle, seed, None))
        notes.say(describe_sharing(given, gentle, ratio))


# Figures


def _pipeline_figures(plan: Plan, given: PipelineInput, measured: PipelineResult) -> Iterable[Figure]:
    wait = plan.prediction.data_wait_fraction or 0.0
    needed = plan.demand.read_mb_per_s or 0.0
    yield _figure(
        "delivered_mb_per_s",
        "data delivered",
        "MB/s",
        needed * (1 - wait),
        [measured.delivered_mb_per_s * plan.accelerators],
        closed_forms.delivered_claim(given),
    )
    yield _figure(
        "data_wait_fraction", "data wait", "share", wait, [measured.wait_fraction], closed_forms.wait_claim(given)
    )


def _run_figures(
    plan: Plan, given: RunInput, results: Sequence[RunResult], reads_claim: str
) -> Iterable[Figure]:  # fmt: skip
    """Yield the figures of a run; ``reads_claim`` says why the reads are not exact that let it train so fast."""
    predicted = plan.prediction
    short = ""
    if given.run_s < _FEWEST_CYCLES * given.cycle_s:
        short = f"a run of {seconds(given.run_s)} has less than {_FEWEST_CYCLES} saves: its begin and end count"
    elif sum(each.failures for each in results) > _FEWEST_RESTORES > sum(each.restores for each in results):
        short = f"fewer than {_FEWEST_RESTORES} restores end before the next failure: what came before them counts"
    elif math.isfinite(given.mtbf_s) and not any(each.failures for each in results):
        many = f"{len(results)} runs" if len(results) > 1 else "the run"
        short = (
            f"no failure falls into {many} of {seconds(given.run_s)}: what failures take is not in what is simulated"
        )
    cycle_claim = short or closed_forms.cycle_claim(given)
    claim = short or closed_forms.effective_claim(given)
    if not claim and reads_claim and (predicted.data_wait_fraction or given.wait_fraction):
        claim = f"the data delivered is not: {reads_claim}"
    if predicted.checkpoint_stall_fraction is not None and not given.asynchronous:
        yield _figure(
            "checkpoint_stall_fraction",
            "stall of saves",
            "share",
            predicted.checkpoint_stall_fraction,
            [each.stall_fraction for each in results],
            cycle_claim,
        )
    if predicted.data_wait_with_saves_fraction is not None and given.saving_wait_fraction is not None:
        yield _figure(
            "data_wait_with_saves_fraction",
            "data wait, saves beside",
            "share",
            predicted.data_wait_with_saves_fraction,
            [each.wait_fraction for each in results],
            f"a save takes all it can get here and is written in {seconds(given.save_s)}; the formula has it written "
            "at the rate that is planned for it",
        )
    if predicted.effective_training_time_ratio is not None:
        yield _figure(
            "effective_training_time_ratio",
            "effective time",
            "share",
            predicted.effective_training_time_ratio,
            [each.effective_training_time_ratio for each in results],
            claim,
        )
    lost = [each.lost_s_per_failure for each in results]
    known = [each for each in lost if each is not None]
    if predicted.lost_work_s_per_failure is not None and known:
        yield _figure(
            "lost_work_s_per_failure",
            "lost to a failure",
            "s",
            predicted.lost_work_s_per_failure,
            known,
            short or closed_forms.lost_claim(given),
            # Over all failures: a run with many counts as much more.
            mean=sum(each.lost_training_s for each in results) / sum(each.failures for each in results),
        )
    expected = results[0].wall_s / given.mtbf_s
    yield _figure(
        "failures",
        "failures of a run",
        "count",
        expected,
        [float(each.failures) for each in results],
        "",
        # Known without measuring (Poisson), and not 0 where none fell into the runs.
        standard_error=math.sqrt(expected / len(results)),
    )


def _figure(
    name: str,
    label: str,
    unit: Unit,
    closed_form: float,
    values: Sequence[float],
    claim: str,
    mean: float | None = None,
    standard_error: float | None = None,
) -> Figure:
    simulated = fmean(values) if mean is None else mean
    if standard_error is None and len(values) > 1:
        standard_error = stdev(values) / math.sqrt(len(values))
    if abs(simulated - closed_form) < 1e-12:
        difference: float | None = 0.0
    else:
        difference = simulated / closed_form - 1 if closed_form else None
    return Figure(
        name=name,
        label=label,
        unit=unit,
        closed_form=closed_form,
        simulated=simulated,
        standard_error=standard_error,
        difference=difference,
        exact=not claim,
        because=claim,
    )


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    if len(ordered) < 2:
        return None
    return ordered[round(share * (len(ordered) - 1))]


def _part(progress: Progress | None, begin: float, end: float) -> Progress | None:
    """Return a callback for a part of the whole."""
    if progress is None:
        return None
    return lambda done: progress(begin + done * (end - begin))
