"""A simulation as a person reads it in a terminal: formula, simulation, difference."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from training_storage.planner.words import mb_per_s, number, percent, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from training_storage.simulation import Figure, RunResult, Simulation

_LABEL = 24


def render_simulation(simulation: Simulation, width: int = 100) -> str:
    """Return the simulation as text.

    Args:
        simulation: The simulation.
        width: Columns to write for.
    """
    lines = _wrapped(_headline(simulation), width, "", "  ")
    if simulation.figures:
        lines += _table([("", "formula", "simulated", "difference"), *map(_row, simulation.figures)], width)
    for figure in simulation.figures:
        if not figure.exact:
            lines += _wrapped(f"{figure.label}: the formula is not exact here: {figure.because}", width, "  - ", "    ")
    if simulation.run is not None:
        lines += _wrapped(_where_time_went(simulation.run, simulation), width, "  - ", "    ")
    for note in simulation.notes:
        lines += _wrapped(note, width, "  - ", "    ")
    return "\n".join(lines) + "\n"


def _table(rows: list[tuple[str, str, str, str]], width: int) -> list[str]:
    """Return the figures as columns; where these are wider than the lines, each label stands over its numbers."""
    wide = [max(len(row[column]) for row in rows) for column in range(4)]
    label = max(_LABEL, wide[0])
    beside = 2 + label + 1 + sum(wide[1:]) + 4 <= width
    lines = []
    for name, *cells in rows:
        shown = "  ".join(f"{cell:>{size}}" for cell, size in zip(cells, wide[1:], strict=True))
        if not beside and name:
            lines.append(f"  {name}")
        lines.append(f"  {name:<{label}} {shown}".rstrip() if beside else f"    {shown}")
    return lines


def _headline(simulation: Simulation) -> str:
    runs = "" if simulation.runs < 2 else f", means over {simulation.runs} runs"
    length = "" if simulation.run is None else f": a run of {seconds(simulation.run_s)}{runs}"
    return f"Simulated event by event, seed {simulation.seed}{length}"


def _row(figure: Figure) -> tuple[str, str, str, str]:
    if figure.difference is None:
        difference = "not 0"
    elif figure.difference > 9:
        difference = f"x {figure.difference + 1:.3g}"
    else:
        # No sign where rounding leaves nothing.
        text = f"{figure.difference * 100:+.2f} %"
        difference = "0 %" if text.strip("+-") == "0.00 %" else text
        if figure.chance and difference != "0 %":
            difference += " (chance)"
    return figure.label, _value(figure, figure.closed_form), _value(figure, figure.simulated), difference


def _value(figure: Figure, value: float) -> str:
    if figure.unit == "share":
        return percent(value) if value < 0.9 else f"{value * 100:.2f} %"
    if figure.unit == "s":
        return seconds(value)
    return mb_per_s(value) if figure.unit == "MB/s" else number(value)


def _where_time_went(run: RunResult, simulation: Simulation) -> str:
    parts = ", ".join(f"{percent(value / run.wall_s)} {name}" for name, value in _parts(run) if value > 0)
    spread = ""
    if simulation.ratio_low is not None and simulation.ratio_high is not None:
        low, high = (f"{value * 100:.2f} %" for value in (simulation.ratio_low, simulation.ratio_high))
        spread = f"; nine runs of ten end with {low} to {high} effective time"
    return (
        f"the run of this seed: {_count(run.failures, 'failure')}, {_count(run.saves, 'save')}, "
        f"{_count(run.restores, 'restore')}; {parts}{spread}"
    )


def _parts(run: RunResult) -> Iterator[tuple[str, float]]:
    yield "training that lasts", run.work_s
    yield "lost to failures", run.lost_s
    yield "waiting for data", run.wait_s
    yield "stalled by saves", run.stall_s
    yield "restarting", run.restart_s
    yield "restoring", run.restore_s


def _count(value: int, name: str) -> str:
    return f"{value:,} {name}{'' if value == 1 else 's'}"


def _wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
