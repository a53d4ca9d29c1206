"""What ``lfs`` says of files whose data may still lie in S3, and what it is asked to bring.

Forms of the output and the ways to fail are those of ``lustre/utils/lfs.c``: ``hsm_state`` and ``hsm_action`` print a
line a file and stop at the first that they cannot read; ``hsm_restore`` queues all files of a call, or none of them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable

CALL_S = 900.0
"""How long one call of ``lfs`` may take. It only asks servers, so longer means that one of them does not answer."""

TIMED_OUT = 124
"""Exit code of a call that was ended after ``CALL_S``."""

BUSY = (
    "Device or resource busy",
    "Cannot allocate memory",
    "Resource temporarily unavailable",
    "No buffer space available",
    "Connection timed out",
    "Interrupted system call",
    "Transport endpoint is not connected",
    "Cannot send after transport endpoint shutdown",
)
"""Texts of errors that are gone a little later: a full queue of requests, a server that is being replaced."""

RELEASED, LOST = 0x04, 0x40
"""Bits of a state: its data is not here; the copy in S3 is known to be gone (``enum hsm_states``)."""


class NoLustreError(Exception):
    """There is no ``lfs`` on this node."""


@dataclass(frozen=True)
class Told:
    """What one call said.

    Attributes:
        by_path: Text after ``PATH: `` of each file that it got to.
        code: Exit code.
        error: What it printed to its error output; empty where nothing.
    """

    by_path: dict[str, str]
    code: int
    error: str

    @property
    def busy(self) -> bool:
        """Whether the same call may succeed a little later."""
        return self.code != 0 and any(each in self.error for each in BUSY)


Run = Callable[[Sequence[str]], "tuple[int, bytes, bytes]"]
"""Runs a program; returns exit code, output, error output."""


def run_program(argv: Sequence[str]) -> tuple[int, bytes, bytes]:
    """Run ``lfs`` with error texts in English, whatever the node speaks.

    Raises:
        NoLustreError: It is not there.
    """
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        # S607: where the client was installed is the image's business; S603: no shell, and ``--`` ends options.
        done = subprocess.run(list(argv), capture_output=True, check=False, env=environment, timeout=CALL_S)  # noqa: S603
    except FileNotFoundError as error:
        raise NoLustreError from error
    except subprocess.TimeoutExpired:
        return TIMED_OUT, b"", b"Connection timed out: lfs did not answer"
    return done.returncode, done.stdout, done.stderr


def states(paths: Sequence[str], run: Run = run_program) -> Told:
    """Ask for the state of files: ``(0x0000000d) released exists archived, archive_id:1``."""
    return _lines("hsm_state", paths, run)


def actions(paths: Sequence[str], run: Run = run_program) -> Told:
    """Ask what is being done with files: ``NOOP``, or ``RESTORE running (1048576 bytes moved)``."""
    return _lines("hsm_action", paths, run)


def restore(paths: Sequence[str], run: Run = run_program) -> Told:
    """Ask for the data of files; returns when the request is queued, not when the data is there."""
    code, _, error = run(["lfs", "hsm_restore", *map(_safe, paths)])
    return Told({}, code, _text(error))


def is_released(state: str) -> bool:
    """Return whether the data of a file is not on the file system, by its state."""
    return bool(_bits(state) & RELEASED)


def is_lost(state: str) -> bool:
    """Return whether the copy in S3 is known to be gone, by its state."""
    return bool(_bits(state) & LOST)


def bytes_moved(action: str) -> int:
    """Return the bytes that a running restore has brought, by its action."""
    _, _, rest = action.partition("(")
    number, _, unit = rest.partition(" ")
    return int(number) if unit.startswith("bytes moved") and number.isdigit() else 0


def is_idle(action: str) -> bool:
    """Return whether nothing is being done with a file."""
    return action.split(" ", 1)[0] in ("NOOP", "NONE")


def targets(mount: str, run: Run = run_program) -> dict[str, tuple[int, int]]:
    """Return size and free bytes of each storage target of a file system; empty where ``lfs df`` does not tell."""
    code, output, _ = run(["lfs", "df", _safe(mount)])
    if code != 0:
        return {}
    found = {}
    for line in _text(output).splitlines():
        words = line.split()
        if len(words) >= 4 and "-OST" in words[0] and words[1].isdigit() and words[3].isdigit():
            found[words[0].replace("_UUID", "")] = (int(words[1]) * 1024, int(words[3]) * 1024)
    return found


def _lines(verb: str, paths: Sequence[str], run: Run) -> Told:
    """Match output to paths in their order, byte by byte: names hold what they like, newlines too."""
    code, output, error = run(["lfs", verb, *map(_safe, paths)])
    found, at = {}, 0
    for path in paths:
        head = os.fsencode(_safe(path)) + b": "
        if not output.startswith(head, at):
            break
        end = output.find(b"\n", at + len(head))
        if end < 0:
            end = len(output)
        found[path] = _text(output[at + len(head) : end])
        at = end + 1
    return Told(found, code, _text(error))


def _bits(state: str) -> int:
    word = state.split(" ", 1)[0].strip("():")
    try:
        return int(word, 16)
    except ValueError:
        return 0


def _safe(path: str) -> str:
    """Return a path that no program takes for an option."""
    return path if path.startswith("/") else f"./{path}"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape").strip()
