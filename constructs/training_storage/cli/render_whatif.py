"""Steps and sweeps as a person reads them in a terminal; nothing runs over the edge from 60 columns up."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

from training_storage.planner.words import gib, mb_per_s, percent
from training_storage.units import format_seconds

if TYPE_CHECKING:
    from training_storage.planner.model import Plan
    from training_storage.whatif.model import BreakEven, Span, Step, Sweep, SweepPoint

STEPS_HEADING: Final = "What one step changes, USD an hour of training"

_TIERS: Final = {"none": "S3 alone", "lustre": "Lustre", "express": "S3 Express", "refused": "no plan"}
_NO: Final = ("does not pay", "dearer and slower", "dearer and no faster", "slower at the same price")
_GAP: Final = 2
_SAME: Final = 1e-9
_ALL_POINTS: Final = 40
"""Sweeps up to so many points are printed whole; longer ones are thinned to about as many lines."""


def steps_lines(plan: Plan, steps: Sequence[Step], *, width: int) -> list[str]:
    """Return the table of steps as lines of text, its heading left out.

    Args:
        plan: The plan.
        steps: Its steps.
        width: Columns to write for.
    """
    rows = [("", ("storage", "GPU wait", "save", "restore", "net")), ("as planned", _planned(plan))]
    rows += [(_name(step), _changes(step)) for step in steps if step.difference is not None]
    table = iter(_aligned(rows, width, drop=(3, 2, 4)))
    lines = [next(table), next(table)]
    for _, found in groupby(steps, key=lambda step: (step.plan is not None, step.kind, step.because)):
        same = list(found)
        if same[0].difference is None:
            names = f"{_name(same[0])}{' and down' if len(same) > 1 else ''}"
            lines.extend(_wrapped(f"{names}: not possible: {same[0].because}", width, "  "))
            continue
        for step in same:
            lines.append(next(table))
            lines.extend(_wrapped(f"{step.option}: {_verdict(step)}", width, "    "))
    return lines


def what_if_lines(plan: Plan, steps: Sequence[Step], *, width: int) -> list[str]:
    """Return each step with the keys to write, its reasons and where it pays, as lines of text.

    Args:
        plan: The plan.
        steps: Its steps.
        width: Columns to write for.
    """
    from training_storage.whatif import break_even

    lines: list[str] = []
    for step in steps:
        if step.difference is None:
            continue
        lines.extend(_wrapped(f"{_name(step)}: {step.option}", width, "  "))
        written = ", ".join(f"{key}: {_yaml(value)}" for key, value in step.changes.items())
        lines.extend(_item("write", written, width))
        lines.extend(_item("verdict", f"{step.verdict}: {step.because}", width))
        for missed in step.misses:
            lines.extend(_item("misses", missed, width))
        if step.new_warnings:
            lines.extend(_item("new warnings", ", ".join(step.new_warnings), width))
        lines.extend(_item("break-even", break_even_words(break_even(plan, step)), width))
    return lines or ["  no step is possible"]


def render_what_if(plan: Plan, steps: Sequence[Step], *, width: int = 100, color: bool = False) -> str:
    """Return table and details of the steps as text, with headings.

    Args:
        plan: The plan.
        steps: Its steps.
        width: Columns to write for.
        color: Whether to mark headings with terminal colours.
    """
    lines: list[str] = []
    for heading, part in (
        (STEPS_HEADING, steps_lines(plan, steps, width=width)),
        ("Each step: what to write, and where it pays", what_if_lines(plan, steps, width=width)),
    ):
        lines.extend((f"\x1b[1m{heading}\x1b[0m" if color else heading, *part, ""))
    return "\n".join(lines[:-1]) + "\n"


def break_even_words(found: BreakEven) -> str:
    """Return who is cheaper over which reads, in words."""
    if found.crossings_mb_per_s is None:
        more = f" and {len(found.missing) - 2} more" if len(found.missing) > 3 else ""
        return "; ".join(found.missing[:2] if more else found.missing) + more
    said = {"plan": "the plan costs less", "step": "the step costs less", "same": "both cost the same"}
    now = "" if found.read_mb_per_s is None else f"; it reads {mb_per_s(found.read_mb_per_s)}"
    first, *rest = found.segments
    if not rest:
        text = f"{said[first.cheaper]} whatever the fleet reads, up to {mb_per_s(found.up_to_mb_per_s)}"
    else:
        parts = [f"{said[first.cheaper]} while the fleet reads less than {mb_per_s(first.to_mb_per_s)}"]
        parts += [f"{said[each.cheaper]} from {mb_per_s(each.from_mb_per_s)} on" for each in rest]
        text = ", ".join(parts)
    share = found.break_even_wait_fraction
    waits = ""
    if share:
        verb = "saves more" if share > 0 else "takes less"
        waits = f"; it pays where it {verb} than {percent(abs(share))} of the GPU time"
    return f"{text}{now}{waits}"


def render_sweep(sweep: Sweep, *, width: int = 100) -> str:
    """Return a sweep as text: where the answer changes, and its values, those of long ranges thinned out.

    Args:
        sweep: The sweep.
        width: Columns to write for.
    """
    points = sweep.points
    span = f"at {_value(points[0].text)}"
    if len(points) > 1:
        asked = sum(point.asked for point in points)
        span = f"from {_value(points[0].text)} to {_value(points[-1].text)}, {asked:,} values"
    head = f"{sweep.workload}: {sweep.field} {span}; storage and GPUs in USD a month of training"
    given = next((point.text for point in points if point.value == sweep.given), None)
    lines = list(_wrapped(head, width, ""))
    lines.extend(_wrapped(f"hot tier: {', '.join(map(_range, sweep.tiers))}", width, ""))
    if sum(point.figures is None for point in points) < len(points):
        lines.append("")
    shown = _shown(sweep)
    rows = [("", _heads())] + [(_mark(points[index], given), _cells(points[index])) for index in shown]
    table = iter(_aligned(rows, width, drop=(2, 4, 3, 0)))
    lines.append(next(table))
    for part in sweep.configurations:
        inside = [index for index in shown if part.first_index <= index <= part.last_index]
        first = points[part.first_index]
        if first.figures is None:
            from training_storage.whatif.figures import refusal

            lines.extend(_wrapped(f"no plan: {refusal(first.problems)}", width, "  "))
        else:
            lines.extend(_wrapped(part.answer, width, "  "))
        lines.extend(next(table) for _ in inside)
    notes = []
    if given is not None and any(points[index].text == given for index in shown):
        notes.append("* as the workload file says")
    if any(not points[index].asked for index in shown):
        notes.append("+ between two of the values: where the hot tier changes")
    if any(point.figures is not None and point.figures.unpriced_storage for point in points):
        items = dict.fromkeys(
            item for point in points if point.figures is not None for item in point.figures.unpriced_storage
        )
        notes.append(f"in no sum, for its price is not known: {', '.join(items)}")
    for note in notes:
        lines.extend(_wrapped(note, width, "  "))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _heads() -> tuple[str, ...]:
    return ("capacity", "storage", "GPUs", "data wait", "stall", "progress")


def _cells(point: SweepPoint) -> tuple[str, ...]:
    found = point.figures
    if found is None:
        return ("", "", "", "", "", "")
    wait = found.data_wait_with_saves_fraction
    capacity = "" if found.storage_capacity_gib is None else gib(found.storage_capacity_gib)
    return (
        capacity,
        _usd(found.storage_monthly),
        _usd(found.compute_monthly),
        _share(found.data_wait_fraction if wait is None else wait),
        _share(found.checkpoint_stall_fraction),
        _share(found.effective_training_time_ratio),
    )


def _usd(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}"


def _value(text: str) -> str:
    """Return a value as people read it: counts with thousands separators."""
    return f"{int(text):,}" if text.isdecimal() else text


def _mark(point: SweepPoint, given: str | None) -> str:
    return f"  {_value(point.text)}{'' if point.asked else ' +'}{' *' if point.text == given else ''}"


def _shown(sweep: Sweep) -> list[int]:
    """Return the points to print: all of a short sweep; of a longer one both ends of each range and some between."""
    if len(sweep.points) <= _ALL_POINTS:
        return list(range(len(sweep.points)))
    each = max(2, _ALL_POINTS // len(sweep.configurations))
    shown: set[int] = set()
    for part in sweep.configurations:
        length = part.last_index - part.first_index
        parts = min(each - 1, length)
        if sweep.points[part.first_index].figures is None:
            parts = min(1, length)
        shown.update(part.first_index + round(length * step / max(1, parts)) for step in range(parts + 1))
    shown.update(index for index, point in enumerate(sweep.points) if point.value == sweep.given)
    return sorted(shown)


def _range(span: Span) -> str:
    name = _TIERS[span.answer]
    first, last = _value(span.first), _value(span.last)
    return f"{name} at {first}" if first == last else f"{name} from {first} to {last}"


def _name(step: Step) -> str:
    if step.kind != "tier":
        return f"{step.kind} {step.direction}"
    tier = None if step.figures is None else step.figures.hot
    return "another tier" if tier is None else {"none": "no hot tier"}.get(tier, _TIERS[tier])


def _verdict(step: Step) -> str:
    against = [*step.misses, *([step.over_a_run] if step.over_a_run else [])]
    joint = "," if step.verdict in _NO else ", but"
    return f"{step.verdict}{joint} {'; '.join(against)}" if against else step.verdict


def _planned(plan: Plan) -> tuple[str, ...]:
    from training_storage.whatif.figures import figures_of

    found = figures_of(plan)
    return (
        "?" if found.storage_hourly is None else f"{found.storage_hourly:,.2f}",
        _share(found.gpu_wait_fraction),
        _time(found.checkpoint_write_s),
        _time(found.restore_s),
        "",
    )


def _changes(step: Step) -> tuple[str, ...]:
    found = step.difference
    if found is None:
        return ("", "", "", "", "")
    return (
        _signed(found.storage_hourly, lambda value: f"{value:,.2f}"),
        _signed(found.gpu_wait_fraction, percent),
        _signed(found.checkpoint_write_s, format_seconds),
        _signed(found.restore_s, format_seconds),
        _signed(found.net_usd_per_hour, lambda value: f"{value:,.2f}"),
    )


def _signed(value: float | None, text: Callable[[float], str]) -> str:
    """Return a difference with its sign, ``=`` for none."""
    if value is None:
        return "?"
    if abs(value) < _SAME:
        return "="
    return f"{'+' if value > 0 else '-'}{text(abs(value))}"


def _share(value: float | None) -> str:
    return "?" if value is None else percent(value)


def _time(value: float | None) -> str:
    return "" if value is None else format_seconds(value)


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _aligned(rows: Sequence[tuple[str, tuple[str, ...]]], width: int, *, drop: Sequence[int]) -> Iterator[str]:
    """Yield a table with its figures at the right of their column; a column that nobody fills is left out.

    Args:
        rows: The heads, then name and figures of each row.
        width: Columns to write for.
        drop: Columns to leave out where all are too wide, the first one first.
    """
    columns = [index for index in range(len(rows[0][1])) if any(cells[index] for _, cells in rows[1:])]
    widths = {index: max(len(cells[index]) for _, cells in rows) + _GAP for index in columns}
    name = max(len(each) for each, _ in rows)
    for index in drop:
        if 2 + name + sum(widths[each] for each in columns) <= width:
            break
        if index in columns:
            columns.remove(index)
    for each, cells in rows:
        yield f"  {each:<{name}}{''.join(f'{cells[index]:>{widths[index]}}' for index in columns)}".rstrip()


def _item(name: str, text: str, width: int) -> list[str]:
    return _wrapped(text, width, f"    {name:<13}", " " * 17)


def _wrapped(text: str, width: int, first: str, rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        width,
        initial_indent=first,
        subsequent_indent=f"{first}  " if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
