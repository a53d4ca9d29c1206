"""The page of all rules, made from the registry: ``python -m training_storage.rules.page > docs/rules.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from training_storage.rules import ALL_RULES
from training_storage.rules.base import Rule

_HEAD: Final = """# Rules

What AWS allows, as the planner and the constructs check it. An error names the rule it comes from by its id; ids do not
change. This page is made from the code: `python -m training_storage.rules.page > docs/rules.md`.
"""


def rules_page(rules: Iterable[Rule[Any]] = ALL_RULES) -> str:
    """Return the page as Markdown: one table for each room, in the order of the registry."""
    lines = [_HEAD]
    for room, members in groupby(rules, key=lambda rule: rule.id.partition(".")[0]):
        lines += [f"## {room}\n", "| rule | what is right | why | source |", "|---|---|---|---|"]
        lines += [
            f"| `{rule.id}` | {_sentence(rule.statement)} | {_sentence(rule.reason)} | {_cell(rule.source)} |"
            for rule in members
        ]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def _sentence(text: str) -> str:
    cell = _cell(text)
    return cell[:1].upper() + cell[1:].removesuffix(".") + "."


if __name__ == "__main__":
    sys.stdout.write(rules_page())
