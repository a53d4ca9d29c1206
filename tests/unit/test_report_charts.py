"""The charts: lengths follow numbers, what falls short is marked, and drawings keep colours and ids of the page."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.unit._planner import SAVES, planned
from tests.unit._report import Node, parse
from training_storage.planner.model_prediction import SupplyLimit
from training_storage.report import chart
from training_storage.report.architecture import architecture
from training_storage.report.chart import Chart
from training_storage.report.chart_break_even import break_even_chart
from training_storage.report.chart_limits import limits_chart
from training_storage.report.chart_sweep import sweep_chart, value_text
from training_storage.whatif import BreakEven, Sweep, break_even, steps, sweep

LIMITS = (
    SupplyLimit(name="client", mb_per_s=500.0, because=""),
    SupplyLimit(name="disk", mb_per_s=1500.0, because=""),
    SupplyLimit(name="network", mb_per_s=90_000.0, because=""),
)


def drawings(made: Chart) -> list[Node]:
    return [parse(svg).all("svg")[0] for svg in made.svgs]


def spans(svg: Node, color: str) -> list[tuple[float, float]]:
    """Return left and right end of every closed shape that has a colour as its fill or edge."""
    out = []
    for path in svg.all("path"):
        if f"var(--{color})" not in path.attrs.get("style", "") or not path.attrs["d"].endswith("z"):
            continue
        xs = [float(x) for x, _ in re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", path.attrs["d"])]
        out.append((min(xs), max(xs)))
    return out


def texts(svg: Node) -> list[str]:
    return [node.text for node in svg.all("text")]


def text_at(svg: Node, text: str) -> float:
    (found,) = [node for node in svg.all("text") if node.text == text]
    return float(found.attrs["x"])


@pytest.mark.parametrize("variant", [0, 1])
def test_bars_are_as_long_as_their_limits(variant: int) -> None:
    svg = drawings(limits_chart(LIMITS, 1000.0))[variant]
    ((left, short),) = spans(svg, "alarm")
    (whole, cut) = spans(svg, "neutral")
    assert (whole[0], cut[0]) == (left, left)
    assert (short - left) / (whole[1] - left) == pytest.approx(500 / 1500, rel=1e-3)
    # The axis ends at 1.6 times the demand; a bar beyond is cut, its number is not.
    assert (cut[1] - left) / (whole[1] - left) == pytest.approx(1600 / 1500, rel=1e-3)
    assert {"500 MB/s", "1,500 MB/s", "90,000 MB/s", "Demand 1,000 MB/s"} <= set(texts(svg))
    (demand,) = [path for path in svg.all("path") if "dasharray" in path.attrs.get("style", "")]
    at = float(demand.attrs["d"].split()[1])
    assert (at - left) / (whole[1] - left) == pytest.approx(1000 / 1500, rel=1e-3)


def test_only_what_falls_short_is_hatched() -> None:
    for demand, count in ((400.0, 0), (500.0, 0), (501.0, 1), (2000.0, 2)):
        svg = drawings(limits_chart(LIMITS, demand))[0]
        assert len(spans(svg, "alarm")) == count
        assert len([path for path in svg.all("path") if "url(#" in path.attrs.get("style", "")]) == count
        assert len(spans(svg, "accent")) == (1 if count == 0 else 0)  # the tightest, where nothing waits


def test_without_a_demand_there_is_no_line() -> None:
    svg = drawings(limits_chart(LIMITS, None))[0]
    assert [path for path in svg.all("path") if "dasharray" in path.attrs.get("style", "")] == []
    assert not any("emand" in text for text in texts(svg))
    assert "not known" in svg.all("desc")[0].text


def test_a_description_has_every_number() -> None:
    for svg in drawings(limits_chart(LIMITS, 1000.0)):
        text = svg.all("desc")[0].text
        assert all(part in text for part in ("1,000 MB/s", "500 MB/s", "1,500 MB/s", "90,000 MB/s"))


def crossing() -> BreakEven:
    made = planned({"compute.instance_count": 20, "checkpoints": SAVES})
    found = [break_even(made, each) for each in steps(made) if each.plan is not None]
    return next(each for each in found if each.crossings_mb_per_s)


def test_both_lines_the_crossing_and_the_workload_are_drawn() -> None:
    found = crossing()
    for svg in drawings(break_even_chart(found, 4)):
        assert svg.attrs["id"].startswith("break-even-4-")
        assert {"This plan", "USD an hour", "This workload 1,600 MB/s"} <= set(texts(svg))
        assert found.step in " ".join(texts(svg))
        styles = [path.attrs.get("style", "") for path in svg.all("path")]
        assert any("stroke: var(--accent)" in style for style in styles)
        assert any("stroke: var(--ink)" in style and "dasharray" in style for style in styles)
        curves = [style for path, style in zip(svg.all("path"), styles, strict=True) if len(path.attrs["d"]) > 200]
        # The step lies over the plan, which is seen between its dashes: two equal curves are both there.
        (ours,) = [place for place, style in enumerate(curves) if "stroke: var(--accent)" in style]
        (theirs,) = [place for place, style in enumerate(curves) if "dasharray" in style]
        assert ours < theirs
        assert len(svg.all("use")) >= len(found.crossings_mb_per_s or ())
        where = svg.all("desc")[0].text
        assert all(f"{each:,.0f} MB/s" in where for each in found.crossings_mb_per_s or ())


def test_lines_that_never_cross_say_so() -> None:
    found = replace(crossing(), crossings_mb_per_s=(), read_mb_per_s=None)
    svg = drawings(break_even_chart(found, 1))[0]
    assert "One of them is cheaper over the whole range" in svg.all("desc")[0].text
    assert not any("This workload" in text for text in texts(svg))


def swept(*values: str) -> Sweep:
    return sweep(planned({"checkpoints": SAVES}).workload, "compute.instance_count", list(values))


@pytest.mark.parametrize("variant", [0, 1])
def test_the_ribbon_changes_where_the_tier_does(variant: int) -> None:
    svg = drawings(sweep_chart(swept("1", "4", "10", "16", "17", "21")))[variant]
    bars = [span for color in ("neutral", "accent") for span in spans(svg, color)]
    (left, end), (start, right) = sorted(sorted(bars, key=lambda span: span[1] - span[0])[-2:])
    assert end == pytest.approx(start)
    assert (end - left) / (right - left) == pytest.approx((17 - 1) / (21 - 1), rel=1e-3)
    assert {"S3 alone", "FSx for Lustre", "This workload 4"} <= set(texts(svg))
    assert "S3 Express One Zone" not in texts(svg)
    assert "1 to 16: S3 alone; 17 to 21: FSx for Lustre" in svg.all("desc")[0].text


@pytest.mark.parametrize("variant", [0, 1])
def test_a_last_value_with_an_answer_of_its_own_is_seen(variant: int) -> None:
    for values, legend in ((("15", "17"), "FSx for Lustre"), (("1", "16", "17"), "FSx for Lustre")):
        svg = drawings(sweep_chart(swept(*values)))[variant]
        assert legend in texts(svg)
        widths = sorted(right - left for left, right in spans(svg, "accent"))
        assert widths[-1] > 8  # the bar; the legend's sample is above it
        assert len(widths) >= 2
    # Where the answer is that of the value before, the axis ends with the values.
    svg = drawings(sweep_chart(swept("1", "16")))[variant]
    bar = max(spans(svg, "neutral"), key=lambda span: span[1] - span[0])
    assert (text_at(svg, "15") - bar[0]) / (bar[1] - bar[0]) == pytest.approx(14 / 15, abs=0.01)


def label_ends(svg: Node) -> list[tuple[float, float, float]]:
    """Return height, begin and end of every label of an axis, which are all muted."""
    out = []
    for node in svg.all("text"):
        style = node.attrs["style"]
        wide, at = chart.text_width(node.text), float(node.attrs["x"])
        if "var(--muted)" in style:
            begin = at - wide * {"start": 0.0, "middle": 0.5, "end": 1.0}[style.split("text-anchor: ")[1].split(";")[0]]
            out.append((round(float(node.attrs["y"])), begin, begin + wide))
    return sorted(out)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("dataset.file_count", ("1", "1000", "1000000", "1000000000000")),
        ("compute.instance_count", ("1", "10000")),
        ("compute.instance_count", ("9999", "10000")),
        ("checkpoints.max_stall", ("0.00001", "0.001", "0.5")),
        ("dataset.size", ("1 B", "2 B")),
        ("checkpoints.interval", ("1s", "1m", "30d")),
        ("read_rate.per_accelerator", ("1 B/s", "1 MB/s", "1 GB/s")),
    ],
    ids=str,
)
def test_labels_of_an_axis_fit_beside_each_other_and_in_the_drawing(field: str, values: tuple[str, ...]) -> None:
    made = sweep(planned({"checkpoints": SAVES}).workload, field, list(values))
    for svg in drawings(sweep_chart(made)):
        width = float(svg.attrs["viewbox"].split()[2])
        ends = label_ends(svg)
        assert len(ends) >= 2
        assert all(begin >= 0 and end <= width for _, begin, end in ends)
        for (row, _, end), (other, begin, _) in pairwise(ends):
            assert row != other or begin > end, (field, ends)


def test_what_is_counted_has_no_halves_on_its_axis() -> None:
    for svg in drawings(sweep_chart(swept("15", "16", "17"))):
        shown = [text for text in texts(svg) if re.fullmatch(r"1[567](\.\d+)?", text)]
        assert "16" in shown
        assert not any("." in text for text in shown)


def test_labels_of_large_rates_fit_too() -> None:
    huge = tuple(replace(limit, mb_per_s=limit.mb_per_s * 1e9) for limit in LIMITS)
    for svg in drawings(limits_chart(huge, 1.5e12)):
        ends = label_ends(svg)
        assert all(begin >= 0 and end <= float(svg.attrs["viewbox"].split()[2]) for _, begin, end in ends)
        assert all(row != other or begin > end for (row, _, end), (other, begin, _) in pairwise(ends))


def test_a_title_beside_a_wide_axis_stays_in_the_drawing() -> None:
    found = swept("1", "17")
    points = tuple(
        replace(point, figures=replace(point.figures, storage_monthly=5.8e11, gpu_wait_fraction=0.5))
        for point in found.points
        if point.figures is not None
    )
    for svg in drawings(sweep_chart(replace(found, points=points))):
        title = "Waiting accelerators, share of the time"
        assert text_at(svg, title) + chart.text_width(title) <= float(svg.attrs["viewbox"].split()[2])


def test_a_long_range_has_a_logarithmic_axis() -> None:
    ticks = texts(drawings(sweep_chart(swept("1", "10", "100", "1000")))[0])
    assert {"1", "10", "100", "1,000"} <= set(ticks)
    alone = drawings(sweep_chart(swept("16", "17")))[0].all("desc")[0].text
    assert alone == "16: S3 alone; 17: FSx for Lustre."
    wide = drawings(sweep_chart(swept("1", "10", "100", "1000")))[0]
    assert text_at(wide, "100") - text_at(wide, "10") == pytest.approx(
        text_at(wide, "10") - text_at(wide, "1"), abs=0.1
    )


def test_values_have_the_unit_of_their_field() -> None:
    assert value_text(2000, "") == "2,000"
    assert value_text(60e12, "B") == "60 TB"
    assert value_text(25e6, "B/s") == "25 MB/s"
    assert value_text(1800, "s") == "30 min"


def test_drawings_take_colours_and_fonts_from_the_page() -> None:
    made = planned({"hot_tier": "lustre", "checkpoints": SAVES})
    plots = (limits_chart(LIMITS, 1000.0), break_even_chart(crossing(), 1), sweep_chart(swept("1", "17")))
    for each in (*plots, architecture(made)):
        for svg in each.svgs:
            assert re.findall(r"#[0-9a-f]{6}", svg) == []
            assert "font-family" not in svg
            assert "xmlns" not in svg
            assert "<style" not in svg
            assert "xlink" not in svg
            assert set(re.findall(r"var\((--[a-z]+)\)", svg)) <= {*chart._VARIABLES.values(), "--band"}


def test_variables_of_drawings_are_those_of_the_style_sheet() -> None:
    from training_storage.report.rendering import _packaged

    css = _packaged("page.css")
    for variable in {*chart._VARIABLES.values(), "--band"}:
        assert css.count(f"{variable}: #") == 2, variable  # light and dark


def test_colours_of_drawings_are_used_for_nothing_else() -> None:
    from matplotlib.colors import get_named_colors_mapping, to_hex

    own = set(chart._VARIABLES)
    assert all(re.fullmatch(r"#[0-9a-f]{6}", color) for color in own)
    assert not own & {to_hex(color) for color in get_named_colors_mapping().values()}


def test_the_drawing_of_stacks_holds_every_name() -> None:
    made = planned({"compute.instance_count": 20, "checkpoints": SAVES})
    for svg in drawings(architecture(made)):
        text = " ".join(texts(svg))
        for part in ("example-lake", "example-network", "example-hot", "example-compute", "example-monitoring"):
            assert part in text
        for part in ("FSx for Lustre", "20 x p5.48xlarge", "/fsx: Lustre", "/fsx/datasets", "reads 1,600 MB/s"):
            assert part in text
        boxes = [[float(box.attrs[key]) for key in ("x", "y", "width", "height")] for box in svg.all("rect")]
        right, bottom = (float(value) for value in svg.attrs["viewbox"].split()[2:])
        assert all(x >= 0 and y >= 0 and x + width <= right and y + height <= bottom for x, y, width, height in boxes)


def test_letters_that_no_font_of_matplotlib_has_are_measured_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chart.text_width("中文", 10) == 20  # squares
        assert 0 < chart.text_width("עברית", 10, mono=True) <= 50
        assert chart.text_width("a\u0301\U0001e8d0") < chart.text_width("ab")  # marks over a letter take no room
