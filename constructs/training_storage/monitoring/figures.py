"""The first line of the dashboard and the ten figures below it, each beside what the plan expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from training_storage.monitoring import watches
from training_storage.monitoring.definitions import ALARMS, COMPOSITE, EVIDENCE, SAVING, WAITING
from training_storage.monitoring.metrics import Math, Reading, read, search
from training_storage.monitoring.subject import Subject
from training_storage.monitoring.watches import fleet, fsx
from training_storage.monitoring.widgets import (
    RED,
    Line,
    Row,
    Widget,
    alarm_states,
    found,
    graph,
    math,
    numbers,
    reading,
    significant,
    words,
)
from training_storage.node.metrics.figures import FIGURES
from training_storage.units import MB

_FIRST_PERIOD_S: Final = 300
"""The first line is a mean of five minutes: one slow step is no answer."""
FIRST_LINE: Final = (WAITING, *EVIDENCE, SAVING)
"""Alarms of the first line behind the composite one: each that is red names a cause."""
_PER_MB_S: Final = 60 * MB
_DEFINED: Final = {each.id: each for each in ALARMS}


def first_line(subject: Subject, title: str, region: str, arns: Mapping[str, str], runbook_url: str | None) -> Any:
    """Return the rows that answer: are the GPUs waiting, and for what.

    Args:
        subject: What is watched; its nodes write metrics.
        title: Name of the dashboard.
        region: Region.
        arns: ARNs of the alarms that are there, by id.
        runbook_url: Folder of the alarms' pages on the web.
    """
    where = {"period_s": _FIRST_PERIOD_S, "Workload": subject.workload or ""}
    wait, blocked, elapsed = (
        read(key, id=id_, **where)  # type: ignore[arg-type]  # one mapping of the period and of dimensions
        for key, id_ in (("DataWaitTime", "wait"), ("CheckpointBlockedTime", "blocked"), ("ElapsedTime", "elapsed"))
    )
    times = (wait, blocked, elapsed)
    shares = (
        ("waits for data, % of time", "100 * FILL(wait, 0) / elapsed"),
        ("held up by checkpoints, % of time", "100 * FILL(blocked, 0) / elapsed"),
        ("computes, % of time", "100 - 100 * (FILL(wait, 0) + FILL(blocked, 0)) / elapsed"),
    )
    rows = [row for label, text in shares for row in math(Math(expression=text, readings=times, label=label))]
    gpus = read("nvidia_smi_utilization_gpu", **where)  # type: ignore[arg-type]  # as above
    rows += reading(gpus, "GPU utilisation, %")
    states = [arns[each] for each in (COMPOSITE, *FIRST_LINE) if each in arns]
    below: list[Widget] = [
        numbers("Are the GPUs waiting?", rows, region=region, width=14 if states else 24, height=4),
    ]
    if states:
        below.append(alarm_states("For what? What is red names it", states, width=10, height=4))
    text = (
        f"**{title}: are the GPUs waiting, and for what?** Shares of the time of all ranks, over five minutes. "
        f"{_pages(subject, runbook_url)}"
    )
    return [[words(text, height=2)], below]


def _pages(subject: Subject, runbook_url: str | None) -> str:
    pages = (
        " · ".join(f"[{each}]({runbook_url}/{each}.md)" for each in (COMPOSITE, *FIRST_LINE))
        if runbook_url
        else "`docs/alarms/` has a page for each alarm."
    )
    return f"Cause and next step: `training-storage diagnose {subject.workload}`. {pages}"


def ten_figures(subject: Subject, region: str) -> list[list[Widget]]:
    """Return the ten figures, four a row and the last two wider.

    Args:
        subject: What is watched; its nodes write metrics.
        region: Region.
    """
    widgets = []
    for figure in FIGURES:
        rows, unit, right = _FIGURES[figure.number](subject)
        lines = [*_expected(subject, figure.expected, right=figure.number == _BY_NODE)]
        if more := _MORE_LINES.get(figure.number):
            lines += more(subject)
        widgets.append(
            graph(
                f"{figure.number}. {figure.title}",
                rows,
                region=region,
                unit=unit,
                right_unit=right,
                lines=lines,
                width=12 if figure.number > 8 else 6,
            )
        )
    return [[words("## The ten figures")], widgets[:4], widgets[4:8], widgets[8:]]


def _expected(subject: Subject, field: str, *, right: bool) -> list[Line]:
    value = getattr(subject.expected, field) if field else None
    return [] if value is None else [Line(value=value, label=f"plan: {significant(value):g}", right=right)]


def _alarm_line(subject: Subject, id_: str) -> list[Line]:
    return [Line(value=_DEFINED[id_].threshold(subject.expected), label=f"alarm {id_}", colour=RED)]


def _per_second(one: Reading, label: str, divisor: float = MB, **options: Any) -> list[Row]:
    return math(Math(expression=f"{one.id} / {60 * divisor:.0f}", readings=(one,), label=label), **options)


_Figure = tuple[list[Row], str, str]
_BY_NODE: Final = 4


def _utilisation(subject: Subject) -> _Figure:
    rows = reading(fleet(subject, "nvidia_smi_utilization_gpu"), "mean over all GPUs")
    return rows, "%", ""


def _data_wait(subject: Subject) -> _Figure:
    one = watches.data_wait(subject)
    return math(one) if one else [], "%", ""


def _training_read(subject: Subject) -> _Figure:
    return _per_second(fleet(subject, "TrainingReadBytes"), "batches"), "MB/s", ""


def _throughput(subject: Subject) -> _Figure:
    rows = _per_second(fleet(subject, "StorageReadBytes"), "read by nodes")
    rows += _per_second(fleet(subject, "StorageWriteBytes"), "written by nodes")
    if subject.file_system_id:
        rows += _per_second(fsx(subject, "DataReadBytes"), "read, as FSx counts")
        rows += _per_second(fsx(subject, "DataWriteBytes"), "written, as FSx counts")
    by_node = search("StorageReadBytes", over=("InstanceId",), Workload=subject.workload or "")
    rows += found(
        f"SLICE(SORT({by_node} / {_PER_MB_S:.0f}, AVG, DESC), 0, 10)", label="${PROP('Dim.InstanceId')}", yAxis="right"
    )
    return rows, "MB/s", "MB/s a node"


def _opens(subject: Subject) -> _Figure:
    rows = _per_second(fleet(subject, "FileOpens"), "files opened by nodes", 1)
    if subject.file_system_id:
        rows += _per_second(fsx(subject, "MetadataOperations"), "metadata operations, as FSx counts", 1)
    return rows, "1/s", ""


def _save(subject: Subject) -> _Figure:
    return reading(fleet(subject, "CheckpointSaveTime"), "slowest rank"), "s", ""


def _restore(subject: Subject) -> _Figure:
    rows = reading(fleet(subject, "RestoreTime"), "training, slowest rank")
    for source in ("hot", "lake"):
        one = read("RestoreTime", id=f"{source}Drill", Workload=subject.workload or "", Source=source)
        rows += reading(one, f"drill, {source}")
    return rows, "s", ""


def _queue(subject: Subject) -> _Figure:
    rows = reading(fleet(subject, "LoaderQueueEmptyShare"), "asked for while none was ready")
    rows += reading(fleet(subject, "LoaderQueueDepth"), "batches ready", yAxis="right")
    return rows, "%", "batches"


def _steps(subject: Subject) -> _Figure:
    rows = reading(fleet(subject, "StepTime"), "mean step")
    rows += reading(fleet(subject, "StepTime", "p99", id="slowSteps"), "99th percentile")
    rows += reading(fleet(subject, "StepTimeVariation"), "variation", yAxis="right")
    return rows, "s", "%"


def _cost(subject: Subject) -> _Figure:
    idle = watches.idle_cost(subject)
    if idle:
        return math(idle, label="GPUs that wait or are held up"), "USD/h", ""
    # Without a price of the fleet there is its share alone.
    one = watches.data_wait(subject)
    return math(one, label="waits for data, % of the fleet's price") if one else [], "%", ""


_FIGURES: Final[Mapping[int, Callable[[Subject], _Figure]]] = {
    1: _utilisation,
    2: _data_wait,
    3: _training_read,
    4: _throughput,
    5: _opens,
    6: _save,
    7: _restore,
    8: _queue,
    9: _steps,
    10: _cost,
}


def _throughput_lines(subject: Subject) -> list[Line]:
    expected = subject.expected
    return [
        Line(value=expected.node_limit_mb_per_s, label="limit of a node", colour=RED, right=True),
        Line(value=expected.limit_mb_per_s, label="limit of all", colour=RED),
    ]


_MORE_LINES: Final[Mapping[int, Callable[[Subject], list[Line]]]] = {
    1: lambda subject: _alarm_line(subject, "gpu-utilisation-low"),
    2: lambda subject: _alarm_line(subject, WAITING),
    3: lambda subject: _alarm_line(subject, "read-throughput-low"),
    4: _throughput_lines,
    5: lambda subject: [
        Line(value=subject.expected.file_opens_limit_per_s, label="limit of the metadata servers", colour=RED)
    ],
    6: lambda subject: _alarm_line(subject, SAVING),
}
