"""What a simulation of a plan gives: each figure beside the closed form's."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Literal

from training_storage.simulation.model import PipelineInput, PipelineResult, RunInput, RunResult

Unit = Literal["MB/s", "share", "s", "count"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure, from the formula and from the simulation.

    Attributes:
        name: As in the prediction where it stands there: ``data_wait_fraction``, ``effective_training_time_ratio``.
        label: The same for people.
        unit: Of both values.
        closed_form: What the plan predicts.
        simulated: What was measured, on average over the runs.
        standard_error: How far chance alone moves ``simulated``: one standard deviation, in its unit; None where
            nothing is drawn, or with a single run.
        difference: Of the simulation from the formula, relative; None where the formula says 0 and the simulation does
            not.
        exact: Whether the formula claims to be exact for this plan.
        because: Why it does not; empty where it does.
    """

    name: str
    label: str
    unit: Unit
    closed_form: float
    simulated: float
    standard_error: float | None
    difference: float | None
    exact: bool
    because: str

    @property
    def chance(self) -> bool:
        """Whether chance alone explains the difference: it is within three standard deviations."""
        return self.standard_error is not None and abs(self.simulated - self.closed_form) <= 3 * self.standard_error


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """One plan, simulated.

    Attributes:
        workload: Its name.
        seed: Of everything that is drawn.
        run_s: Length of one run, seconds.
        runs: Runs that the figures are means of; the first is ``run``.
        pipeline: What the way of the data gave; None where reads are not known.
        pipeline_input: What it was given.
        run: Where the time of the run with this seed went; None without checkpoints.
        run_input: What it was given.
        ratio_low: Effective training time ratio that one run in twenty stays below; None with a single run.
        ratio_high: The one that one run in twenty passes.
        figures: Closed form and simulation side by side.
        notes: What was simulated in a simpler way, or not at all.
    """

    workload: str
    seed: int
    run_s: float
    runs: int
    pipeline: PipelineResult | None
    pipeline_input: PipelineInput | None
    run: RunResult | None
    run_input: RunInput | None
    ratio_low: float | None
    ratio_high: float | None
    figures: tuple[Figure, ...]
    notes: tuple[str, ...]

    def figure(self, name: str) -> Figure | None:
        """Return the figure of that name, where there is one."""
        return next((each for each in self.figures if each.name == name), None)

    def to_dict(self) -> dict[str, object]:
        """Return plain data, every key always present; what is infinite becomes null."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return None
    return value
