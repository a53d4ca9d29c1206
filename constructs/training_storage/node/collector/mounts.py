"""What is mounted, from ``/proc/mounts``, beside what the bootstrap was told to mount."""

from __future__ import annotations

import re
import shlex

from .numbers import lines_of

_ESCAPE = re.compile(r"\\([0-7]{3})")
_TYPES = {"lustre": "lustre", "mountpoint": "fuse", "s3-files": "nfs"}


def parse_mounts(text: str) -> dict[str, set[str]] | None:
    """Return the types of file systems on each path; None where the text is not whole.

    Args:
        text: The file.
    """
    if not text.endswith("\n"):
        return None
    found: dict[str, set[str]] = {}
    for line in lines_of(text):
        words = line.split(" ")
        if len(words) < 4:
            return None
        path = _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), words[1])
        found.setdefault(path, set()).add(words[2])
    return found


def parse_setting(text: str) -> tuple[str, str] | None:
    """Return path and kind of a mount from the file that the bootstrap mounts it by; None where they are not there.

    Args:
        text: Lines ``NAME='value'``.
    """
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name in ("MOUNT_PATH", "KIND"):
            try:
                words = shlex.split(value)
            except ValueError:
                return None
            if len(words) == 1:
                values[name] = words[0]
    path, kind = values.get("MOUNT_PATH", ""), values.get("KIND", "")
    return (path, kind) if path.startswith("/") and kind in _TYPES else None


def missing(wanted: dict[str, str], mounted: dict[str, set[str]]) -> list[str]:
    """Return the paths that have no file system of their kind, sorted.

    Args:
        wanted: Kind by path, as the bootstrap names them.
        mounted: Types by path.
    """
    return sorted(
        path
        for path, kind in wanted.items()
        if not any(each.startswith(_TYPES[kind]) for each in mounted.get(path, ()))
    )
