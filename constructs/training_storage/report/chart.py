"""What all charts share: sizes, colours of the page, and SVG that stays text, is the same every time and needs no ids.

matplotlib writes colours as hex numbers. Each colour of the page has a number that is used for nothing else, which is
replaced by the CSS variable afterwards: one drawing then serves light, dark and print.
"""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from training_storage.report.words import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK: Final = "#a1b2c1"
MUTED: Final = "#a1b2c2"
RULE: Final = "#a1b2c3"
ACCENT: Final = "#a1b2c4"
NEUTRAL: Final = "#a1b2c5"
ALARM: Final = "#a1b2c6"
SURFACE: Final = "#a1b2c7"

_VARIABLES: Final = {
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
    ACCENT: "--accent",
    NEUTRAL: "--neutral",
    ALARM: "--alarm",
    SURFACE: "--surface",
}

FONT_PX: Final = 13.0
"""Text of a chart. A wide one is shown at 0.87 of its size or more, a narrow one at 0.9 or more: 11 px stay."""

_POINTS_PER_INCH: Final = 72
"""The SVG backend writes points; a page that takes them as pixels has figures of this many pixels an inch."""

_SVG: Final = "{http://www.w3.org/2000/svg}"
_LINK: Final = "{http://www.w3.org/1999/xlink}href"
_REFERENCE: Final = re.compile(r"url\(#([^)]+)\)")
_FAMILY: Final = re.compile(r"\s*font-family:[^;]*;?")
_HEX: Final = re.compile("|".join(_VARIABLES))


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the two drawings of a chart; the style sheet shows the one that fits the screen.

    Attributes:
        name: ``wide`` or ``narrow``.
        width: Width of the drawing in pixels.
    """

    name: str
    width: float

    @property
    def is_wide(self) -> bool:
        """Whether it is the one for large screens and for paper."""
        return self.name == "wide"


VARIANTS: Final = (Variant("wide", 820.0), Variant("narrow", 350.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart as the page takes it.

    Attributes:
        name: Stem of its ids.
        svgs: One ``<svg>`` element for each variant.
    """

    name: str
    svgs: tuple[str, ...]


def chart(name: str, title: str, description: str, draw: Callable[[Variant], Figure]) -> Chart:
    """Return a chart in both variants.

    Args:
        name: Stem of its ids; unique in the page.
        title: What it shows, for those who do not see it.
        description: What there is to learn from it, likewise.
        draw: Draws one variant.
    """
    with _settings():
        svgs = tuple(_svg(draw(variant), name, variant, title, description) for variant in VARIANTS)
    return Chart(name=name, svgs=svgs)


def figure(variant: Variant, height: float) -> Figure:
    """Return an empty figure of a variant's width.

    Args:
        variant: The variant.
        height: Pixels.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    made = Figure(figsize=(variant.width / _POINTS_PER_INCH, height / _POINTS_PER_INCH), dpi=_POINTS_PER_INCH)
    FigureCanvasSVG(made)
    return made


def axes(made: Figure, *, left: float, right: float, top: float, bottom: float) -> Axes:
    """Return axes with margins in pixels, without a frame.

    Args:
        made: The figure.
        left: Margin on the left.
        right: Margin on the right.
        top: Margin above.
        bottom: Margin below.
    """
    width, height = (side * _POINTS_PER_INCH for side in made.get_size_inches())
    place = (left / width, bottom / height, (width - left - right) / width, (height - top - bottom) / height)
    plot = made.add_axes(place)
    for spine in plot.spines.values():
        spine.set_visible(False)
    plot.tick_params(length=0, pad=6)
    plot.tick_params(axis="x", pad=10)  # clear of the lowest label of the other axis
    plot.set_axisbelow(True)
    return plot


def text_width(text: str, size: float = FONT_PX, *, bold: bool = False, mono: bool = False) -> float:
    """Return how wide a text is, pixels, in DejaVu: one of the widest fonts that a page is shown in.

    Args:
        text: One line.
        size: Pixels.
        bold: Whether it is bold.
        mono: Whether all letters have one width.
    """
    return size * sum(_letter_width(letter, bold, mono) for letter in text)


@lru_cache(maxsize=4096)
def _letter_width(letter: str, bold: bool, mono: bool) -> float:
    """Return the width of one letter in a font of size 1. Kerning, which draws letters together, is left out."""
    import unicodedata

    import matplotlib
    from matplotlib.font_manager import FontProperties, get_font
    from matplotlib.textpath import text_to_path

    file = f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans{'Mono' if mono else ''}{'-Bold' if bold else ''}.ttf"
    if not get_font(file).get_char_index(ord(letter)):
        # Another font of the reader's has it: as wide as a square where its script is written in such, and a mark that
        # stands over another letter takes no room.
        return 0.0 if unicodedata.combining(letter) else 1.0
    font = FontProperties(fname=file, size=100)
    # A blank has no width of its own for matplotlib: between two letters it has.
    around, _, _ = text_to_path.get_text_width_height_descent(f"x{letter}x", font, ismath=False)
    alone, _, _ = text_to_path.get_text_width_height_descent("xx", font, ismath=False)
    return float(around - alone) / 100


def wrap(text: str, room: float, size: float = FONT_PX, *, bold: bool = False, mono: bool = False) -> list[str]:
    """Return a text in lines that fit; a word that does not fit alone is broken.

    Args:
        text: The text.
        room: Pixels of a line.
        size: Pixels.
        bold: Whether it is bold.
        mono: Whether all letters have one width.
    """

    def fits(line: str) -> bool:
        return text_width(line, size, bold=bold, mono=mono) <= room

    lines: list[str] = []
    line = ""
    for word in visible(text).split():
        joined = f"{line} {word}" if line else word
        if fits(joined):
            line = joined
            continue
        if line:
            lines.append(line)
        line = word
        while not fits(line) and len(line) > 1:
            head = _break(line, fits)
            lines.append(head)
            line = line[len(head) :]
    return [*lines, line] if line or not lines else lines


def _break(word: str, fits: Callable[[str], bool]) -> str:
    """Return the start of a word that fits: up to a hyphen, slash or dot where one is near, else by the letter."""
    end = next(length for length in range(len(word) - 1, 0, -1) if length == 1 or fits(word[:length]))
    seam = max(word.rfind(mark, 0, end) for mark in "-/._")
    return word[: seam + 1] if seam >= end // 2 else word[:end]


@contextmanager
def _settings() -> Iterator[None]:
    """Draw with the settings of matplotlib itself and not with those of a user's file, and leave none behind."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.fonttype": "none",
                "svg.hashsalt": "training-storage",
                "font.size": FONT_PX,
                "text.color": INK,
                "text.parse_math": False,  # a dollar sign of a name is a dollar sign
                "axes.edgecolor": RULE,
                "axes.labelcolor": MUTED,
                "axes.facecolor": "none",
                "figure.facecolor": "none",
                "grid.color": RULE,
                "grid.linewidth": 1.0,
                "xtick.labelcolor": MUTED,
                "ytick.labelcolor": MUTED,
                "hatch.linewidth": 1.4,
            }
        )
        yield


