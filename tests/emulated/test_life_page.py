"""The pages on a run's life say what a run prints: their blocks against a walk in the emulator."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.emulated.life import life_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tool_life", ROOT / "tools" / "life.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_block_of_the_pages_belongs_to_a_step_and_has_its_output(tool: ModuleType) -> None:
    for page in tool.PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = tool.BLOCK.findall(text)
        assert blocks, page.name
        assert len(blocks) == text.count("```console"), page.name
        assert all(body.startswith("$ ") for _, _, body in blocks), page.name
        # One name a page for each id of a run: what changes stands nowhere.
        found = re.findall(r"\b(?:fs|i|dra|task)-[0-9a-f]{17}\b", text)
        assert all("0123456789abcdef" in each for each in found), page.name


def test_report_37_each_step_has_a_command_what_it_prints_and_what_to_do_otherwise(tool: ModuleType) -> None:
    text = tool.PAGES[0].read_text(encoding="utf-8")
    steps = re.split(r"^## \d+\. ", text, flags=re.MULTILINE)[1:]
    assert len(steps) >= 9
    for step in steps:
        title = step.splitlines()[0]
        assert "\n$ " in step, title
        assert "| differs | do |" in step, title
    assert text.index("lfs hsm_state") < text.index("cat /fsx/datasets/") < text.rindex("lfs hsm_state /fsx/datasets/")
    assert ") released exists archived" in text
    assert "AVAILABLE" in text


def test_report_37_what_changes_from_run_to_run_is_replaced(tool: ModuleType) -> None:
    stable = tool.Stable(1_000_000_000.0)
    given = (
        "fs-0a1b2c3d4e5f60718 i-00000000000000001 i-00000000000000002 i-00000000000000001 2001-09-09 01:46:41 UTC "
        "2001-09-09T02:16:45Z 0.75 s at 12.3 MB/s"
    )
    assert stable.text(given) == (
        "fs-0123456789abcdef0 i-0123456789abcdef0 i-0123456789abcdef1 i-0123456789abcdef0 2026-12-03 09:00:00 UTC "
        "2026-12-03T09:30:00Z ... s at ... MB/s"
    )


@pytest.mark.slow
def test_the_pages_show_what_a_run_prints(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("CDK_VALIDATION", os.environ.get("CDK_VALIDATION", "false"))
    texts = {page: page.read_text(encoding="utf-8") for page in tool.PAGES}
    with life_of(tool.workload(texts[tool.PAGES[0]])) as life:
        steps = tool.walk(life)
    for page, text in texts.items():
        assert tool.renewed(text, steps) == text, f"{page.name}: `python tools/life.py` renews it"
