"""The pages of docs: every key, id and table of the code is there, nothing else is, and what is linked exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from training_storage.catalog import default_catalog, load_catalog
from training_storage.catalog.shapes import SHAPES
from training_storage.cli.app import COMMANDS
from training_storage.planner import plan
from training_storage.workload import load_workload
from training_storage.workload.model import Workload
from training_storage.workload.section import Section

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "constructs" / "training_storage"
PAGES = sorted([*DOCS.rglob("*.md"), *(ROOT / name for name in ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"))])
MY_FACTS = ROOT / "examples" / "catalog" / "my-facts.yaml"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """Return the cells of every table row but heads and rules."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_to_files(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_exist(path: Path) -> None:
    named = set(re.findall(r"training-storage ([a-z]+)\b", path.read_text(encoding="utf-8")))
    assert named <= set(COMMANDS)


# The workload file


def sections(section: type[Section], path: str = "") -> Iterator[tuple[str, type[Section]]]:
    yield path or "top level", section
    for key, name in section.keys().items():
        inner = section.fields[name].section
        if inner is not None:
            yield from sections(inner, f"{path}.{key}".lstrip("."))


def parts(text: str) -> dict[str, dict[str, str]]:
    """Return the default of each key by its section."""
    found = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return {
        name: {row[0].strip("` "): row[1] for row in rows(body)}
        for name, body in zip(found[::2], found[1::2], strict=True)
        if name[0].islower()  # the others are prose with tables of their own
    }


def test_the_workload_page_has_every_key_and_no_other() -> None:
    said = {name: list(keys) for name, keys in parts(page("workload-file.md")).items()}
    assert said == {path: list(section.keys()) for path, section in sections(Workload)}


@pytest.mark.parametrize("path", dict(sections(Workload)))
def test_the_workload_page_has_the_defaults_of_the_model(path: str) -> None:
    section, said = dict(sections(Workload))[path], parts(page("workload-file.md"))[path]
    for key, name in section.keys().items():
        field, text = section.fields[name], said[key]
        if field.make is None:
            assert text == "required", key
        elif isinstance(field.make(), Section):
            assert not text.startswith("`"), key
        elif field.make() is None:
            assert text == "–", key
        else:
            value = YAML(typ="safe").load(text.strip("`"))
            given = str(text.strip("`")) if isinstance(field.make(), str) else value
            assert field.read(given) == field.make(), key


# Warnings


def planned_warnings() -> set[str]:
    """Ids of the planner: the first argument of each call of ``warn`` that is text."""
    calls = [
        node
        for file in (PACKAGE / "planner").glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "warn"
    ]
    assert calls
    first = [call.args[0] for call in calls]
    assert all(isinstance(each, ast.Constant) for each in first), "an id is written where it is used"
    return {each.value for each in first if isinstance(each, ast.Constant) and isinstance(each.value, str)}


def construct_warnings() -> set[str]:
    texts = [
        node.value
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return {text for text in texts if re.fullmatch(r"training_storage:[A-Za-z0-9.]+", text)}


def test_the_page_of_warnings_has_every_id_and_no_other() -> None:
    listed = [row[0].strip("` ") for row in rows(page("warnings.md"))]
    assert len(listed) == len(set(listed))
    assert set(listed) == planned_warnings() | construct_warnings()


def test_every_warning_says_when_and_what_to_do() -> None:
    assert all(len(row) == 3 and row[1] and row[2].endswith((".", ". |")) for row in rows(page("warnings.md")))


# The bootstrap


def scripts() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((PACKAGE / "node/bootstrap").glob("*.sh")))


def test_the_page_of_the_bootstrap_has_every_key_of_the_status_and_no_other() -> None:
    text = page("bootstrap.md")
    table = text[text.index("| key | says |") : text.index("## When it fails")]
    said = {name for row in rows(table) for name in re.findall(r"`([a-z_]+)`", row[0])}
    assert said == set(re.findall(r"^ *status ([a-z_]+) ", scripts(), re.MULTILINE))


def test_the_messages_of_the_page_are_those_of_the_scripts() -> None:
    text = page("bootstrap.md")
    messages = [row[0].strip("` ") for row in rows(text[text.index("## When it fails") :])]
    assert messages
    for message in messages:
        for part in message.split(" ... "):
            assert part in scripts(), message


def test_the_places_of_the_page_are_those_of_the_scripts() -> None:
    for place in (
        "/var/lib/training-storage/status.json",
        "/var/log/training-storage.log",
        "/etc/training-storage/env",
    ):
        assert place in page("bootstrap.md")
        assert place in scripts()


# The catalog


def test_the_page_of_the_catalog_has_every_table_with_its_fields() -> None:
    said = {row[0].strip("` "): re.findall(r"`([a-z_0-9]+)`", row[-1]) for row in rows(page("catalog.md"))}
    assert said == {table: list(shape.model_fields) for table, shape in SHAPES.items()}


def test_the_page_of_the_catalog_shows_the_example_as_it_is() -> None:
    assert MY_FACTS.read_text(encoding="utf-8") in page("catalog.md")


def test_the_example_changes_what_it_gives_and_adds_what_is_new() -> None:
    mine, default = load_catalog(MY_FACTS), default_catalog()
    price = mine.prices.price("lustre.PERSISTENT_2.SSD.1000", "us-east-1")
    assert price is not None
    assert (price.usd, price.source.trust) == (0.58, "user")
    assert set(mine.instance_types) - set(default.instance_types) == {"p9.48xlarge"}
    known = default.instance_types["p5en.48xlarge"]
    assert mine.instance_types["p5en.48xlarge"] == replace(known, mountpoint_gbps=90)


def test_a_new_type_of_the_example_is_planned_like_any_other(tmp_path: Path) -> None:
    catalog = load_catalog(MY_FACTS)
    file = tmp_path / "run.yaml"
    file.write_text(
        "name: run\nregion: us-east-1\navailability_zone_id: use1-az6\n"
        "compute: {instance_type: p9.48xlarge, instance_count: 32, image: ami-0123456789abcdef0}\n"
        "dataset: {size: 20 TB, read_rate: {per_accelerator: 60 MB/s}}\n",
        encoding="utf-8",
    )
    answer = plan(load_workload(file, catalog=catalog), catalog=catalog)
    assert answer.accelerators == 256
    assert answer.tiers.hot == "lustre"


# Field reports


def test_every_field_report_that_is_named_anywhere_is_on_the_page_with_a_test() -> None:
    listed = [int(number) for number in re.findall(r"^\| (\d+) \|", page("field-reports.md"), re.MULTILINE)]
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.sh"), *(ROOT / "tests").rglob("*.py"), *DOCS.rglob("*.md")]
    texts = "\n".join(path.read_text(encoding="utf-8") for path in files)
    tested = {int(number) for number in re.findall(r"def test_report_(\d+)_", texts)}
    named = {int(number) for number in re.findall(r"[Ff]ield reports? (\d+)", texts)}
    named |= {int(number) for number in re.findall(r"[Ff]ield reports \d+ (?:and|to) (\d+)", texts)}
    assert listed == sorted(set(listed))
    assert set(listed) == tested
    assert named <= tested


def test_every_field_report_has_its_threads() -> None:
    table = [line for line in page("field-reports.md").splitlines() if re.match(r"\| \d", line)]
    assert table
    assert all("](https://" in line for line in table)
