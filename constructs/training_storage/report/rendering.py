"""From a plan to the page: every part of it is made here, the template only puts them in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from training_storage.errors import MissingExtraError
from training_storage.planner.model import Plan
from training_storage.report.tables import Table
from training_storage.report.words import sentence, visible

if TYPE_CHECKING:
    import jinja2

    from training_storage.report.chart import Chart
    from training_storage.simulation.result import Simulation
    from training_storage.whatif.model import BreakEven, Step, Sweep

_CHARTS_MOST = 3
"""Break-even charts of a page: those of steps where the lines cross come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEvenPart:
    """One step beside the plan.

    Attributes:
        title: The step.
        words: Who is cheaper where.
        chart: Both curves.
        numbers: The numbers behind it.
    """

    title: str
    words: str
    chart: Chart
    numbers: Table | None


def render_report(
    plan: Plan, *, steps: Sequence[Step] = (), sweep: Sweep | None = None, simulation: Simulation | None = None
) -> str:
    """Return a plan as one self-contained HTML page: no network, no script, the same bytes for the same input.

    Args:
        plan: The plan.
        steps: Other configurations of the same workload (``whatif.steps``). Left out: the page has no such part.
        sweep: One field over many values (``whatif.sweep``). Left out: the page has no such part.
        simulation: A simulated run (``simulation.simulate``), beside the formulas. Left out: no such part.

    Raises:
        MissingExtraError: matplotlib or jinja2 is not installed.
        TrainingStorageError: Settings for matplotlib keep it from loading.
    """
    from training_storage.report.quiet import quiet_matplotlib

    with quiet_matplotlib():
        try:
            import jinja2  # noqa: F401 - both are asked for here, so that their lack is said before any work
            import matplotlib  # noqa: F401 - as above
        except ImportError as error:
            raise MissingExtraError("an HTML report", "report", str(error.name)) from error
        page = _template().render(_context(plan, steps, sweep, simulation))
    return visible(page)


@lru_cache(maxsize=1)
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["sentence"] = sentence
    return environment.from_string(_packaged("page.html.j2"))


def _packaged(name: str) -> str:
    from importlib.resources import files

    return files("training_storage.report").joinpath(name).read_text(encoding="utf-8")


def _context(plan: Plan, steps: Sequence[Step], sweep: Sweep | None, simulation: Simulation | None) -> dict[str, Any]:
    from markupsafe import Markup

    from training_storage.report import figures, money, outlook, places, simulated
    from training_storage.report.architecture import architecture
    from training_storage.report.chart_limits import limits_chart
    from training_storage.report.chart_sweep import sweep_chart
    from training_storage.report.summary import change, decision, key_figures
    from training_storage.whatif import break_even

    seen, cost = plan.prediction, plan.cost
    found = [(step, break_even(plan, step)) for step in steps if step.plan is not None]
    drawn = sweep is not None and len({point.value for point in sweep.points}) > 1
    return {
        "css": Markup(_packaged("page.css")),  # noqa: S704 - a file of this package
        "svg": Markup,
        "plan": plan,
        "decision": decision(plan),
        "change": change(plan, steps),
        "key_figures": key_figures(plan),
        "limits_chart": limits_chart(seen.limits, plan.demand.read_mb_per_s),
        "limit_table": figures.limit_table(plan),
        "demand_table": figures.demand_table(plan),
        "prediction_table": figures.prediction_table(plan),
        "checkpoint_table": figures.checkpoint_table(seen),
        "first_epoch": seen.first_epoch,
        "first_epoch_table": None if seen.first_epoch is None else figures.first_epoch_table(seen.first_epoch),
        "simulation": simulation,
        "simulation_words": "" if simulation is None else simulated.simulation_words(simulation),
        "simulation_table": None if simulation is None else simulated.simulation_table(simulation),
        "time_table": None if simulation is None else simulated.time_table(simulation),
        "cost_table": money.cost_table(cost),
        "after_run_table": money.after_run_table(cost),
        "source_table": money.source_table(plan),
        "step_table": outlook.step_table(steps),
        "key_table": outlook.key_table(steps),
        "break_evens": _break_evens(found),
        "undrawn_words": outlook.undrawn_words(found),
        "sweep": sweep,
        "sweep_scope": "" if sweep is None else outlook.sweep_scope(sweep),
        "sweep_words": "" if sweep is None else outlook.sweep_words(sweep),
        "sweep_chart": sweep_chart(sweep) if sweep is not None and drawn else None,
        "span_table": None if sweep is None else outlook.span_table(sweep),
        "sweep_table": None if sweep is None else outlook.sweep_table(sweep),
        "architecture": architecture(plan),
        "mount_table": places.mount_table(plan),
        "link_table": places.link_table(plan),
        "path_table": places.path_table(plan),
        "chosen_table": places.decision_table(plan, "chosen"),
        "rejected_table": places.decision_table(plan, "rejected"),
    }


def _break_evens(found: Sequence[tuple[Step, BreakEven]]) -> list[BreakEvenPart]:
    """Return a chart of each step whose prices are known; where there are many, those whose lines cross come first."""
    from training_storage.report.chart_break_even import break_even_chart
    from training_storage.report.outlook import break_even_words, point_table, step_name

    drawn = [pair for pair in found if pair[1].points]
    chosen = sorted(drawn, key=lambda pair: not pair[1].crossings_mb_per_s)[:_CHARTS_MOST]
    return [
        BreakEvenPart(
            title=f"{step_name(step)}: {each.step}",
            words=break_even_words(each),
            chart=break_even_chart(each, number),
            numbers=point_table(each),
        )
        for number, (step, each) in enumerate(sorted(chosen, key=found.index), 1)
    ]
