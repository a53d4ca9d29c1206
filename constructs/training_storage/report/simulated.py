"""A simulated run beside the closed forms that the prediction rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from training_storage.planner.words import mb_per_s, number, seconds
from training_storage.report.tables import Column, Row, Table, table
from training_storage.report.words import nearly, relative, sentence

if TYPE_CHECKING:
    from training_storage.simulation.result import Figure, Simulation


def simulation_words(simulation: Simulation) -> str:
    """Return what was simulated, in a sentence or two.

    Args:
        simulation: The simulation.
    """
    runs = "" if simulation.runs < 2 else f", means over {number(simulation.runs)} runs"
    words = f"Event by event, seed {simulation.seed}"
    if simulation.run is not None:
        words += f": a run of {seconds(simulation.run_s)}{runs}"
    words += "."
    low, high = simulation.ratio_low, simulation.ratio_high
    if low is not None and high is not None:
        words += f" One run in twenty ends below an effective training time of {nearly(low)}, one above {nearly(high)}."
    return words


def simulation_table(simulation: Simulation) -> Table | None:
    """Return each figure by its formula and as simulated.

    Args:
        simulation: The simulation.
    """
    rows = [
        Row(
            (
                sentence(figure.label),
                _value(figure, figure.closed_form),
                _value(figure, figure.simulated),
                _difference(figure),
                "Exact" if figure.exact else f"Not exact here: {figure.because}",
            )
        )
        for figure in simulation.figures
    ]
    columns = (
        Column("Figure"),
        Column("Formula", "number"),
        Column("Simulated", "number"),
        Column("Difference", "number"),
        Column("The formula is"),
    )
    return table("Formula and simulation", columns, rows, hide_caption=True)


def time_table(simulation: Simulation) -> Table | None:
    """Return where the time of the simulated run went; None without checkpoints.

    Args:
        simulation: The simulation.
    """
    run = simulation.run
    if run is None or run.wall_s <= 0:
        return None
    parts = (
        ("Training that was kept", run.work_s),
        ("Training that failures threw away", run.lost_s),
        ("Waiting for data", run.wait_s),
        ("Saves that stall", run.stall_s),
        ("Restarts", run.restart_s),
        ("Restores", run.restore_s),
    )
    rows = [Row((name, seconds(value), nearly(value / run.wall_s))) for name, value in parts]
    count = f"{number(run.failures)} failures, {number(run.saves)} saves, {number(run.restores)} restores"
    columns = (Column("What"), Column("Time", "number"), Column("Share", "number"))
    return table(f"Where the time of the run with this seed went: {count}", columns, rows)


def _value(figure: Figure, value: float) -> str:
    if figure.unit == "MB/s":
        return mb_per_s(value)
    if figure.unit == "share":
        return nearly(value)
    return seconds(value) if figure.unit == "s" else number(value)


def _difference(figure: Figure) -> str:
    if figure.difference is None:
        return "Formula says 0"
    said = relative(figure.difference)
    return f"{said}, chance" if figure.chance and said != "0 %" else said
