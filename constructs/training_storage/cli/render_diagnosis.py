"""A diagnosis as text for people."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from training_storage.cli.moments import told
from training_storage.units import plain_digits

if TYPE_CHECKING:
    from training_storage.operations.diagnosis.diagnose import Diagnosis
    from training_storage.operations.diagnosis.finding import Evidence, Finding
    from training_storage.operations.diagnosis.observation import Observation

_HEADS = {
    "not-storage": "storage is not what holds training back",
    "unknown": "not known",
}


def as_text(found: Diagnosis, seen: Observation) -> str:
    """Return a diagnosis: the verdict first, then its evidence, the next step, and what else was seen.

    Args:
        found: The diagnosis.
        seen: What it was made of.
    """
    width = max(60, min(120, shutil.get_terminal_size((100, 20)).columns))
    lines = []
    if found.primary is None:
        head = f"{found.workload}: {_HEADS[found.verdict]}: {found.because}"
        lines += textwrap.wrap(head, width, subsequent_indent="  ")
        lines += _evidence(found.evidence, width)
    else:
        lines += textwrap.wrap(f"{found.workload}: {found.primary.title}", width, subsequent_indent="  ")
        lines.append(f"  {found.verdict}, confidence {found.primary.confidence}")
        lines += _evidence(found.primary.evidence, width)
        lines += _field("next step", found.primary.next_step, width)
        lines += _field("gain", _gain(found.primary), width)
    if found.also:
        lines += ["", "also seen"]
        for each in found.also:
            text = f"{each.id} ({each.confidence}): {each.title}; next step: {each.next_step}"
            lines += _item(text, width)
    if found.missing:
        lines += ["", "not known"]
        for text in found.missing:
            lines += _item(text, width)
    series = sum(1 for each in seen.series if each.points)
    lines += ["", f"from {series:,} series between {told(found.since)} and {told(found.until)}"]
    return "\n".join(lines)


def _item(text: str, width: int) -> list[str]:
    # Commands stand in it: broken at a hyphen they are other commands.
    return textwrap.wrap(
        text, width, initial_indent="  - ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def _field(name: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=f"  {name:<11}", subsequent_indent=" " * 13,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _gain(found: Finding) -> str:
    if found.gain_share is None:
        return "not known in GPU time; it is about data, or about what was measured"
    parts = [f"up to {found.gain_share * 100:.3g} % of the fleet's time"]
    if found.gain_gpu_hours_per_hour is not None:
        parts.append(f"{plain_digits(found.gain_gpu_hours_per_hour)} GPU hours an hour")
    if found.gain_usd_per_hour is not None:
        parts.append(f"{found.gain_usd_per_hour:,.2f} USD an hour")
    return ", ".join(parts)


def _evidence(rows: Sequence[Evidence], width: int) -> list[str]:
    if not rows:
        return []
    wide = min(max(len(each.name) for each in rows), width // 2)
    lines = []
    for each in rows:
        value = each.observed if isinstance(each.observed, str) else _number(each.observed, each.unit)
        beside = "" if each.expected is None else f"  {each.against}: {_number(each.expected, each.unit)}"
        lines.append(f"  {each.name:<{wide}}  {value}{beside}".rstrip())
    return lines


def _number(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if abs(value) >= 100 else plain_digits(value)
    return f"{text} {unit}".rstrip()
