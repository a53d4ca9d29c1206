"""Pages of alarms, the page on monitoring and the picture say what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.assemblies import ROOT, example
from tools import dashboard_picture
from training_storage.monitoring.definitions import ALARMS, COMPOSITE, COMPOSITE_BORDER, COMPOSITE_TITLE, border_text
from training_storage.node.metrics.figures import FIGURES

PAGES = ROOT / "docs" / "alarms"
BORDERS = {**{each.id: border_text(each) for each in ALARMS}, COMPOSITE: COMPOSITE_BORDER}
TITLES = {**{each.id: each.title for each in ALARMS}, COMPOSITE: COMPOSITE_TITLE}


def flat(path: Path) -> str:
    return " ".join(path.read_text(encoding="utf-8").split())


def test_each_alarm_has_its_page_and_each_page_its_alarm() -> None:
    assert {path.stem for path in PAGES.iterdir()} == set(BORDERS)


@pytest.mark.parametrize("id_", BORDERS)
def test_a_page_says_when_its_alarm_rises_and_what_to_do(id_: str) -> None:
    text = flat(PAGES / f"{id_}.md")
    assert text.startswith(f"# {id_}: {TITLES[id_]} ")
    assert BORDERS[id_] in text
    assert [text.count(f"## {each} ") for each in ("When it rises", "First look", "Fix")] == [1, 1, 1]


@pytest.mark.parametrize("alarm", ALARMS, ids=lambda alarm: alarm.id)
def test_the_first_look_of_page_and_alarm_is_the_same(alarm: Any) -> None:
    assert f"## First look {alarm.look[0].upper()}{alarm.look[1:]}" in flat(PAGES / f"{alarm.id}.md")


def test_the_page_on_monitoring_has_every_alarm_and_figure() -> None:
    text = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert re.findall(r"\(alarms/([a-z0-9-]+)\.md\)", text) == [COMPOSITE, *(each.id for each in ALARMS)]
    for figure in FIGURES:
        assert f"| {figure.number} | {figure.title} | {figure.formula} |" in text


def body() -> dict[str, Any]:
    return dashboard_picture.body_of(example(dashboard_picture.EXAMPLE).templates["llama3-70b-monitoring"])


def test_the_picture_has_the_titles_of_the_dashboard() -> None:
    svg = dashboard_picture.PICTURE.read_text(encoding="utf-8")
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    titles = [w["properties"]["title"] for w in dashboard_picture.drawn(body()["widgets"]) if w["type"] != "text"]
    assert len(titles) == 16
    assert [title for title in titles if title not in texts] == []
    # And nothing that looks like a figure is in it that the dashboard does not have.
    assert {each for each in texts if re.match(r"\d+\. [A-Z]", each)} <= set(titles)


@pytest.mark.slow
def test_the_picture_is_drawn_the_same_each_time() -> None:
    pytest.importorskip("matplotlib")
    widgets = body()["widgets"]
    first = dashboard_picture.picture(widgets)
    assert first == dashboard_picture.picture(widgets)
    assert "<svg" in first
