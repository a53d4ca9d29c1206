"""The drawing of what will be deployed: bands from the lake down to the nodes, with what moves between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from training_storage.planner.model import Plan
from training_storage.planner.words import listed
from training_storage.report.chart import FONT_PX, VARIANTS, Chart, Variant, svg_element, text_width, wrap
from training_storage.report.deployment import Deployment, Flow, Line, Part, Place, Stack, deployment

_LEADING: Final = 18.0
_PAD: Final = 12.0
_GAP: Final = 10.0
_ROOMY: Final = 380.0
"""A part with so much room for text takes several lines of it as one."""
_HEAD: Final = 11.0
"""Length of an arrow's head."""


def architecture(plan: Plan) -> Chart:
    """Return the drawing.

    Args:
        plan: The plan.
    """
    deployed = deployment(plan)
    title = f"What will be deployed for {plan.name}"
    description = " ".join(_said(stack) for stack in deployed.stacks)
    svgs = tuple(_draw(variant, deployed, title, description) for variant in VARIANTS)
    return Chart(name="architecture", svgs=svgs)


def _said(stack: Stack) -> str:
    parts = listed([f"{part.title}{' (there already)' if part.is_there else ''}" for part in stack.parts])
    return f"{f'Stack {stack.name}' if stack.name else 'There already'}: {parts}."


@dataclass(slots=True)
class _Canvas:
    """Elements of a drawing, in the order in which they are painted."""

    elements: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, *, raised: bool, dashed: bool = False) -> None:
        fill, corner = ("--surface", 6) if raised else ("--band", 10)
        stroke = "stroke: var(--muted); stroke-dasharray: 4 3" if dashed else "stroke: var(--rule)"
        self.elements.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{corner}" '
            f'style="fill: var({fill}); {stroke}"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        bold: bool = False,
        mono: bool = False,
        color: str = "ink",
        end: bool = False,
    ) -> None:
        """Write one line from its left, or to its right end."""
        from markupsafe import escape

        kind = ' class="mono"' if mono else ""
        style = f"fill: var(--{color}); font-size: {FONT_PX:g}px" + ("; font-weight: 600" if bold else "")
        anchor = ' text-anchor="end"' if end else ""
        self.elements.append(f'<text{kind} x="{x:.1f}" y="{y:.1f}"{anchor} style="{style}">{escape(text)}</text>')

    def arrow(self, x: float, top: float, bottom: float, *, down: bool, up: bool) -> None:
        """Draw an arrow between two heights, with a head at either end."""
        start, end = top + (_HEAD - 2 if up else 0), bottom - (_HEAD - 2 if down else 0)
        self.elements.append(
            f'<path d="M {x:.1f} {start:.1f} V {end:.1f}" style="fill: none; stroke: var(--accent); stroke-width: 2"/>'
        )
        for wanted, tip, back in ((down, bottom, -_HEAD), (up, top, _HEAD)):
            if wanted:
                self.elements.append(
                    f'<path d="M {x:.1f} {tip:.1f} l -5.5 {back:g} h 11 z" style="fill: var(--accent)"/>'
                )


