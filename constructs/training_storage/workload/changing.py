"""Another workload that differs in single fields, checked like a file that says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from training_storage.catalog import Catalog
from training_storage.errors import Problem, WorkloadError
from training_storage.workload.checks import check, checks_of, every_check
from training_storage.workload.draft import Draft
from training_storage.workload.loading import workload_from_dict
from training_storage.workload.model import Workload
from training_storage.workload.section import Refused, Section, shown


def given_values(section: Section) -> dict[str, Any]:
    """Return what was given, in the shape of the file; values are those of the model, defaults are left out."""
    given: dict[str, Any] = {}
    for key, name in section.keys().items():
        if name in section.model_fields_set:
            value = getattr(section, name)
            given[key] = given_values(value) if isinstance(value, Section) else value
    return given


def changed(data: Mapping[str, Any], path: Iterable[str], value: Any) -> dict[str, Any]:
    """Return a copy of given values with one field set, and the sections that it stands in made where they are missing.

    Args:
        data: What ``given_values`` returns; it stays as it is.
        path: Keys from the top of the file to the field.
        value: The value, as text of the file or as one of the model; None takes the field out.
    """
    key, *rest = path
    copy = dict(data)
    if rest:
        inner = copy.get(key)
        copy[key] = changed(inner if isinstance(inner, Mapping) else {}, rest, value)
    elif value is None:
        copy.pop(key, None)
    else:
        copy[key] = value
    return copy


def change_workload(workload: Workload, changes: Mapping[str, Any], *, catalog: Catalog | None = None) -> Workload:
    """Return the workload with other values in some fields, held against every check that a file is held against.

    Args:
        workload: The workload; it stays as it is.
        changes: Values by dotted path such as ``lustre.storage_capacity``, as in a file or of the model; None takes a
            field out.
        catalog: Facts to check it against. Left out: those that come with the package.

    Raises:
        WorkloadError: With every problem of the changed workload.
    """
    data = given_values(workload)
    for path, value in changes.items():
        data = changed(data, path.split("."), value)
    return workload_from_dict(data, catalog=catalog)


class Variations:
    """Workloads that differ from one in a single field: checked like a file each, without doing everything again.

    What does not look at the changed part of the file is looked at once, for the workload itself.
    """

    def __init__(self, workload: Workload, path: str, *, catalog: Catalog) -> None:
        """Look at the parts that no variation changes.

        Args:
            workload: The workload; it stays as it is.
            path: Dotted path of the field.
            catalog: Facts to check against.

        Raises:
            WorkloadError: With every problem of those parts.
        """
        self._path = path.split(".")
        self._catalog = catalog
        self._checks = checks_of(path)
        self._data = given_values(workload)
        self._sections = {
            key: getattr(workload, name) for key, name in Workload.keys().items() if name in workload.model_fields_set
        }
        others = tuple(each for each in every_check() if each not in self._checks)
        problems = list(check(Draft.of(self._data, workload), catalog, others))
        if problems:
            raise WorkloadError(problems)

    def at(self, value: Any) -> Workload:
        """Return the workload with a value in the field; the same as ``change_workload`` does.

        Raises:
            WorkloadError: With every problem of that workload.
        """
        data = changed(self._data, self._path, value)
        top = self._path[0]
        sections = dict(self._sections)
        sections.pop(top, None)
        if top in data:
            sections[top] = data[top]
        workload: Workload | None = None
        problems: list[Problem] = []
        try:
            workload = Workload.read(sections)
        except Refused as error:
            problems.extend(error.problems)
        said = {problem.path for problem in problems}
        problems += [
            replace(each, value=shown(each.value))
            for each in check(Draft.of(data, workload), self._catalog, self._checks)
            if each.path not in said
        ]
        if problems or workload is None:
            raise WorkloadError(dict.fromkeys(problems))
        return workload
