"""Tables about other answers: one step up and down, break-even, and where a sweep changes its answer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from training_storage.planner.words import listed, mb_per_s, number
from training_storage.report.chart_sweep import ANSWERS, span_text
from training_storage.report.summary import UNKNOWN
from training_storage.report.tables import Column, Row, Table, table
from training_storage.report.words import is_wait, money, monthly, nearly, sentence, signed_monthly, signed_share

if TYPE_CHECKING:
    from training_storage.whatif.model import BreakEven, Figures, Step, Sweep

_ARROWS = {"up": "up", "down": "down", "sideways": "aside"}
_NAMED_MOST = 4
"""Items that a sentence names; more are counted."""
_ROWS_MOST = 60
"""Rows of a table behind a chart: a bend and a border have one each, an even grid is thinned out."""


def step_table(steps: Sequence[Step]) -> Table | None:
    """Return every step with what it costs and what wait it removes or adds."""
    columns = (
        Column("Step"),
        Column("Configuration"),
        Column("USD a month", "number"),
        Column("GPU wait", "number"),
        Column("Verdict"),
    )
    rows = [
        Row(
            (
                step_name(step),
                "" if step.figures is None else step.option,
                *_difference(step),
                _verdict(step),
            )
        )
        for step in steps
    ]
    return table("One step up and one step down, as a difference from this plan", columns, rows, hide_caption=True)


def step_name(step: Step) -> str:
    """Return a step as a person calls it: ``Throughput up``."""
    return f"{step.kind.capitalize()} {_ARROWS[step.direction]}"


def _difference(step: Step) -> tuple[str, str]:
    if step.difference is None:
        return "", ""
    storage, wait = step.difference.storage_monthly, step.difference.gpu_wait_fraction
    return (
        UNKNOWN if storage is None else signed_monthly(storage),
        UNKNOWN if wait is None else signed_share(wait),
    )


def _verdict(step: Step) -> str:
    missed = f". It misses what is asked for: {'; '.join(step.misses)}" if step.misses else ""
    new = list(step.new_warnings)
    brings = f". New warning{'' if len(new) == 1 else 's'}: {listed(new)}" if new else ""
    return f"{sentence(step.verdict)}: {step.because}{missed}{brings}"


def key_table(steps: Sequence[Step]) -> Table | None:
    """Return what to write in the workload file for each step that is possible."""
    rows = [Row((step_name(step), step.option, _keys(step))) for step in steps if step.figures is not None]
    columns = (Column("Step"), Column("Configuration"), Column("Keys", "code"))
    return table("What to write in the workload file", columns, rows)


def _keys(step: Step) -> str:
    return ", ".join(
        f"{key}: {str(value).lower() if isinstance(value, bool) else value}" for key, value in step.changes.items()
    )


def point_table(found: BreakEven) -> Table | None:
    """Return the numbers behind a break-even chart, thinned out."""
    columns = (
        Column("Reads", "number"),
        Column("This plan, USD an hour", "number"),
        Column("Step, USD an hour", "number"),
    )
    every = -(-len(found.points) // _ROWS_MOST)
    marks = set(found.crossings_mb_per_s or ())
    rows = [
        Row((mb_per_s(point.read_mb_per_s), money(point.plan_usd_per_hour), money(point.step_usd_per_hour)))
        for index, point in enumerate(found.points)
        if index % every == 0 or index == len(found.points) - 1 or point.read_mb_per_s in marks
    ]
    return table(f"Storage and lost accelerator time: this plan beside {found.step}", columns, rows)


def undrawn_words(found: Sequence[tuple[Step, BreakEven]]) -> str:
    """Return in a sentence which steps have no chart, and what is not known; empty where all have one."""
    undrawn = [(step, each) for step, each in found if not each.points]
    if not undrawn:
        return ""
    names = listed([f"{step_name(step).lower()} ({each.step})" for step, each in undrawn])
    missing = dict.fromkeys(what for _, each in undrawn for what in each.missing)
    return f"Not drawn: {names}; what is missing: {listed(list(missing))}."


def break_even_words(found: BreakEven) -> str:
    """Return in a sentence who is cheaper where; the prices of both are known."""
    names = {"plan": "this plan", "step": "the step", "same": "neither"}
    parts = [
        f"from {number(each.from_mb_per_s)} to {mb_per_s(each.to_mb_per_s)} {names[each.cheaper]} is cheaper"
        for each in found.segments
    ]
    return f"{listed(parts)[:1].upper()}{listed(parts)[1:]}."


def span_table(sweep: Sweep) -> Table | None:
    """Return where the hot tier changes."""
    columns: tuple[Column, ...] = (Column("Values"), Column("Hot tier"), Column("Why not"))
    rows = []
    for span in sweep.tiers:
        problems = sweep.points[span.first_index].problems
        why = listed([f"{problem.path}: {problem.what}" for problem in problems[:3]])
        rows.append(Row((span_text(span), ANSWERS.get(span.answer, span.answer), why)))
    if not any(row.cells[2] for row in rows):
        columns, rows = columns[:2], [Row(row.cells[:2]) for row in rows]
    return table(f"Where the hot tier changes over {sweep.field}", columns, rows)


def sweep_table(sweep: Sweep) -> Table | None:
    """Return the numbers behind the chart: by configuration, or by tier where configurations are many."""
    spans = sweep.configurations if len(sweep.configurations) <= _ROWS_MOST else sweep.tiers
    columns = (
        Column("Values"),
        Column("Configuration"),
        Column("Storage at the first, USD a month", "number"),
        Column("At the last", "number"),
        Column("GPU wait at the last", "number"),
    )
    rows = []
    for span in spans:
        first, last = sweep.points[span.first_index].figures, sweep.points[span.last_index].figures
        wait = None if last is None else last.gpu_wait_fraction
        rows.append(
            Row(
                (
                    span_text(span),
                    ANSWERS.get(span.answer, span.answer),
                    _monthly(first),
                    _monthly(last),
                    UNKNOWN if wait is None else nearly(wait),
                )
            )
        )
    return table(f"Configurations over {sweep.field}", columns, rows)


def _monthly(figures: Figures | None) -> str:
    if figures is None:
        return ""
    return UNKNOWN if figures.storage_monthly is None else monthly(figures.storage_monthly)


def sweep_scope(sweep: Sweep) -> str:
    """Return what was looked at."""
    asked = sum(point.asked for point in sweep.points)
    more = len(sweep.points) - asked
    values = f"{number(asked)} value{'' if asked == 1 else 's'} of {sweep.field}, each planned by itself"
    borders = f", and {number(more)} more to find where the answer changes" if more else ""
    rest = "" if _every_count(sweep) else "; what lies between two of them was not looked at"
    return f"The same workload with {values}{borders}{rest}."


def _every_count(sweep: Sweep) -> bool:
    """Whether nothing lies between two values: counts one after the other."""
    values = [point.value for point in sweep.points]
    return (
        not sweep.unit
        and all(float(value).is_integer() for value in values)
        and all(after - before <= 1 for before, after in pairwise(values))
    )


def sweep_words(sweep: Sweep) -> str:
    """Return what the chart leaves out: prices that are not known, and waiting where there is none."""
    known = [point.figures for point in sweep.points if point.figures is not None]
    unpriced = sorted({item for figures in known for item in figures.unpriced_storage})
    names = listed(unpriced) if len(unpriced) <= _NAMED_MOST else f"{len(unpriced)} items of the bill"
    parts = [f"Without what has no known price: {names}."] if unpriced else []
    waits = [figures.gpu_wait_fraction for figures in known]
    if not known:
        return "There is a plan for none of these values."
    if all(wait is None for wait in waits):
        parts.append("Whether accelerators wait is not known.")
    elif not any(is_wait(wait) for wait in waits):
        parts.append("Accelerators wait at none of these values.")
    return " ".join(parts)
