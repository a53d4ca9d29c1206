"""Writing a result to a file: all of it or nothing, so that nobody finds half a file."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

_PLAIN_MODE: Final = 0o666
"""What a new file may at most be, before the umask."""


def write_whole(path: Path, text: str) -> None:
    """Write text to a file in one piece: to a temporary one beside it, which then takes its place.

    A link stays one and its file is written; a file that is there keeps its mode. What is no file, such as a pipe, is
    written as it is.

    Args:
        path: The file.
        text: What it is to hold.

    Raises:
        OSError: It cannot be written; what was there is as it was.
    """
    target = Path(os.path.realpath(path))
    try:
        mode: int | None = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    # Another file could take the place of one that may not be written to, against the wish of whoever protects it.
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if mode is not None and not stat.S_ISREG(mode):
        with target.open("w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        return
    handle, name = tempfile.mkstemp(prefix=".training-storage-", dir=target.parent)  # the name may be as long as any
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(stat.S_IMODE(mode) if mode is not None else _PLAIN_MODE & ~_umask())
        Path(name).replace(target)
    except BaseException:  # an interrupt too leaves nothing behind
        with suppress(OSError):
            Path(name).unlink()
        raise


def _umask() -> int:
    """Return the umask of the process; it can only be read by setting it."""
    found = os.umask(0)
    os.umask(found)
    return found
