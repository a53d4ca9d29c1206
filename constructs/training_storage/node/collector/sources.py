"""Where counters are read: files of the kernel, and commands where files do not say it."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Callable, Optional

from ..roots import rooted
from . import disks, lnet, lustre, mounts, nfs
from .differences import MAX_DEVICES, WHOLE

Run = Callable[[Sequence[str]], Optional[str]]
"""Runs a command and returns what it printed; None where it failed."""

MAX_BYTES = 8 << 20
COMMAND_TIMEOUT_S = 10.0
MOUNTS_FOLDER = "/etc/training-storage/mounts.d"

_LUSTRE_FOLDERS = ("/proc/fs/lustre", "/sys/kernel/debug/lustre")
"""Before 2.13 and since: both are looked at, since a version has some in the one and some in the other."""
_LUSTRE_KINDS = ("llite", "osc", "mdc")


_stuck: dict[tuple[str, ...], subprocess.Popen[bytes]] = {}
"""Commands that hang in the kernel, where nothing ends them: they are not waited for, nor started again beside."""


def run_command(arguments: Sequence[str], timeout_s: float = COMMAND_TIMEOUT_S) -> str | None:
    """Run a command with a bound on time and output.

    Args:
        arguments: The command and its arguments.
        timeout_s: Seconds that it may take.
    """
    command = tuple(arguments)
    before = _stuck.get(command)
    if before is not None and before.poll() is None:
        return None
    _stuck.pop(command, None)
    try:
        process = subprocess.Popen(  # noqa: S603 - fixed commands of the Lustre client
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except OSError:
        return None
    try:
        shown, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        if process.stdout is not None:
            process.stdout.close()
        _stuck[command] = process
        return None
    return shown[:MAX_BYTES].decode("utf-8", "replace") if process.returncode == 0 else None


def read_text(path: str) -> str | None:
    """Return a file of the kernel; None where it can't be read, is too large, or does not end with a whole line.

    Args:
        path: Absolute path of a node.
    """
    try:
        with open(rooted(path), "rb") as stream:  # noqa: PTH123 - as in ``roots``
            data = stream.read(MAX_BYTES + 1)
    except OSError:
        return None
    if len(data) > MAX_BYTES or not data.endswith(b"\n"):
        return None
    return data.decode("utf-8", "replace")


class Sources:
    """Everything that is read at one look.

    Args:
        run: Runs commands.
    """

    def __init__(self, run: Run = run_command) -> None:
        self._run = run

    def wanted_mounts(self) -> dict[str, str]:
        """Return kind by path of what the bootstrap was told to mount; empty where nothing says it."""
        found: dict[str, str] = {}
        for path in sorted(Path(rooted(MOUNTS_FOLDER)).glob("*"))[:MAX_DEVICES]:
            text = read_text(f"{MOUNTS_FOLDER}/{path.name}")
            setting = mounts.parse_setting(text) if text is not None else None
            if setting is not None:
                found[setting[0]] = setting[1]
        return found

    def mounted(self) -> dict[str, set[str]] | None:
        """Return the types of file systems by path."""
        text = read_text("/proc/mounts")
        return mounts.parse_mounts(text) if text is not None else None

    def lustre(self) -> dict[str, dict[str, dict[str, int]] | None]:
        """Return counters by kind and device: counts under their names, sums under ``NAME.sum``; None where unknown."""
        found: dict[str, dict[str, dict[str, int]] | None] = {}
        for kind in _LUSTRE_KINDS:
            devices = self._lustre_files(kind)
            found[kind] = devices
        if any(devices is None for devices in found.values()):
            text = self._run(["lctl", "get_param", *(f"{kind}.*.stats" for kind in _LUSTRE_KINDS)])
            if text is not None and text.endswith("\n"):
                for kind, parsed in lustre.split_parameters(text).items():
                    if found[kind] is None:
                        found[kind] = {device: flat(block) for device, block in parsed.items()}
        return found

    def _lustre_files(self, kind: str) -> dict[str, dict[str, int]] | None:
        found: dict[str, dict[str, int]] = {}
        for folder in _LUSTRE_FOLDERS:
            for path in sorted(Path(rooted(folder), kind).glob("*/stats"))[:MAX_DEVICES]:
                device = path.parent.name
                text = read_text(f"{folder}/{kind}/{device}/stats")
                if device not in found or not found[device]:
                    found[device] = flat(text) if text is not None else {}
        return found or None

    def lnet(self) -> tuple[dict[str, int], dict[str, int]] | None:
        """Return messages by NID, and bytes of all together; None where one of them is not known."""
        shown = self._run(["lnetctl", "net", "show", "-v"])
        messages = lnet.parse_nets(shown) if shown is not None else {}
        if not messages:
            return None
        shown = self._run(["lnetctl", "stats", "show"])
        lengths = lnet.parse_stats(shown) if shown is not None else {}
        return (messages, lengths) if lengths else None

    def nfs(self) -> dict[str, dict[str, int]] | None:
        """Return counters of NFS mounts."""
        text = read_text("/proc/self/mountstats")
        if text is None:
            return None
        return nfs.parse_mountstats(text, nfs.parse_mountinfo(read_text("/proc/self/mountinfo") or ""))

    def instance_stores(self) -> dict[str, dict[str, int]] | None:
        """Return counters of the disks that go with the instance."""
        text = read_text("/proc/diskstats")
        if text is None:
            return None
        return {
            name: counters
            for name, counters in disks.parse_diskstats(text).items()
            if disks.is_instance_store(read_text(f"/sys/block/{name}/device/model") or "")
        }


def flat(text: str) -> dict[str, int]:
    """Return the counters of one device of Lustre as numbers by name, in their order; sums under ``NAME.sum``.

    Args:
        text: Its statistics.
    """
    counters = lustre.parse_stats(text)
    found: dict[str, int] = {WHOLE: 1} if lustre.is_whole(text, counters) else {}
    for name, counter in counters.items():
        found[name] = counter.count
        if counter.total is not None:
            found[f"{name}.sum"] = counter.total
    return found
