"""Rules of links: count, form, overlap on both sides, events."""

from __future__ import annotations

import pytest

from training_storage.errors import Problem
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.links import (
    LINK_CONSTRUCT_PATHS,
    LINK_RULES,
    LINK_WORKLOAD_PATHS,
    LinkSettings,
    normalized_path,
    normalized_prefix,
    paths_overlap,
    prefixes_overlap,
)


def problems(*links: LinkSettings) -> tuple[Problem, ...]:
    return find_problems(LINK_RULES, links)


def at(*paths: str) -> tuple[LinkSettings, ...]:
    """Links at these paths, each to a prefix of its own."""
    return tuple(LinkSettings(path=path, bucket="lake", prefix=f"p{index}/") for index, path in enumerate(paths))


def to(*prefixes: str, buckets: tuple[str, ...] = ("lake", "lake")) -> tuple[LinkSettings, ...]:
    """Links to these prefixes, each at a path of its own."""
    return tuple(
        LinkSettings(path=f"/d{index}", bucket=buckets[index], prefix=prefix) for index, prefix in enumerate(prefixes)
    )


@pytest.mark.parametrize(
    ("path", "normal"),
    [("data", "/data"), ("/data/", "/data"), ("/data", "/data"), ("/", "/"), ("/a/b/", "/a/b"), ("a//b", "/a/b")],
)
def test_paths_have_one_form(path: str, normal: str) -> None:
    assert normalized_path(path) == normal


@pytest.mark.parametrize(
    ("prefix", "normal"), [("a", "a/"), ("a/", "a/"), ("/a/", "a/"), ("", ""), ("/", ""), ("a/b", "a/b/")]
)
def test_prefixes_have_one_form(prefix: str, normal: str) -> None:
    assert normalized_prefix(prefix) == normal


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        ("/data", "/data/train", True),
        ("/data/train", "/data", True),
        ("data", "/data/", True),
        ("/data", "/database", False),
        ("/", "/x", True),
        ("/a/b", "/a/c", False),
    ],
)
def test_paths_overlap_where_one_lies_in_the_other(first: str, second: str, overlap: bool) -> None:
    assert paths_overlap(first, second) is overlap


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [("a/", "ab/", False), ("a", "a/", True), ("a/", "a/b/", True), ("", "a/", True), ("a/b", "a/c", False)],
)
def test_prefixes_overlap_where_one_lies_in_the_other(first: str, second: str, overlap: bool) -> None:
    assert prefixes_overlap(first, second) is overlap


@pytest.mark.parametrize("count", range(1, 9))
def test_report_09_up_to_8_links_pass(count: int) -> None:
    assert problems(*at(*(f"/d{index}" for index in range(count)))) == ()


@pytest.mark.parametrize("count", [9, 12])
def test_report_09_more_links_fail_naming_8(count: int) -> None:
    (problem,) = problems(*at(*(f"/d{index}" for index in range(count))))
    assert problem.value == count
    assert "8" in problem.allowed


@pytest.mark.parametrize(("first", "second"), [("/data", "/data/train"), ("/data/train", "/data")])
def test_report_09_nested_paths_fail_naming_both(first: str, second: str) -> None:
    (problem,) = problems(*at(first, second))
    assert problem.rule == "links.paths-apart"
    assert first in problem.what
    assert second in problem.what


@pytest.mark.parametrize(("first", "second"), [("data", "/data/"), ("/data/", "/data"), ("data", "/data")])
def test_report_09_one_directory_in_three_spellings_is_the_same(first: str, second: str) -> None:
    (problem,) = problems(*at(first, second))
    assert "the same directory" in problem.what


@pytest.mark.parametrize("paths", [("/", "/x"), ("/x", "/"), ("/x", "/", "/y")])
def test_report_09_root_is_alone(paths: tuple[str, ...]) -> None:
    (problem,) = problems(*at(*paths))
    assert problem.rule == "links.root-alone"
    assert problem.path == f"links[{paths.index('/')}].path"


def test_report_09_root_alone_passes() -> None:
    assert problems(*at("/")) == ()


@pytest.mark.parametrize(("first", "second"), [("a/", "a/"), ("a", "/a/"), ("a/", "a/b/"), ("", "b/")])
def test_report_09_prefixes_of_one_bucket_stay_apart(first: str, second: str) -> None:
    (problem,) = problems(*to(first, second))
    assert problem.rule == "links.prefixes-apart"
    assert "s3://lake/" in problem.what


def test_report_09_prefixes_that_only_begin_alike_pass() -> None:
    assert problems(*to("a/", "ab/")) == ()


def test_the_same_prefix_of_two_buckets_passes() -> None:
    assert problems(*to("a/", "a/", buckets=("lake", "other"))) == ()


@pytest.mark.parametrize("path", ["", "  ", "/a//b", "/a/../b", "/a/./b", "/a\nb", "/" + "x" * 4096])
def test_paths_that_are_no_directory_fail(path: str) -> None:
    (problem,) = problems(*at(path))
    assert problem.rule == "links.path-form"


@pytest.mark.parametrize("prefix", ["a//b", "a/../b", "a\nb", "x" * 1024])
def test_prefixes_that_are_no_key_prefix_fail(prefix: str) -> None:
    (problem,) = problems(*to(prefix))
    assert problem.rule == "links.prefix-form"


@pytest.mark.parametrize("events", [(), ("new",), ("deleted", "new"), ("new", "changed", "deleted")])
def test_events_pass(events: tuple[str, ...]) -> None:
    assert problems(LinkSettings(import_events=events, export_events=events)) == ()


@pytest.mark.parametrize("events", [("new", "new"), ("NEW",), ("renamed", "new")])
@pytest.mark.parametrize("direction", ["import_events", "export_events"])
def test_other_events_fail_naming_the_direction(direction: str, events: tuple[str, ...]) -> None:
    link = LinkSettings(import_events=events) if direction == "import_events" else LinkSettings(export_events=events)
    (problem,) = problems(link)
    assert problem.path == f"links[0].{direction}"


@pytest.mark.parametrize(("size", "right"), [(0, False), (1, True), (512_000, True), (512_001, False)])
def test_chunk_sizes_end_at_both_borders(size: int, right: bool) -> None:  # FSx API, ImportedFileChunkSize
    assert (problems(LinkSettings(chunk_size_mib=size)) == ()) is right


def test_export_may_cross_regions() -> None:
    link = LinkSettings(export_events=("new",), bucket_region="eu-west-1", file_system_region="us-east-1")
    assert problems(link) == ()


def test_unknown_fields_break_nothing() -> None:
    assert problems(LinkSettings(), LinkSettings(), LinkSettings(path="/a"), LinkSettings(prefix="a/")) == ()


@pytest.mark.parametrize("names", [LINK_CONSTRUCT_PATHS, LINK_WORKLOAD_PATHS])
def test_every_path_of_the_tables_is_one_that_rules_name(names: dict[str, str]) -> None:
    fields = {"links", *(f"links[].{name}" for name in LinkSettings.__dataclass_fields__)}
    assert set(names) <= fields


def test_problems_are_said_in_the_words_of_a_workload_file() -> None:
    (problem,) = relabel(problems(*to("a/", "a/b/")), LINK_WORKLOAD_PATHS)
    assert problem.path == "lustre.links[1].source"
