"""What every test may use: an App with the flags of cdk.json, and nothing that reaches a network."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import aws_cdk as cdk

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def cdk_context() -> dict[str, Any]:
    """Context of cdk.json: pytest does not read it by itself, and without the flags another product is tested."""
    return dict(json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"])


@pytest.fixture
def make_app(cdk_context: dict[str, Any], tmp_path: Path) -> Callable[[], cdk.App]:
    """Make Apps, each with a folder of its own."""
    import aws_cdk as cdk

    count = 0

    def make() -> cdk.App:
        nonlocal count
        count += 1
        return cdk.App(
            context=cdk_context,
            outdir=str(tmp_path / f"cdk.out.{count}"),
            analytics_reporting=False,
            builtin_cloud_formation_validation=False,
        )

    return make


@pytest.fixture
def app(make_app: Callable[[], cdk.App]) -> cdk.App:
    """One App, for one test."""
    return make_app()
