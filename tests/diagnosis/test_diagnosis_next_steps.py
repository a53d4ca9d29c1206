"""Next steps can be done: commands are those of the command line, and keys those of the workload file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.diagnosis.causes import CAUSES, observed
from training_storage.cli.app import COMMANDS, _Parser
from training_storage.operations.diagnosis.diagnose import diagnose
from training_storage.workload import load_workload

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted((ROOT / "docs" / "alarms").glob("*.md")),
    ROOT / "docs" / "monitoring.md",
    ROOT / "docs" / "diagnosis.md",
]
_KEY = re.compile(
    r"((?:dataset|lustre|checkpoints|compute|mountpoint|lifecycle|hot_tier|monitoring)[a-z_.]*)(?:: (.+))?"
)


def _quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text.replace("\n", " "))


@cache
def advised() -> tuple[str, ...]:
    """Every next step of every planted cause, also where the plan is another one."""
    plans: tuple[dict[str, Any], ...] = (
        {}, {"hot": "none"}, {"hot": "express"}, {"hot": "none", "file_access": "s3-files"},
        {"efa": False}, {"asynchronous": True}, {"write_mb_per_s": 10.0},
    )  # fmt: skip
    found = set()
    for name in CAUSES:
        seen = observed(name, "strong")
        assert seen.expected is not None
        for plan in (None, *(replace(seen.expected, **each) for each in plans)):
            verdict = diagnose(replace(seen, expected=plan))
            found |= {each.next_step for each in (verdict.primary, *verdict.also) if each is not None}
    return tuple(sorted(found))


def commands() -> Iterator[str]:
    for text in (*advised(), *(page.read_text(encoding="utf-8") for page in PAGES)):
        yield from (each for each in _quoted(text) if each.startswith("training-storage "))


def parse(command: str) -> None:
    name, *rest = shlex.split(command)[1:]
    parser = _Parser(prog=name)
    import_module(f"training_storage.cli.{name}").add_arguments(parser)
    parser.parse_args(rest)


def test_commands_that_are_advised_are_those_of_the_command_line() -> None:
    told = sorted(set(commands()))
    assert len(told) > 5
    for each in told:
        name, *rest = shlex.split(each)[1:]
        assert name in COMMANDS, each
        if rest and rest != ["NAME"]:
            parse(each)


def keys() -> dict[str, str | None]:
    return {
        found[1]: found[2]
        for text in (*advised(), *(page.read_text(encoding="utf-8") for page in PAGES))
        for each in _quoted(text)
        if (found := _KEY.fullmatch(each)) and not each.endswith((".md", ".py"))
    }


@pytest.mark.parametrize("key", sorted(keys()))
def test_keys_that_are_advised_are_taken_by_the_workload_file(key: str, tmp_path: Path) -> None:
    given = keys()[key]
    example = "object-native-2048" if key.startswith("mountpoint") else "llama3-70b"
    whole = YAML(typ="safe").load(ROOT / "examples" / f"{example}.yaml")
    *folders, last = key.split(".")
    place = whole
    for each in folders:
        place = place.setdefault(each, {})
    if given is None:
        documented = (ROOT / "docs" / "workload-file.md").read_text(encoding="utf-8")
        assert re.search(rf"`(?:{re.escape(key)}|{re.escape(last)})`", documented), key
        return
    value = YAML(typ="safe").load(given)
    place[last] = {**place.get(last, {}), **value} if isinstance(value, dict) and key != "dataset.read_rate" else value
    path = tmp_path / "workload.yaml"
    YAML(typ="safe").dump(whole, path)
    load_workload(path)
