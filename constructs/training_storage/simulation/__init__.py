"""One training run, event by event: a check of the planner's closed forms. Pure; seeded; same seed, same bytes."""

from __future__ import annotations

from training_storage.simulation.model import PipelineInput, PipelineResult, RunInput, RunResult
from training_storage.simulation.of_plan import simulate
from training_storage.simulation.pipeline import simulate_pipeline
from training_storage.simulation.result import Figure, Simulation
from training_storage.simulation.run import simulate_run

__all__ = [
    "Figure",
    "PipelineInput",
    "PipelineResult",
    "RunInput",
    "RunResult",
    "Simulation",
    "simulate",
    "simulate_pipeline",
    "simulate_run",
]
