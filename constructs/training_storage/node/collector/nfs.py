"""Counters of NFS mounts, S3 Files among them, from ``/proc/self/mountstats``.

Source: ``fs/nfs/super.c`` and ``net/sunrpc/stats.c`` of Linux: the eight numbers of ``bytes:`` are what programs read
and wrote, the same past the page cache, what the server sent and took, and pages; an operation has requests,
transmissions, timeouts, bytes out and in, and milliseconds queued, on the way and in all, and since 5.3 errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .numbers import lines_of, whole

_DEVICE = re.compile(r"device (\S.*) mounted on (\S+) with fstype (\S+)(?: .*)?")
# An operation that has no name is printed by its number.
_OPERATION = re.compile(r"\s+([A-Z][A-Z_0-9]*|[0-9]{1,4}): (.+)")
_OPENS = ("OPEN", "OPEN_NOATTR")
_DATA = ("READ", "WRITE", "COMMIT")
"""An error of another operation is most often a file that somebody looked for and did not find."""


@dataclass
class _Block:
    device: str
    path: str
    bytes: list[int] | None = None
    broken: bool = False
    in_operations: bool = False
    whole: bool = False
    operations: dict[str, list[int]] = field(default_factory=dict)


def parse_mountinfo(text: str) -> dict[tuple[str, str], str]:
    """Return the number of the file system, such as ``0:52``, by device and path of an NFS mount.

    Source: ``Documentation/filesystems/proc.rst``, "/proc/<pid>/mountinfo".

    Args:
        text: ``/proc/self/mountinfo``.
    """
    found: dict[tuple[str, str], str] = {}
    for line in lines_of(text):
        before, _, after = line.partition(" - ")
        words, kind = before.split(" "), after.split(" ")
        if len(words) >= 6 and len(kind) >= 3 and kind[0] in ("nfs", "nfs4"):
            found[kind[1], words[4]] = words[2]
    return found


def parse_mountstats(text: str, file_systems: Mapping[tuple[str, str], str] | None = None) -> dict[str, dict[str, int]]:
    """Return the counters of each NFS mount by device and path; none of a mount that can't be read.

    Counters: ``read_bytes`` and ``write_bytes`` (to and from the server), ``application_read_bytes``, ``opens``,
    ``requests``, ``wait_ms`` (time on the way, all requests together), ``errors`` (of reading and writing; only where
    the kernel counts them).

    Mounts of one file system share their counters: a second mount, one of a folder below, a bind mount. They are there
    once, by server and number of the file system. Where the number is not known, two that have the same counters are
    taken to be one; while they are read they move, so that this alone would not do.

    Args:
        text: The file.
        file_systems: As of ``parse_mountinfo``.
    """
    blocks: list[_Block] = []
    current: _Block | None = None
    for line in lines_of(text):
        if line.startswith("device "):
            if current is not None:
                current.whole = True
            match = _DEVICE.fullmatch(line)
            current = None
            if match is not None and match.group(3) in ("nfs", "nfs4"):
                current = _Block(device=match.group(1), path=match.group(2))
                blocks.append(current)
        elif current is not None:
            _read(current, line)
    found: dict[str, dict[str, int]] = {}
    seen: set[tuple[str, tuple[tuple[str, int], ...]]] = set()
    for block in blocks:
        counters = _counters(block)
        number = (file_systems or {}).get((block.device, block.path))
        if number is not None:
            key = f"{block.device.split(':/', 1)[0]} {number}"
            # Whichever can be read: both say the same.
            found[key] = found.get(key) or counters
            continue
        mark = (block.device, tuple(sorted(counters.items())))
        if not counters or mark not in seen:
            seen.add(mark)
            found[f"{block.device} {block.path}"] = counters
    return found


def _read(block: _Block, line: str) -> None:
    words = line.split()
    if words[:1] == ["bytes:"]:
        numbers = [whole(word) for word in words[1:]]
        if len(numbers) != 8 or None in numbers or block.bytes is not None:
            block.broken = True
        else:
            block.bytes = [number for number in numbers if number is not None]
    elif words == ["per-op", "statistics"]:
        block.in_operations = True
    elif block.in_operations and not words:
        block.whole = True
    elif block.in_operations:
        match = _OPERATION.fullmatch(line)
        numbers = [whole(word) for word in match.group(2).split()] if match is not None else []
        if match is None or len(numbers) not in (8, 9) or None in numbers or match.group(1) in block.operations:
            block.broken = True
        else:
            block.operations[match.group(1)] = [number for number in numbers if number is not None]


def _counters(block: _Block) -> dict[str, int]:
    operations = block.operations
    # A text that was cut off between two lines lacks operations of its last mount; the empty line behind them does too.
    if block.broken or not block.whole or block.bytes is None or "READ" not in operations or "WRITE" not in operations:
        return {}
    found = {
        "read_bytes": block.bytes[4],
        "write_bytes": block.bytes[5],
        "application_read_bytes": block.bytes[0] + block.bytes[2],
        "requests": sum(numbers[0] for numbers in operations.values()),
        "wait_ms": sum(numbers[6] for numbers in operations.values()),
        # NFS 3 has no operation that opens.
        "opens": sum(operations[name][0] for name in _OPENS if name in operations),
    }
    if all(len(operations[name]) == 9 for name in _DATA if name in operations):
        found["errors"] = sum(operations[name][8] for name in _DATA if name in operations)
    return found
