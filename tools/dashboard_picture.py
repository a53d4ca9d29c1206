"""Draw the dashboard of an example from sample data: the picture in README.md and docs/monitoring.md.

    python tools/dashboard_picture.py [--check]

The widgets, their titles, places, lines and units are those of the synthesized dashboard; only the series are made up,
from fixed formulas, so that the same code draws the same bytes. With ``--check`` nothing is written, and the exit code
is 1 where the picture is not the one that would be drawn.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import re
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = ROOT / "docs" / "images" / "dashboard.svg"
EXAMPLE: Final = "llama3-70b"
_ROWS: Final = 32
"""Rows of the grid that are drawn: the first line, the ten figures, and some of the nodes that stand out."""
_CELL: Final = (0.62, 0.42)
"""Inches of a cell of the grid."""
_MINUTES: Final = 60
_COLOURS: Final = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b")

# Means of the sample series, by what their rows are called; the run waits for data in its second half.
_SAMPLES: Final = {
    "waits for data, % of time": 14.0,
    "held up by checkpoints, % of time": 0.6,
    "computes, % of time": 85.4,
    "GPU utilisation, %": 81.0,
    "mean over all GPUs": 81.0,
    "waits for data, %": 14.0,
    "batches": 9300.0,
    "read by nodes": 9600.0,
    "written by nodes": 700.0,
    "read, as FSx counts": 9700.0,
    "written, as FSx counts": 710.0,
    "files opened by nodes": 90.0,
    "metadata operations, as FSx counts": 240.0,
    "slowest rank": 34.0,
    "training, slowest rank": 96.0,
    "drill, hot": 88.0,
    "drill, lake": 190.0,
    "asked for while none was ready": 22.0,
    "batches ready": 3.1,
    "mean step": 1.9,
    "99th percentile": 2.6,
    "variation": 17.0,
    "GPUs that wait or are held up": 560.0,
    "EFA": 10_200.0,
    "TCP": 12.0,
    "failed requests": 0.0,
    "throttled requests": 35.0,
}
_OF_NODES: Final = 5


def body() -> dict[str, Any]:
    """Return the dashboard of the example as CloudWatch gets it; references are empty."""
    import aws_cdk as cdk

    sys.path.insert(0, str(ROOT))
    from stacks import build_stacks
    from training_storage import load_workload, plan

    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    app = cdk.App(context=context, analytics_reporting=False, builtin_cloud_formation_validation=False)
    build_stacks(app, plan(load_workload(ROOT / "examples" / f"{EXAMPLE}.yaml")))
    template = app.synth().get_stack_by_name(f"{EXAMPLE}-monitoring").template
    return body_of(template)


def body_of(template: dict[str, Any]) -> dict[str, Any]:
    """Return the dashboard of a template.

    Args:
        template: The template of the monitoring stack.
    """
    (resource,) = (each for each in template["Resources"].values() if each["Type"] == "AWS::CloudWatch::Dashboard")
    text = resource["Properties"]["DashboardBody"]
    if not isinstance(text, str):
        text = "".join(part if isinstance(part, str) else _reference(part) for part in text["Fn::Join"][1])
    made: dict[str, Any] = json.loads(text)
    return made


def _reference(value: dict[str, Any]) -> str:
    # Alarms are named by what they are: their states are drawn.
    found = re.search(r"Alarms([A-Za-z0-9]+?)[0-9A-F]{8}", json.dumps(value))
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", found[1]).lower() if found else ""


def drawn(widgets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the widgets that the picture has.

    Args:
        widgets: Widgets of the dashboard.
    """
    return [each for each in widgets if each["y"] + each["height"] <= _ROWS]


def sample(label: str, number: int = 0) -> list[float]:
    """Return a series for a row: an hour, with a quiet first half.

    Args:
        label: What the row is called.
        number: Which one of several.
    """
    mean = _SAMPLES.get(label, 20.0 + 7 * number)
    seed = sum(map(ord, label)) + 17 * number
    waves = [0.04 * math.sin((minute + seed) / 3.1) + 0.02 * math.sin((minute + seed) * 1.7) for minute in
             range(_MINUTES)]  # fmt: skip
    late = [1 / (1 + math.exp(-(minute - 34) / 2.5)) for minute in range(_MINUTES)]
    grows = {
        "waits for data, %",
        "GPUs that wait or are held up",
        "asked for while none was ready",
        "variation",
        "throttled requests",
    }
    factor = [0.25 + 0.9 * each if label in grows else 1.06 - 0.14 * each for each in late]
    return [max(0.0, mean * up * (1 + wave)) for up, wave in zip(factor, waves, strict=True)]


