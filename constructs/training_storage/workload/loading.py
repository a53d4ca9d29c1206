"""Reading a workload file: everything that is wrong is reported at once, each with its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from training_storage.catalog import Catalog, default_catalog
from training_storage.errors import Problem, WorkloadError
from training_storage.workload.checks import check
from training_storage.workload.draft import Draft
from training_storage.workload.model import Workload
from training_storage.workload.section import Refused, shown
from training_storage.workload.source import LineMap, read_text, read_yaml


def load_workload(path: str | Path, *, catalog: Catalog | None = None) -> Workload:
    """Read a workload file.

    Args:
        path: The file, YAML 1.2 in UTF-8.
        catalog: Facts to check it against. Left out: those that come with the package.

    Raises:
        WorkloadError: With every problem found, in the order of the file: line, field path, the value as it is written,
            what is allowed, what to change.
    """
    return load_workload_with_lines(path, catalog)[0]


def load_workload_with_lines(path: str | Path, catalog: Catalog | None = None) -> tuple[Workload, LineMap]:
    """Read a workload file and return where each field stands, too; see ``load_workload``."""
    return _parse(read_text(path), str(path), catalog)


def parse_workload(text: str, *, file: str = "<text>", catalog: Catalog | None = None) -> Workload:
    """Read a workload from text; ``file`` is its name in messages. See ``load_workload``."""
    return _parse(text, file, catalog)[0]


def workload_from_dict(data: Mapping[str, Any], *, catalog: Catalog | None = None) -> Workload:
    """Read a workload from plain data in the shape of the file, such as parsed JSON. See ``load_workload``.

    Raises:
        WorkloadError: With every problem found; there are no lines.
    """
    return _build(data, catalog, None, ())


def _parse(text: str, file: str, catalog: Catalog | None) -> tuple[Workload, LineMap]:
    data, lines, found = read_yaml(text, file)
    return _build(data, catalog, lines, found), lines


def _build(
    data: Mapping[str, Any], catalog: Catalog | None, lines: LineMap | None, found: tuple[Problem, ...]
) -> Workload:
    problems: list[Problem] = []
    workload: Workload | None = None
    try:
        workload = Workload.read(data)
    except Refused as error:
        problems.extend(error.problems)
    said = {problem.path for problem in (*problems, *found)}
    if isinstance(data, Mapping):
        facts = catalog or default_catalog()
        problems.extend(
            replace(problem, value=shown(problem.value))
            for problem in check(Draft.of(data, workload), facts)
            if problem.path not in said
        )
    problems = _once(problems, found)
    if lines is not None:
        problems = sorted((*found, *lines.locate(problems)), key=lambda problem: problem.line or 0)
    if problems or workload is None:
        raise WorkloadError(problems)
    return workload


def _once(problems: list[Problem], found: tuple[Problem, ...]) -> list[Problem]:
    """Leave out what is said about a field that has been found wrong while reading, and what is said twice."""
    wrong = {problem.path for problem in found if problem.path}
    return [problem for problem in dict.fromkeys(problems) if not any(_is_below(problem.path, path) for path in wrong)]


def _is_below(path: str, other: str) -> bool:
    return path == other or path.startswith((f"{other}.", f"{other}["))
