"""The page that `make bench` writes: figures between two marks, everything else by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import run as bench


def figure(value: float) -> bench.Figure:
    return bench.Figure(what="ours", value=value, unit="s", against="theirs", other=0.5, target="2 times", met=True)


def test_only_what_stands_between_the_marks_is_written() -> None:
    page = f"before\n{bench.BEGIN}\nold\n{bench.END}\nafter\n"
    written = bench.with_figures(page, [figure(0.6)], "about")
    assert written.startswith(f"before\n{bench.BEGIN}\n")
    assert written.endswith(f"about\n\n{bench.END}\nafter\n")
    assert "old" not in written
    assert "| ours | 0.600 s | theirs | 0.500 s | 1.20 | 2 times | met |" in written


def test_the_same_figures_give_the_same_page() -> None:
    page = f"{bench.BEGIN}\n{bench.END}\n"
    once = bench.with_figures(page, [figure(0.6)], "about")
    assert bench.with_figures(once, [figure(0.6)], "about") == once


@pytest.mark.parametrize("marks", ["", "{begin}", "{end} {begin}", "{begin} {end} {end}"])
def test_a_page_without_its_marks_is_left_alone(marks: str) -> None:
    with pytest.raises(SystemExit, match="must hold"):
        bench.with_figures(marks.format(begin=bench.BEGIN, end=bench.END), [], "about")


def test_the_page_of_this_repository_has_its_marks_and_names_the_command() -> None:
    page = bench.PAGE.read_text(encoding="utf-8")
    assert (page.count(bench.BEGIN), page.count(bench.END)) == (1, 1)
    assert "make bench" in page


def test_a_stand_in_for_node_leaves_a_trace(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    environment = bench._with_node_stub(tmp_path / "stub", traces)
    with pytest.raises(SystemExit, match="ended with 1"):
        bench.run(["node", "--version"], environment)
    assert traces.read_text(encoding="utf-8") == "started\n"
