"""YAML text to data: what is not read is refused with its line, and nothing ever raises anything else."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training_storage.errors import Problem, WorkloadError
from training_storage.workload.source import MAX_BYTES, LineMap, read_text, read_yaml, resolve


def refused(text: str) -> tuple[Problem, ...]:
    """Return what is wrong with a text, whether or not the rest can be read."""
    try:
        return read_yaml(text, "w.yaml")[2]
    except WorkloadError as error:
        return error.problems


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", None, "is empty"),
        ("# only a comment\n", None, "is empty"),
        ("- a\n- b\n", 1, "is a list"),
        ("llama\n", 1, "is a single value"),
        ("a: 1\nb: [1, 2\nc: 3\n", 3, "is not YAML"),
        ("a: 1\n  b: 2\n", 2, "is not YAML"),
        ("a: 'x\n", 2, "is not YAML"),
        ("a:\n\tb: 1\n", 2, "has a tab"),
        ("a: 1\nb: \x01\n", 2, "has a control character"),
        ("a: 1\nb: 2\na: 3\n", 3, "is given twice"),
        ("a: {b: 1,\n b: 2}\n", 2, "is given twice"),
        ("a: 1\nb: &x 2\n", 2, "sets an anchor"),
        ("a: *x\n", 1, "uses an alias"),
        ("a: 1\n<<: {b: 2}\n", 2, "is a merge key"),
        ("a: !!int 3\n", 1, "has a tag"),
        ("a: !!python/object:os.system x\n", 1, "has a tag"),
        ("a: 1\n---\nb: 2\n", 2, "has a second document"),
        ("a: 1\n? [b, c]\n: 2\n", 2, "has a mapping or a list as a key"),
        ("a: 1\nb:\nc: 3\n", 2, "has no value"),
        ("a: 1\nb: ~\n", 2, "has no value"),
        ("a:\n  -\n  - 1\n", 2, "has no value"),
        ("a: " + "[" * 40 + "\n", 1, "is nested too deeply"),
        ("a: [" + "1, " * 30_000 + "1]\n", 1, "has too many entries"),
        ("a" * (MAX_BYTES + 1), None, "is too large"),
        ("%YAML 9.9\n---\na: 1\n", 1, "is not YAML"),
    ],
)
def test_what_is_not_read_is_refused_with_its_line(text: str, line: int | None, what: str) -> None:
    first = refused(text)[0]
    assert first.what.startswith(what)
    assert (first.file, first.line) == ("w.yaml", line)


def test_several_problems_of_the_text_come_at_once() -> None:
    assert [problem.line for problem in refused("a: &x 1\na: 2\nb:\n")] == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # YAML 1.2.2, section 10.3.2: the core schema.
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("True", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("70e9", 70e9),
        ("1_000", "1_000"),
        ("012", 12),
        ("0o17", 15),
        ("0x1F", 31),
        ("-3", -3),
        ("+.5", 0.5),
        ("1.", 1.0),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("2026-12-01", "2026-12-01"),
        ("1e999", math.inf),
        ("1.2.3", "1.2.3"),
        ("9" * 5000, "9" * 5000),
        ("", None),
    ],
)
def test_plain_scalars_follow_the_core_schema(text: str, value: object) -> None:
    assert resolve(text) == value


def test_not_a_number_is_one() -> None:
    assert math.isnan(float(resolve(".nan") or 0))


def test_quotes_make_text() -> None:
    assert read_yaml("a: '1'\nb: \"true\"\nc: ''\n", "w")[0] == {"a": "1", "b": "true", "c": ""}


def test_block_scalars_and_nested_lists_are_read() -> None:
    data, lines, _ = read_yaml("a: |\n  one\n  two\nb:\n  - {c: [x, y]}\n", "w")
    assert data == {"a": "one\ntwo\n", "b": [{"c": ["x", "y"]}]}
    assert lines.lines["b[0].c[1]"] == 5


def test_line_map_falls_back_to_the_nearest_field_above() -> None:
    lines = read_yaml("name: x\nlustre:\n  links:\n    - path: /a\n", "w.yaml")[1]
    assert [
        lines.line(path) for path in ("lustre.links[0].path", "lustre.links[0].source", "lustre.links[3].path")
    ] == [4, 4, 3]
    assert [lines.line(path) for path in ("lustre.efa", "compute.efa", "", "name")] == [2, 1, 1, 1]


def test_line_map_of_nothing_knows_no_line() -> None:
    assert LineMap("w").line("compute.efa") is None


def test_line_map_locates_problems_and_shows_values_as_written() -> None:
    lines = read_yaml("name: x\nlustre:\n  storage_capacity: 3600 GiB\n", "w.yaml")[1]
    (found,) = lines.locate([Problem(what="no capacity", path="lustre.storage_capacity", value=3600)])
    assert (found.file, found.line, found.value) == ("w.yaml", 3, "3600 GiB")


def test_line_map_leaves_problems_alone_that_have_a_place() -> None:
    placed = Problem(what="x", path="name", file="other.yaml", line=9)
    assert read_yaml("name: x\n", "w.yaml")[1].locate([placed]) == (placed,)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="there is no such file"):
        read_text(tmp_path / "no.yaml")


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="is a folder"):
        read_text(tmp_path)


def test_file_name_that_no_system_takes() -> None:
    with pytest.raises(WorkloadError, match="cannot be read"):
        read_text("a\0b.yaml")


def test_text_in_another_encoding_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_bytes("name: x\nregion: münchen\n".encode("latin-1"))
    with pytest.raises(WorkloadError) as caught:
        read_text(file)
    assert caught.value.problems[0].line == 2
    assert "UTF-8" in caught.value.problems[0].what


def test_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_bytes(b"\xef\xbb\xbfname: x\n")
    assert read_text(file) == "name: x\n"


def test_huge_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(WorkloadError, match="too large"):
        read_text(file)


@given(st.one_of(st.text(max_size=60), st.text("ab:-[]{}&*!|>'\"%@`#,?~\\ \n\t0.1<=", max_size=40)))
@settings(max_examples=300, deadline=None)
def test_any_text_is_data_or_our_error(text: str) -> None:
    try:
        data: object = read_yaml(text, "w.yaml")[0]
    except WorkloadError as error:
        data = error
    assert data.problems if isinstance(data, WorkloadError) else isinstance(data, dict)
