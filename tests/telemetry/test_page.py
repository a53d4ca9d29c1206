"""The page of telemetry names what there is, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from training_storage.node import telemetry
from training_storage.node.metrics import OURS
from training_storage.node.telemetry import environment

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8")


def test_every_metric_with_its_unit() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE, re.MULTILINE))
    assert rows == {name: metric.unit for name, metric in OURS.items() if "telemetry" in metric.source}


def test_every_variable() -> None:
    said = set(re.findall(r"`(TRAINING_STORAGE_\w+)`", PAGE))
    read = {value for name, value in vars(environment).items() if name.isupper() and str(value).startswith("TRAINING")}
    assert said == read | {"TRAINING_STORAGE_INSTANCE_ID"}


def test_every_name() -> None:
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)[(`]", row)}
    callbacks = {"lightning_callback", "hugging_face_callback"}
    assert set(telemetry.__all__) - {"Checkpoint", "Watched"} - callbacks <= named
    assert all(f"telemetry.{name}(" in PAGE for name in callbacks)
