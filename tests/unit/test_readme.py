"""The README is followed word by word: its files, its commands, its code, the names it uses."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.assemblies import EXAMPLES, example, synthesize

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^ *```(\w+)\n(.*?)^ *```", README, re.MULTILINE | re.DOTALL)
REST = "…"


def blocks(language: str) -> list[str]:
    return [body for kind, body in BLOCKS if kind == language]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder with the files that the README says to save."""
    made = tmp_path_factory.mktemp("newcomer")
    for name, text in zip(("first.yaml", "broken.yaml"), blocks("yaml"), strict=True):
        (made / name).write_text(text, encoding="utf-8")
    return made


@pytest.mark.parametrize("block", blocks("console"), ids=lambda block: block.splitlines()[0][2:])
def test_console_blocks_print_what_they_show(block: str, folder: Path) -> None:
    command, *shown = block.splitlines()
    assert command.startswith("$ training-storage ")
    done = subprocess.run(
        [sys.executable, "-m", "training_storage", *shlex.split(command)[2:]],
        cwd=folder, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "100"},
    )  # fmt: skip
    printed = (done.stdout + done.stderr).splitlines()
    if shown[-1] == REST:
        shown = shown[:-1]
        printed = printed[: len(shown)]
    assert printed == shown


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_python_blocks_run(number: int, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", blocks("python")[number]],
        cwd=folder, capture_output=True, text=True, check=False, env=os.environ | {"CDK_VALIDATION": "false"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_output_that_the_readme_names_exists(folder: Path) -> None:
    known, of_other_tiers = (
        {key for made in some for template in made.templates.values() for key in template.get("Outputs", {})}
        for some in ([synthesize(folder / "first.yaml")], [example(name) for name in EXAMPLES])
    )
    in_commands = set(re.findall(r"\$([A-Z]\w+)", "\n".join(blocks("bash")))) - {"TRAINING_STORAGE_CHECKPOINTS"}
    in_table = {
        name for row in README.splitlines() if row.startswith("| `first-") for name in re.findall(r"`([A-Z]\w+)`", row)
    }
    assert in_commands
    assert in_commands <= known
    assert in_table <= known | of_other_tiers


def test_every_stack_that_the_readme_names_exists(folder: Path) -> None:
    named = set(re.findall(r"\bfirst-[a-z]+\b", README))
    assert named == set(synthesize(folder / "first.yaml").templates)


def test_every_subcommand_that_the_readme_names_exists() -> None:
    from training_storage.cli.app import COMMANDS

    named = set(re.findall(r"training-storage ([a-z]+)", README)) - {"emulator"}
    assert named <= set(COMMANDS)


def test_every_file_that_the_readme_links_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert [link for link in links if not (ROOT / link).exists()] == []
