"""What the tests of every example use: an App with the flags of cdk.json, and snapshots as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import aws_cdk as cdk
import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

CDK_JSON = Path(__file__).resolve().parents[2] / "cdk.json"


@pytest.fixture
def app(tmp_path: Path) -> cdk.App:
    """One App, for one test; pytest does not read cdk.json by itself."""
    flags = json.loads(CDK_JSON.read_text(encoding="utf-8"))["context"]
    return cdk.App(
        context=flags, outdir=str(tmp_path), analytics_reporting=False, builtin_cloud_formation_validation=False
    )


@pytest.fixture
def snapshot_json(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    """One JSON file a snapshot, which reads well in a review."""
    return snapshot.use_extension(JSONSnapshotExtension)