def _svg(made: Figure, name: str, variant: Variant, title: str, description: str) -> str:
    out = io.BytesIO()
    made.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    root = ET.fromstring(out.getvalue())  # noqa: S314 - written by matplotlib a line above
    _clean(root, f"{name}-{variant.name}-")
    inner = "".join(ET.tostring(child, encoding="unicode") for child in root)
    return svg_element(
        name, variant, title, description, width=variant.width, height=float(root.get("viewBox", "0 0 0 0").split()[3]),
        inner=inner, kind="plot",
    )  # fmt: skip


def svg_element(
    name: str, variant: Variant, title: str, description: str, *, width: float, height: float, inner: str, kind: str
) -> str:
    """Return a whole ``<svg>`` element that says what it shows.

    Args:
        name: Stem of its ids.
        variant: Which drawing it is.
        title: What it shows.
        description: What there is to learn from it.
        width: Pixels.
        height: Pixels.
        inner: Its content, markup.
        kind: ``plot`` or ``drawing``, for the style sheet.
    """
    from markupsafe import escape

    own = f"{name}-{variant.name}"
    return (
        f'<svg class="chart {kind} {variant.name}" id="{own}" role="img" aria-labelledby="{own}-title {own}-desc" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">'
        f'<title id="{own}-title">{escape(title)}</title><desc id="{own}-desc">{escape(description)}</desc>'
        f"{inner}</svg>"
    )


def _clean(root: ET.Element, prefix: str) -> None:
    """Take colours and fonts from the page, keep only ids that are referred to, and make those unique in the page."""
    used = {
        match
        for element in root.iter()
        for value in element.attrib.values()
        for match in [*_REFERENCE.findall(value), *([value[1:]] if value.startswith("#") else [])]
    }
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{_SVG}style":  # it would hold for the whole page; page.css says the same of charts
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.tail = None
        if element.tag != "text":
            element.text = None
        identity = element.attrib.pop("id", None)
        if identity in used:
            element.set("id", f"{prefix}{identity}")
        link = element.attrib.pop(_LINK, None)
        if link is not None:
            element.set("href", f"#{prefix}{link[1:]}")
        if "d" in element.attrib:
            element.set("d", " ".join(element.attrib["d"].split()))
        style = _FAMILY.sub("", element.attrib.pop("style", ""))
        for key in ("fill", "stroke"):
            if element.get(key) in _VARIABLES:  # an attribute takes no variable, a style does
                style = f"{style}; {key}: {element.attrib.pop(key)}"
        if style.strip("; "):
            element.set("style", _HEX.sub(lambda hit: f"var({_VARIABLES[hit[0]]})", style).strip("; "))
        for key, value in element.attrib.items():
            element.attrib[key] = _REFERENCE.sub(rf"url(#{prefix}\1)", value)