def _draw(variant: Variant, deployed: Deployment, title: str, description: str) -> str:
    canvas = _Canvas()
    lake, hot = deployed.stack("lake"), deployed.stack("hot")
    network, compute, monitoring = (deployed.stack(place) for place in ("network", "compute", "monitoring"))
    assert lake is not None and network is not None and compute is not None  # noqa: S101, PT018 - every deployment has these
    width = variant.width - 2
    y = _stack(canvas, variant, lake, 1, 1, width)
    direct = _both(deployed, "lake", "compute")
    if hot is None:
        y = _arrows(canvas, variant, direct, 1, y, width)
    else:
        lane = (262.0 if variant.is_wide else 132.0) if any(direct) else 0.0
        top = y
        y = _arrows(canvas, variant, _both(deployed, "lake", "hot"), 1, y, width - lane)
        y = _stack(canvas, variant, hot, 1, y, width - lane)
        y = _arrows(canvas, variant, _both(deployed, "hot", "compute"), 1, y, width - lane)
        if lane:
            y = _lane(canvas, direct, 1 + width - lane + 14, top, y, lane - 14)
    # Nodes stand in the network: their stack is drawn inside of it.
    nested = _stack_height(variant, compute, width - 2 * _PAD)
    y = _stack(canvas, variant, network, 1, y, width, extra=nested + _PAD)
    _stack(canvas, variant, compute, 1 + _PAD, y - _PAD - nested, width - 2 * _PAD)
    if monitoring is not None:
        y = _arrows(canvas, variant, ([Line("metrics")], []), 1, y, width)
        y = _stack(canvas, variant, monitoring, 1, y, width)
    return svg_element(
        "architecture",
        variant,
        title,
        description,
        width=variant.width,
        height=y + 1,
        inner="".join(canvas.elements),
        kind="drawing",
    )


def _both(deployed: Deployment, upper: Place, lower: Place) -> tuple[list[Line], list[Line]]:
    """Return what moves down and what moves up between two places."""

    def lines(flows: Sequence[Flow]) -> list[Line]:
        return [line for flow in flows for line in flow.lines]

    return lines(deployed.between(upper, lower)), lines(deployed.between(lower, upper))


def _wrapped(lines: Sequence[Line], room: float) -> list[tuple[str, Line]]:
    return [(text, line) for line in lines for text in wrap(line.text, room, mono=line.style == "name")]


def _write(canvas: _Canvas, lines: Sequence[tuple[str, Line]], x: float, y: float) -> float:
    """Write lines below a height; return where they end."""
    for text, line in lines:
        canvas.text(x, y + 13, text, mono=line.style == "name", color="muted" if line.style == "muted" else "ink")
        y += _LEADING
    return y


def _part_lines(part: Part, room: float) -> tuple[list[str], list[tuple[str, Line]]]:
    there = (Line("there already", "muted"),) if part.is_there else ()
    lines = (*there, *part.lines)
    return wrap(part.title, room, bold=True), _wrapped(_joined(lines) if room >= _ROOMY else lines, room)


def _joined(lines: Sequence[Line]) -> list[Line]:
    """Return lines of one style as one: a part across the whole drawing would be empty on its right."""
    return [
        Line(" · ".join(line.text for line in group), style) for style, group in groupby(lines, lambda line: line.style)
    ]


def _part_height(part: Part, width: float) -> float:
    titles, lines = _part_lines(part, width - 2 * _PAD)
    return (len(titles) + len(lines)) * _LEADING + 2 * _PAD - 4


def _part(canvas: _Canvas, part: Part, x: float, y: float, width: float, height: float) -> None:
    canvas.box(x, y, width, height, raised=True, dashed=part.is_there)
    titles, lines = _part_lines(part, width - 2 * _PAD)
    y += _PAD - 2
    for title in titles:
        canvas.text(x + _PAD, y + 13, title, bold=True)
        y += _LEADING
    _write(canvas, lines, x + _PAD, y)


def _heading(stack: Stack) -> str:
    return stack.name or {"lake": "Data lake", "hot": "Hot tier", "network": "Network"}.get(stack.place, stack.place)


def _heading_lines(variant: Variant, stack: Stack, width: float) -> tuple[list[str], str, bool]:
    """Return the name in lines, how long it lives, and whether that stands in the same line."""
    life = stack.life if stack.name else "no stack: nothing is made"
    room = width - 2 * _PAD
    beside = text_width(_heading(stack), bold=True, mono=True) + text_width(life) + 16 <= room
    return wrap(_heading(stack), room, bold=True, mono=True), life, beside and variant.is_wide