def picture(widgets: list[dict[str, Any]]) -> str:
    """Return the picture as SVG, the same bytes for the same widgets.

    Args:
        widgets: Widgets of the dashboard.
    """
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    settings: dict[Any, Any] = {
        "svg.hashsalt": "training-storage",
        "svg.fonttype": "none",
        "font.family": "DejaVu Sans",
        "font.size": 7,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "path.simplify": True,
    }
    shown = drawn(widgets)
    rows = max(each["y"] + each["height"] for each in shown)
    with mpl.rc_context(settings):
        figure = pyplot.figure(figsize=(24 * _CELL[0], rows * _CELL[1]), facecolor="white")
        for each in shown:
            _draw(figure, each, rows)
        kept = io.StringIO()
        figure.savefig(kept, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return re.sub(r"[ \t]+$", "", kept.getvalue(), flags=re.MULTILINE)


def _draw(figure: Any, widget: dict[str, Any], rows: int) -> None:
    left, top = widget["x"] / 24, 1 - widget["y"] / rows
    width, height = widget["width"] / 24, widget["height"] / rows
    properties = widget["properties"]
    if widget["type"] == "text":
        text = re.sub(r"[*`#]", "", properties["markdown"]).strip()
        size = 10 if properties["markdown"].startswith("#") else 8
        figure.text(
            left + 0.006, top - height / 2, text, va="center", fontsize=size, weight="bold" if size == 10 else 400
        )
        return
    figure.text(left + 0.008, top - 0.5 / rows, properties["title"], va="center", fontsize=8, weight="bold")
    if widget["type"] == "alarm":
        _states(figure, properties["alarms"], left, top, width, height)
    elif properties["view"] == "singleValue":
        _numbers(figure, properties, left, top, width, height)
    else:
        _graph(figure, properties, (left + 0.026, top - height + 0.8 / rows, width - 0.055, height - 2.0 / rows))


def _states(figure: Any, names: list[str], left: float, top: float, width: float, height: float) -> None:
    red = {"gpus-wait-for-storage", "gpus-wait-for-data", "s3-throttled"}
    for number, name in enumerate(names):
        column, row = number % 2, number // 2
        place = (left + 0.012 + column * width / 2, top - height * (0.32 + 0.19 * row))
        figure.text(place[0], place[1], "■", color="#d62728" if name in red else "#2ca02c", va="center", fontsize=9)
        figure.text(place[0] + 0.012, place[1], name, va="center", fontsize=8)


def _numbers(figure: Any, properties: dict[str, Any], left: float, top: float, width: float, height: float) -> None:
    labels = [row[-1]["label"] for row in properties["metrics"] if row[-1].get("visible", True)]
    for number, label in enumerate(labels):
        place = left + 0.012 + number * width / len(labels)
        figure.text(place, top - height * 0.5, f"{_SAMPLES[label]:.1f}", fontsize=17, va="center")
        figure.text(place, top - height * 0.82, label, fontsize=7, va="center", color="#555555")


def _graph(figure: Any, properties: dict[str, Any], place: tuple[float, float, float, float]) -> None:
    axis = figure.add_axes(place)
    right = axis.twinx() if "right" in properties["yAxis"] else None
    colours = iter(_COLOURS * 10)
    for row in properties["metrics"]:
        options = row[-1]
        if options.get("visible") is False:
            continue
        target = right if right is not None and options.get("yAxis") == "right" else axis
        for label, series in _series(properties["title"], options):
            colour = next(colours)
            target.plot(range(_MINUTES), series, color=colour, linewidth=0.9)
            # Legends are kept short: one word a line says more than a box over the data.
            target.annotate(label, (_MINUTES - 1, series[-1]), fontsize=5.5, color=colour, ha="right", va="bottom")
    for line in properties.get("annotations", {}).get("horizontal", []):
        target = right if right is not None and line.get("yAxis") == "right" else axis
        target.axhline(line["value"], color=line["color"], linewidth=0.8, linestyle="--")
        target.annotate(line["label"], (1, line["value"]), fontsize=5.5, color=line["color"], va="bottom")
    for each, name in ((axis, "left"), (right, "right")):
        if each is not None:
            each.set_ylim(bottom=0)
            each.set_ylabel(properties["yAxis"][name]["label"], fontsize=6)
            each.tick_params(labelsize=5.5, length=2)
            each.spines["top"].set_visible(False)
    axis.set_xlim(0, _MINUTES - 1)
    axis.set_xticks(range(0, _MINUTES, 15), [f"10:{minute:02}" for minute in range(0, _MINUTES, 15)])


def _series(title: str, options: dict[str, Any]) -> list[tuple[str, list[float]]]:
    if "SEARCH" not in options.get("expression", ""):
        return [(options["label"], sample(options["label"]))]
    scale = 1.0 if "%" in title or "wait" in title else 0.7
    return [(f"i-0{number}", [scale * value for value in sample(title, number)]) for number in range(1, _OF_NODES + 1)]


def main(arguments: list[str] | None = None) -> int:
    """Draw the picture, or look whether it is drawn as it would be now.

    Args:
        arguments: Command line; that of the process when left out.
    """
    parser = argparse.ArgumentParser(description="Draw the dashboard of an example from sample data.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where the picture differs")
    check = parser.parse_args(arguments).check
    text = picture(body()["widgets"])
    if check:
        return 0 if PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == text else 1
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
