"""The one exception tree.

    TrainingStorageError
    ├── ValidationError (ValueError)   input that breaks a rule; carries every problem found
    │   ├── WorkloadError              the workload file
    │   ├── PlanError                  a workload that can be read but not planned as asked
    │   └── CatalogError               a user's catalog or price file
    ├── RefusedError                   the operation looked, and the answer is no
    ├── AwsError                       AWS refused or failed
    └── MissingExtraError              packages of an extra are not installed

Exit codes of the command line follow the tree: 2 for ValidationError and MissingExtraError, 1 for RefusedError, 3 for
AwsError.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong, said so that the reader can mend it.

    Attributes:
        what: What is wrong, in the user's words; lower case, no full stop.
        path: Field path such as ``compute.instance_type`` or a construct argument; empty for the file as a whole.
        value: The value given, as the user wrote it. None when nothing was given.
        allowed: What is allowed. Empty when ``what`` says it all.
        fix: What to change. Empty when ``allowed`` says it all.
        rule: Id of the service rule behind it, if one is.
        file: File the value came from. None for values passed in code.
        line: Line in that file, counted from 1. None when not known.
    """

    what: str
    path: str = ""
    value: object = None
    allowed: str = ""
    fix: str = ""
    rule: str | None = None
    file: str | None = None
    line: int | None = None

    def at(self, file: str | None, line: int | None) -> Problem:
        """Return the same problem with a place in a file."""
        return replace(self, file=file, line=line)

    def __str__(self) -> str:
        place = ""
        if self.file:
            place = f"{self.file}:{self.line}: " if self.line else f"{self.file}: "
        head = f"{place}{self.path}: {self.what}" if self.path else f"{place}{self.what}"
        parts = [head]
        if self.value is not None:
            parts.append(f"got {self.value!r}")
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        if self.fix:
            parts.append(f"fix: {self.fix}")
        return "; ".join(parts)

    def to_dict(self) -> dict[str, object]:
        """Return the problem as plain data for ``--format json``; a value that JSON lacks becomes its text."""
        value = self.value
        if value is not None and not isinstance(value, str | int | float | bool):
            value = str(value)
        return {
            "file": self.file,
            "line": self.line,
            "path": self.path,
            "what": self.what,
            "value": value,
            "allowed": self.allowed,
            "fix": self.fix,
            "rule": self.rule,
        }


class TrainingStorageError(Exception):
    """Base of everything that this library raises on purpose."""


class ValidationError(TrainingStorageError, ValueError):
    """Input that breaks one or more rules.

    Attributes:
        problems: Every problem found, in the order of the input.
        where: The construct path or file that the problems belong to; empty when not known.
    """

    def __init__(self, problems: Problem | Iterable[Problem], *, where: str = "") -> None:
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        self.where = where
        head = f"{where}: " if where else ""
        if len(self.problems) == 1:
            message = f"{head}{self.problems[0]}"
        else:
            lines = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(self.problems, 1))
            message = f"{head}{len(self.problems)} problems\n{lines}"
        super().__init__(message)


class WorkloadError(ValidationError):
    """The workload file cannot be read as a workload."""


class PlanError(ValidationError):
    """The workload is understood, but no legal plan does what it asks for."""


class CatalogError(ValidationError):
    """A user's catalog or price file is not usable."""


class RefusedError(TrainingStorageError):
    """The operation looked at the real state, and the answer is no; nothing was changed."""


class AwsError(TrainingStorageError):
    """AWS refused or failed.

    Attributes:
        operation: API operation such as ``CreateDataRepositoryTask``.
        code: AWS error code such as ``AccessDeniedException``; empty when AWS gave none.
    """

    def __init__(self, message: str, *, operation: str = "", code: str = "") -> None:
        self.operation = operation
        self.code = code
        super().__init__(message)


class MissingExtraError(TrainingStorageError):
    """What was asked for needs packages that are not installed; they come with an extra of this one.

    Attributes:
        extra: Name of the extra such as ``report``.
        module: The module that was not found.
    """

    def __init__(self, what: str, extra: str, module: str) -> None:
        self.extra = extra
        self.module = module
        super().__init__(f"{what} needs {module}, which is not installed; fix: pip install 'training-storage[{extra}]'")
