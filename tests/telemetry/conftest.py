"""Each test hears warnings anew, and no environment of the machine."""

from __future__ import annotations

import pytest

from training_storage.node.telemetry import quiet


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet.forget()
    for name in ("METRICS", "METRICS_INTERVAL", "METRICS_PER_RANK", "WORKLOAD", "RUN", "INSTANCE_ID"):
        monkeypatch.delenv(f"TRAINING_STORAGE_{name}", raising=False)
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TS_ROOT", "/nowhere")
