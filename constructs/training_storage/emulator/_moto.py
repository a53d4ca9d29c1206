"""The one place that knows which moto the emulator was made for, and how its parts are replaced for a while.

moto is corrected from outside, so a newer moto may have other insides: the version is checked before anything is
touched. Corrections are made when the first emulator starts and taken back when the last one stops; a test suite that
uses moto for other things finds it as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import metadata, util
from typing import Any

from training_storage.emulator.errors import EmulatorUnavailableError

# The corrections were written against 5.2.5; pyproject.toml names the same range.
LOWEST = (5, 2, 5)
BELOW = (5, 3)

_MODULES = {
    "moto": "moto",
    "cfnlint": "cfn-lint",
    "jsonschema": "jsonschema",
    "flask": "moto[server]",
    "antlr4": "moto[stepfunctions]",
    "jsonpath_ng": "moto[stepfunctions]",
    "yaml": "PyYAML",
}
_HINT = "install the extra: pip install 'FOLDER[emulator]', FOLDER being that of Training Storage"


def require() -> None:
    """Check that the packages of the ``emulator`` extra are there, in a version that the emulator knows.

    Raises:
        EmulatorUnavailableError: Packages are missing, or moto is outside the range that the corrections were made for.
    """
    missing = sorted({package for module, package in _MODULES.items() if util.find_spec(module) is None})
    if missing:
        raise EmulatorUnavailableError(f"the emulator needs {', '.join(missing)}; {_HINT}")
    found = metadata.version("moto")
    numbers = tuple(int(part) for part in found.split(".")[:3] if part.isdigit())
    if not LOWEST <= numbers < BELOW:
        low, high = (".".join(map(str, version)) for version in (LOWEST, BELOW))
        raise EmulatorUnavailableError(f"the emulator is made for moto >= {low}, < {high}; found moto {found}; {_HINT}")


_ABSENT = object()


class Patches:
    """Attributes replaced on modules and classes, in order, so that they can be put back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replace ``owner.name``, remembering what was there (an inherited attribute counts as absent)."""
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)

        def undo() -> None:
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self._undo.append(undo)

    def undo(self) -> None:
        """Put everything back, newest first."""
        while self._undo:
            self._undo.pop()()


_lock = threading.RLock()
_users = 0
_patches = Patches()


def acquire() -> None:
    """Correct moto, if no emulator has done so already."""
    global _users
    require()
    with _lock:
        if _users == 0:
            from training_storage.emulator import services

            try:
                services.install(_patches)
            except BaseException:
                _patches.undo()
                raise
        _users += 1


def release() -> None:
    """Take the corrections back, if no other emulator needs them."""
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            _patches.undo()
