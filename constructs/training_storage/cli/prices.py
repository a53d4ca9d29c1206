"""``training-storage prices``: show the price book, or refresh it from the AWS Price List."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training_storage.cli.inputs import add_format_argument, region
from training_storage.cli.report import width

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from training_storage.catalog import Price, PriceBook
    from training_storage.operations.price_list import Price as Found
    from training_storage.operations.price_list import Refresh

HELP = """\
show      every row of a region: item, price, unit, trust, date and source; what is not known is said
refresh   ask the AWS Price List for a region, and write a catalog file that `plan --catalog` reads

A refresh needs the right pricing:GetProducts and nothing else. An item for which the price list has no
single price stays unknown, and is named with the reason. The file is written in one step at the end:
interrupting is safe.
"""
EXAMPLE = """\
example: training-storage prices show --region us-east-1
         training-storage prices refresh --region eu-central-1 --output prices.json
         training-storage plan my-run.yaml --catalog prices.json
"""
_SHOW = "show every row of a region"
_REFRESH = "write a catalog file with the prices of a region from the AWS Price List"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare both actions and their arguments."""
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    show = actions.add_parser("show", help=_SHOW, description=f"{_SHOW[:1].upper()}{_SHOW[1:]}.")
    show.add_argument("--region", type=region, default="us-east-1", help="region of the rows (default: us-east-1)")
    show.add_argument(
        "--catalog",
        metavar="FILE",
        type=_file,
        action="append",
        default=[],
        help="catalog file over the facts of the package; may be given several times, a later one wins",
    )
    add_format_argument(show)
    refresh = actions.add_parser(
        "refresh",
        help=_REFRESH,
        description=f"{_REFRESH[:1].upper()}{_REFRESH[1:]}. The caller needs pricing:GetProducts.\n"
        "Where AWS refuses, or the command is interrupted, nothing is written.",
    )
    refresh.add_argument("--region", type=region, required=True, help="region of the prices")
    refresh.add_argument(
        "--output",
        metavar="FILE",
        type=_file,
        help="catalog file to write, .json or .yaml; rows of other regions and rows of yours in it stay "
        "(default: prices-REGION.json)",
    )
    refresh.add_argument("--profile", help="profile of the AWS configuration")
    add_format_argument(refresh)


def _file(name: str) -> Path:
    from argparse import ArgumentTypeError

    if not name:
        raise ArgumentTypeError("the name is empty")
    return Path(name)


def run(arguments: argparse.Namespace) -> None:
    """Show the rows, or refresh and say what was found."""
    if arguments.action == "show":
        _show(arguments)
        return
    from training_storage.operations.aws import make_session
    from training_storage.operations.price_list import refresh_prices

    with _Progress(arguments.region, quiet=arguments.format == "json") as progress:
        result = refresh_prices(
            make_session(profile=arguments.profile),
            arguments.region,
            arguments.output or Path(f"prices-{arguments.region}.json"),
            on_question=progress.question,
        )
    if arguments.format == "json":
        print(json.dumps(_refresh_as_dict(result), indent=2, ensure_ascii=False))
    else:
        print(_refresh_as_text(result))


