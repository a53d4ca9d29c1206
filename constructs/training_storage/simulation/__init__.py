"""One training run, event by event: a check of the planner's closed forms. Pure; seeded; same seed, same bytes."""

from __future__ import annotations

from training_storage.simulation.model import PipelineInput, PipelineResult, RunInput, RunResult
from training_storage.simulation.pipeline import simulate_pipeline
from training_storage.simulation.run import simulate_run

__all__ = [
    "PipelineInput",
    "PipelineResult",
    "RunInput",
    "RunResult",
    "simulate_pipeline",
    "simulate_run",
]