def _columns(variant: Variant, stack: Stack, width: float) -> int:
    most = int((width - _PAD) // 218) if variant.is_wide else 1
    return max(1, min(len(stack.parts), most))


def _rows(variant: Variant, stack: Stack, width: float) -> tuple[float, list[tuple[float, list[Part]]]]:
    """Return the width of a part, and the rows of parts with their height."""
    columns = _columns(variant, stack, width)
    each = (width - 2 * _PAD - (columns - 1) * _GAP) / columns
    rows = [list(stack.parts[start : start + columns]) for start in range(0, len(stack.parts), columns)]
    return each, [(max(_part_height(part, each) for part in row), row) for row in rows]


def _stack_height(variant: Variant, stack: Stack, width: float, extra: float = 0.0) -> float:
    names, _, beside = _heading_lines(variant, stack, width)
    _, rows = _rows(variant, stack, width)
    heading = (len(names) + (0 if beside else 1)) * _LEADING + _PAD
    return heading + sum(height + _GAP for height, _ in rows) + _PAD - _GAP + 6 + extra


def _stack(
    canvas: _Canvas, variant: Variant, stack: Stack, x: float, y: float, width: float, extra: float = 0.0
) -> float:  # fmt: skip
    """Draw a stack with its parts and room for more; return where it ends."""
    height = _stack_height(variant, stack, width, extra)
    canvas.box(x, y, width, height, raised=False, dashed=stack.name is None)
    names, life, beside = _heading_lines(variant, stack, width)
    line = y + _PAD
    for name in names:
        canvas.text(x + _PAD, line + 12, name, bold=True, mono=stack.name is not None)
        line += _LEADING
    if beside:
        canvas.text(x + width - _PAD, line + 12 - _LEADING, life, color="muted", end=True)
    else:
        canvas.text(x + _PAD, line + 12, life, color="muted")
        line += _LEADING
    line += 6
    each, rows = _rows(variant, stack, width)
    for row_height, row in rows:
        for index, part in enumerate(row):
            _part(canvas, part, x + _PAD + index * (each + _GAP), line, each, row_height)
        line += row_height + _GAP
    return y + height


def _arrows(
    canvas: _Canvas, variant: Variant, moved: tuple[list[Line], list[Line]], x: float, y: float, width: float
) -> float:  # fmt: skip
    """Draw what moves between two bands: an arrow each way, or on a small screen one with two heads."""
    down, up = moved
    if not down and not up:
        return y + 20
    if variant.is_wide or not (down and up):
        sides = [(lines, is_down) for lines, is_down in ((down, True), (up, False)) if lines]
        each = width / len(sides)
        texts = [_wrapped(lines, each - 62) for lines, _ in sides]
        height = max(44.0, max(len(text) for text in texts) * _LEADING + 20)
        for index, (text, (_, is_down)) in enumerate(zip(texts, sides, strict=True)):
            left = x + index * each + 30
            canvas.arrow(left, y + 3, y + height - 3, down=is_down, up=not is_down)
            _write(canvas, text, left + 16, y + (height - len(text) * _LEADING) / 2)
        return y + height
    lines = [
        *(Line(f"\u2193 {line.text}", line.style) for line in down),
        *(Line(f"\u2191 {line.text}", line.style) for line in up),
    ]
    text = _wrapped(lines, width - 46)
    height = max(44.0, len(text) * _LEADING + 20)
    canvas.arrow(x + 20, y + 3, y + height - 3, down=True, up=True)
    _write(canvas, text, x + 36, y + (height - len(text) * _LEADING) / 2)
    return y + height


def _lane(
    canvas: _Canvas, moved: tuple[list[Line], list[Line]], x: float, top: float, bottom: float, width: float
) -> float:  # fmt: skip
    """Draw what passes the hot tier; return where the lower band begins: lower where the text needs it."""
    down, up = moved
    lines = _wrapped([*down, *up], width - 20)
    bottom = max(bottom, top + len(lines) * _LEADING + 20)
    canvas.arrow(x + 4, top + 3, bottom - 3, down=bool(down), up=bool(up))
    _write(canvas, lines, x + 18, top + (bottom - top - len(lines) * _LEADING) / 2)
    return bottom
