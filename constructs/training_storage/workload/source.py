"""YAML 1.2 text to plain data that remembers its lines, from the events of ruamel.yaml.

Only what a workload file needs is read: mappings, lists and scalars of the core schema (so ``no`` and ``on`` are text,
and so are dates). Anchors, tags and merge keys are refused: every value then stands where it is used. Reading events
and not objects keeps the text of each value as its author wrote it, and bounds depth and size before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from training_storage.errors import Problem, WorkloadError
from training_storage.workload.section import QUOTE, join_path, shorten

MAX_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 20
MAX_ENTRIES: Final = 20_000

_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o(?P<octal>[0-7]+)|0x(?P<hex>[0-9a-fA-F]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"(?P<sign>[-+]?)\.(?:inf|Inf|INF)")
_PARENT = re.compile(r"(?P<parent>.*)(?:\[\d+\]|\.[^.\[\]]*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class LineMap:
    """Where each field of a file stands, and what stands there.

    Attributes:
        file: The file's name, as the user gave it.
        lines: Line of each field path, counted from 1; the empty path is the file's first entry.
        written: Scalars as the author wrote them: a number where it prints as it is written, else the text.
    """

    file: str
    lines: dict[str, int] = field(default_factory=dict)
    written: dict[str, str | int | float] = field(default_factory=dict)

    def line(self, path: str) -> int | None:
        """Return the line of a field, or of the nearest field above it that the file has; None for an empty file."""
        while path not in self.lines:
            match = _PARENT.fullmatch(path)
            if match is None:
                return self.lines.get("")
            path = match["parent"]
        return self.lines[path]

    def locate(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """Return problems with file and line, and with the value as it is written; those with a file stay as they are.

        Args:
            problems: Problems whose paths are field paths of the file, such as those of a ``PlanError``.
        """
        return tuple(problem if problem.file else self._place(problem) for problem in problems)

    def _place(self, problem: Problem) -> Problem:
        value = self.written.get(problem.path, problem.value)
        fix = f'{QUOTE}: "{value}"' if problem.fix == QUOTE else problem.fix
        return replace(problem, value=value, fix=fix, file=self.file, line=self.line(problem.path))


@dataclass(slots=True)
class _Open:
    """A mapping or a list that is being read."""

    value: dict[str, Any] | list[Any]
    path: str
    key: str | None = None


class _Builder:
    """Builds data from events; problems are collected, and reading goes on where that makes sense."""

    def __init__(self, file: str) -> None:
        self.map = LineMap(file)
        self.problems: list[Problem] = []
        self._stack: list[_Open] = []
        self._entries = 0
        self._root: Any = None
        self._documents = 0
        self.stopped = False

    def problem(
        self, what: str, line: int, *, path: str = "", value: object = None, allowed: str = "", fix: str = ""
    ) -> None:
        self.problems.append(
            Problem(what=what, path=path, value=value, allowed=allowed, fix=fix, file=self.map.file, line=line)
        )

    def read(self, events: Iterable[Any]) -> Any:
        for event in events:
            kind, line = type(event).__name__, event.start_mark.line + 1
            if kind == "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    self.problem(
                        "has a second document", line, allowed="one document", fix="remove it, and the --- before it"
                    )
                    break
            elif kind in ("MappingStartEvent", "SequenceStartEvent"):
                self._plain(event, line)
                self._start({} if kind == "MappingStartEvent" else [], line)
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                self._stack.pop()
            elif kind == "ScalarEvent":
                self._plain(event, line)
                self._scalar(event, line)
            elif kind == "AliasEvent":
                self.problem(
                    f"uses an alias, *{shorten(event.anchor)}", line, path=self._next_path(), fix="write the value out"
                )
                self._add(None, line)
            if self._entries > MAX_ENTRIES or len(self._stack) > MAX_DEPTH:
                what = "is nested too deeply" if len(self._stack) > MAX_DEPTH else "has too many entries"
                self.problem(f"{what} for a workload file", line)
                self.stopped = True
                break
        return self._root

    def _plain(self, event: Any, line: int) -> None:
        if event.anchor is not None:
            self.problem(
                f"sets an anchor, &{shorten(str(event.anchor))}",
                line,
                path=self._next_path(),
                fix="write the value out where it is used",
            )
        tag = event.tag
        if tag is not None and str(tag) != "!":
            self.problem(f"has a tag, {shorten(str(tag))}", line, path=self._next_path(), fix="remove the tag")

    def _next_path(self) -> str:
        if not self._stack:
            return ""
        top = self._stack[-1]
        if isinstance(top.value, list):
            return f"{top.path}[{len(top.value)}]"
        return join_path(top.path, top.key or "")

    def _start(self, value: dict[str, Any] | list[Any], line: int) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            self.problem("has a mapping or a list as a key", line, path=top.path, allowed="names as keys")
            top.key = ""
            self._stack.append(_Open(value, self._next_path()))
            return
        path = self._next_path()
        self._add(value, line)
        self._stack.append(_Open(value, path))

    def _scalar(self, event: Any, line: int) -> None:
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            top.key = str(event.value)
            path = self._next_path()
            if path in self.map.lines and top.key in top.value:
                first = self.map.lines[path]
                self.problem("is given twice", line, path=shorten(path), fix=f"keep one; the other is in line {first}")
            elif top.key == "<<" and event.style is None:
                self.problem("is a merge key, which YAML 1.2 does not have", line, path=path, fix="write the keys out")
            else:
                self.map.lines[path] = line
                self.map.lines.setdefault("", line)
            return
        path = self._next_path()
        text = str(event.value)
        value = text if event.style else resolve(text)
        if value is not None:
            number = isinstance(value, int | float) and not isinstance(value, bool) and str(value) == text
            self.map.written.setdefault(path, value if number else shorten(text))
        elif self._stack:
            # The mark of an empty value is that of whatever comes next.
            line = self.map.lines.get(path, line)
            self.problem("has no value", line, path=path, allowed="a value", fix="give one, or remove the line")
        self._add(value, line)

    def _add(self, value: Any, line: int) -> None:
        if not self._stack:
            self._root = value
            self.map.lines.setdefault("", line)
            return
        top = self._stack[-1]
        path = self._next_path()
        if isinstance(top.value, list):
            self.map.lines[path] = line
            top.value.append(value)
        else:
            top.value.setdefault(top.key or "", value)
            top.key = None
        self._entries += 1


def resolve(text: str) -> str | int | float | bool | None:
    """Return what a plain scalar means in the core schema of YAML 1.2."""
    if text in {"", "~", "null", "Null", "NULL"}:
        return None
    if text in {"true", "True", "TRUE"}:
        return True
    if text in {"false", "False", "FALSE"}:
        return False
    if len(text) > 400:  # beyond every float, and Python limits the digits of an int
        return text
    if _INT.fullmatch(text):
        return int(text)
    if based := _BASED.fullmatch(text):
        return int(based["octal"], 8) if based["octal"] else int(based["hex"], 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if infinity := _INFINITY.fullmatch(text):
        return float(f"{infinity['sign']}inf")
    if text in {".nan", ".NaN", ".NAN"}:
        return float("nan")
    return text


def read_text(path: str | Path) -> str:
    """Return the text of a file. Raises WorkloadError where it cannot be read as UTF-8 text of a sensible size."""
    name = str(path)
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        known: dict[type[Exception], str] = {
            FileNotFoundError: "there is no such file",
            IsADirectoryError: "is a folder",
            PermissionError: "may not be read",
        }
        what = known.get(type(error), f"cannot be read: {getattr(error, 'strerror', None) or error}")
        fix = "check the path" if isinstance(error, FileNotFoundError) else ""
        raise WorkloadError(Problem(what=what, fix=fix, allowed="a workload file in YAML", file=name)) from None
    if len(data) > MAX_BYTES:
        raise WorkloadError(
            Problem(what="is too large for a workload file", allowed=f"at most {MAX_BYTES:,} bytes", file=name)
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"is not UTF-8 text: byte {data[error.start]:#04x}"
        raise WorkloadError(Problem(what=what, fix="save the file as UTF-8", file=name, line=line)) from None


def read_yaml(text: str, file: str) -> tuple[dict[str, Any], LineMap, tuple[Problem, ...]]:
    """Return the data of a YAML text, where it stands, and problems that do not keep the rest from being read.

    Those are keys that are given twice, empty values, anchors, aliases, tags and merge keys.

    Args:
        text: The text.
        file: Its name in messages.

    Raises:
        WorkloadError: The text is empty, no YAML, no mapping, or too large or deep: every problem found up to that one.
    """
    if len(text) > MAX_BYTES:
        raise WorkloadError(
            Problem(what="is too large for a workload file", allowed=f"at most {MAX_BYTES:,} bytes", file=file)
        )
    builder = _Builder(file)
    data = None
    try:
        data = builder.read(_events(text))
    except Exception as error:  # the parser has more ways to fail on garbage than its own exceptions
        raise WorkloadError((*builder.problems, _syntax_problem(error, text, file))) from None
    if builder.stopped:
        raise WorkloadError(builder.problems)
    if data is None and not builder.problems:
        raise WorkloadError(
            Problem(
                what="is empty",
                allowed="a workload: name, region, availability_zone_id, compute and dataset",
                file=file,
            )
        )
    if not isinstance(data, dict):
        if builder.problems:
            raise WorkloadError(builder.problems)
        kind = "a list" if isinstance(data, list) else "a single value"
        raise WorkloadError(
            Problem(
                what=f"is {kind}",
                allowed="a mapping: lines such as name: llama3-70b",
                file=file,
                line=builder.map.line(""),
            )
        )
    return data, builder.map, tuple(builder.problems)


def _events(text: str) -> Iterator[Any]:
    from ruamel.yaml import YAML

    return iter(YAML(typ="safe", pure=True).parse(text))


def _syntax_problem(error: Exception, text: str, file: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line: int | None = mark.line + 1 if mark is not None else None
    position = getattr(error, "position", None)
    if line is None and isinstance(position, int):
        line = text.count("\n", 0, position) + 1
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or ""
    what, fix = (
        f"is not YAML: {said}" if said else "is not YAML",
        "check indentation, colons and quotes here and in the line above",
    )
    if "\\t" in said or "tab" in said.lower().split():
        what, fix = "has a tab where YAML allows spaces only", "indent with spaces"
    elif "special characters are not allowed" in said:
        what, fix = "has a control character", "remove it"
    return Problem(what=shorten(what), fix=fix, file=file, line=line)
