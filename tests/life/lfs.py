"""``lfs`` over a directory that stands for Lustre: prints, fails and exits as ``lustre/utils/lfs.c`` does.

Called in process, or written to a folder of ``PATH`` as a program. A released file is a hole of its size.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# The shell starts the interpreter: a first line of its own would end at the first blank of its path.
PROGRAM = """#!/bin/sh
exec {python} -SE {program} "$@"
"""
CODE = """
import sys
sys.path.insert(0, {folder!r})
sys.argv[0] = "lfs"
import lfs
lfs.program({state!r})
"""

ERRORS = {
    "EBUSY": "Device or resource busy", "ENOMEM": "Cannot allocate memory", "ENOSPC": "No space left on device",
    "EPERM": "Operation not permitted",
}  # fmt: skip


class Lfs:
    """State lies in a folder, so that processes share it.

    Args:
        state: The folder.
    """

    def __init__(self, state: Path) -> None:
        self.state = state
        state.mkdir(parents=True, exist_ok=True)

    # -- for tests

    def release(self, path: Path | str, size: int, looks: int = 1) -> None:
        """Make a file whose data lies in S3 alone; restoring it takes so many looks."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("wb") as stream:
            stream.truncate(size)
        self._put(str(path), {"size": size, "looks": looks, "doing": False})

    def fail(self, times: int, code: str) -> None:
        """Let the next requests fail."""
        (self.state / "fail").write_text(f"{times} {code}")

    def never(self, path: Path | str) -> None:
        """Let restores of a file end without its data, as where the object is archived."""
        self._put(str(path), {**self._get(str(path)), "never": True})

    def install(self, folder: Path) -> None:
        """Write the program."""
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "lfs"
        code = folder / "lfs.code"
        code.write_text(CODE.format(folder=str(Path(__file__).parent), state=str(self.state)))
        program.write_text(PROGRAM.format(python=shlex.quote(sys.executable), program=shlex.quote(str(code))))
        program.chmod(0o755)

    def released(self) -> int:
        """Return how many files have no data."""
        return len(list(self.state.glob("*.json")))

    def restores(self) -> int:
        """Return how many files were asked for, each time counted."""
        place = self.state / "asked"
        return len(place.read_text()) if place.exists() else 0

    # -- the program

    def __call__(self, argv: Sequence[str]) -> tuple[int, bytes, bytes]:
        out, err = bytearray(), bytearray()
        code = getattr(self, f"_{argv[1]}")(list(argv[2:]), out, err)
        return code & 0xFF, bytes(out), bytes(err)

    def _hsm_state(self, paths: list[str], out: bytearray, err: bytearray) -> int:
        for path in paths:
            if not os.path.lexists(path):
                err += b"can't get hsm state for " + os.fsencode(path) + b": No such file or directory\n"
                return -2
            released = bool(self._get(path))
            told = (
                b"(0x0000000d) released exists archived, archive_id:1"
                if released
                else (b"(0x00000009) exists archived, archive_id:1")
            )
            out += os.fsencode(path) + b": " + told + b"\n"
        return 0

    def _hsm_action(self, paths: list[str], out: bytearray, err: bytearray) -> int:
        for path in paths:
            if not os.path.lexists(path):
                err += b"can't get hsm action for " + os.fsencode(path) + b": No such file or directory\n"
                return -2
            out += os.fsencode(path) + b": " + self._act(path) + b"\n"
        return 0

    def _act(self, path: str) -> bytes:
        about = self._get(path)
        if not about or not about["doing"]:
            return b"NOOP"
        if about["looks"] > 0:
            self._put(path, {**about, "looks": about["looks"] - 1})
            return b"RESTORE running (%d bytes moved)" % (about["size"] // (about["looks"] + 1))
        if about.get("never"):
            self._put(path, {**about, "doing": False})
            return b"NOOP"
        with Path(path).open("r+b") as stream:
            stream.write(b"x" * about["size"])
        self._place(path).unlink()
        return b"NOOP"

    def _hsm_restore(self, paths: list[str], out: bytearray, err: bytearray) -> int:
        for path in paths:
            if not os.path.lexists(path):
                err += b"Cannot stat " + os.fsencode(path) + b": No such file or directory\n"
                return -2
        place = self.state / "fail"
        times, code = place.read_text().split() if place.exists() else ("0", "")
        if int(times):
            place.write_text(f"{int(times) - 1} {code}")
            err += f"Cannot send HSM request (use of {paths[0]}): {ERRORS[code]}\n".encode()
            return -1
        with (self.state / "asked").open("a") as stream:
            stream.write("." * len(paths))
        for path in paths:
            about = self._get(path)
            if about:
                self._put(path, {**about, "doing": True})
        return 0

    def _df(self, _: list[str], out: bytearray, err: bytearray) -> int:
        place = self.state / "targets"
        if not place.exists():
            return 0
        out += b"UUID                   1K-blocks        Used   Available Use% Mounted on\n"
        for number, (size, free) in enumerate(json.loads(place.read_text())):
            out += f"fsx-OST{number:04x}_UUID {size // 1024} 1 {free // 1024} 1% /fsx[OST:{number}]\n".encode()
        return 0

    def _place(self, path: str) -> Path:
        return self.state / f"{hashlib.sha1(os.fsencode(path), usedforsecurity=False).hexdigest()}.json"

    def _get(self, path: str) -> dict[str, Any]:
        place = self._place(path)
        return dict(json.loads(place.read_bytes())) if place.exists() else {}

    def _put(self, path: str, about: dict[str, Any]) -> None:
        self._place(path).write_text(json.dumps(about))


def program(state: str) -> None:
    """Run as a process."""
    code, out, err = Lfs(Path(state))(sys.argv)
    sys.stdout.buffer.write(out)
    sys.stderr.buffer.write(err)
    sys.stdout.flush()
    sys.exit(code)