def _show(arguments: argparse.Namespace) -> None:
    from training_storage.catalog import load_catalog
    from training_storage.errors import RefusedError

    book = load_catalog(*arguments.catalog).prices
    rows = [book.rows[arguments.region, item] for item in book.items(arguments.region)]
    if not rows:
        known = ", ".join(dict.fromkeys(place for place, _ in book.rows))
        message = (
            f"the price book has no row of {arguments.region}, only of {known}; fix: training-storage prices refresh "
            f"--region {arguments.region}, and give the file with --catalog"
        )
        raise RefusedError(message)
    if arguments.format == "json":
        document = {"region": arguments.region, "currency": "USD", "prices": [_row_as_dict(row, book) for row in rows]}
        print(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        sys.stdout.write(_rows_as_text(rows, book, arguments.region))


def _row_as_dict(row: Price, book: PriceBook) -> dict[str, Any]:
    usd = book.usd(row.item, row.region)
    return {
        "item": row.item,
        "unit": row.unit,
        "usd": usd,
        "tiers": [{"above": tier.above, "usd": tier.usd} for tier in row.tiers],
        "remembered_usd": row.usd if usd is None else None,
        "trust": row.source.trust,
        "date": row.source.date,
        "source": row.source.text,
    }


def _rows_as_text(rows: list[Price], book: PriceBook, place: str) -> str:
    sources = list(dict.fromkeys((row.source.text, row.source.date, row.source.trust) for row in rows))
    lines = [f"Prices of {place} in USD, before taxes and discounts", ""]
    cells = [("item", "USD", "unit", "trust", "date", "source")]
    for row in rows:
        usd = book.usd(row.item, place)
        number = sources.index((row.source.text, row.source.date, row.source.trust)) + 1
        remembered = f" ({_number(row.usd)} remembered, not used)" if usd is None and row.usd is not None else ""
        price = f"unknown{remembered}" if usd is None else _number(usd)
        cells.append((row.item, price, row.unit, row.source.trust, row.source.date or "-", f"[{number}]"))
        cells.extend(("", _number(tier.usd), f"above {tier.above:,.10g}", "", "", "") for tier in row.tiers)
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    lines.extend(
        "  ".join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)).rstrip() for line in cells
    )
    lines.extend(("", "Sources"))
    for number, (text, _, _) in enumerate(sources, 1):
        lines.extend(_wrapped(f"[{number}] {text}", 4))
    return "\n".join(lines) + "\n"


def _number(usd: float) -> str:
    """Return a price in digits alone: 0.00003, not 3e-05."""
    return f"{usd:.10f}".rstrip("0").rstrip(".")


def _refresh_as_text(result: Refresh) -> str:
    import shlex

    file = shlex.quote(str(result.file))
    said = f"{file}: {_count(result.priced, 'price')} of {result.region}, from the AWS Price List ({result.endpoint})"
    lines = _wrapped(said, 2)
    if result.unknown:
        lines.append(f"{_count(result.unknown, 'item')} unknown, for these reasons:")
        lines.extend(_by_reason(result.unknown))
    if result.left:
        lines.append(f"{_count(result.left, 'item')} without an answer, for which the package has a price:")
        lines.extend(_by_reason(result.left))
    if result.kept:
        lines.extend(_wrapped(f"{_count(result.kept, 'row')} of yours left as before: {', '.join(result.kept)}", 2))
    return "\n".join((*lines, f"Use it: training-storage plan FILE --catalog {file}"))


def _count(things: Sequence[object], what: str) -> str:
    return f"{len(things)} {what}{'' if len(things) == 1 else 's'}"


def _by_reason(prices: Iterable[Found]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for price in prices:
        reasons.setdefault(price.source, []).append(price.item)
    return [line for reason, items in reasons.items() for line in _wrapped(f"  {reason}: {', '.join(items)}", 6)]


def _wrapped(text: str, indent: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width(), subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def _refresh_as_dict(result: Refresh) -> dict[str, Any]:
    return {
        "region": result.region,
        "endpoint": result.endpoint,
        "file": str(result.file),
        "priced": {price.item: price.to_row() for price in result.priced},
        "unknown": {price.item: price.source for price in result.unknown},
        "left": {price.item: price.source for price in result.left},
        "kept": list(result.kept),
    }


class _Progress:
    """A bar on a terminal; a line at the start elsewhere."""

    def __init__(self, place: str, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._place = place
        self._plain = not sys.stderr.isatty()
        self._quiet = quiet
        self._bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=Console(stderr=True), disable=quiet or self._plain, transient=True,
        )  # fmt: skip
        self._row = self._bar.add_task("asking the price list", total=None)

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._bar.stop()
        if isinstance(error, KeyboardInterrupt):
            print("stopped asking; no file was written", file=sys.stderr)

    def question(self, number: int, total: int, what: str) -> None:
        """Show what is asked now."""
        self._bar.update(self._row, description=f"asking for {what}", completed=number, total=total)
        if number == 0 and self._plain and not self._quiet:
            print(f"asking the AWS Price List for {self._place}: {total} questions", file=sys.stderr)
