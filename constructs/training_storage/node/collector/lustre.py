"""Counters of a Lustre client: ``llite`` (programs), ``osc`` (data servers) and ``mdc`` (metadata servers).

The same text stands in ``/proc/fs/lustre`` and ``/sys/kernel/debug/lustre``, and ``lctl get_param`` prints it: a line a
counter, only for counters that have ever moved::

    snapshot_time             1606843200.123456789 secs.nsecs
    read_bytes                12 samples [bytes] 4096 1048576 12582912
    open                      3 samples [usecs] 11 90 140 12000

Source: ``lprocfs_stats_seq_show`` of Lustre 2.12 and 2.15; 2.15 adds sums of squares, and times of calls to ``llite``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .numbers import lines_of, whole

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TIMES = ("snapshot_time", "start_time", "elapsed_time")
_HEADER = re.compile(r"(llite|osc|mdc)\.([^=\s]+)\.stats=")


@dataclass(frozen=True)
class Counter:
    """One line.

    Attributes:
        count: Samples.
        total: Their sum; None where the line has none.
    """

    count: int
    total: int | None = None


def parse_stats(text: str) -> dict[str, Counter]:
    """Return the counters of one ``stats`` file by name, in its order; those that can't be read are not there.

    Args:
        text: The file.
    """
    found: dict[str, Counter] = {}
    twice: set[str] = set()
    for line in lines_of(text):
        words = line.split()
        if not words or not _NAME.fullmatch(words[0]):
            continue
        counter = _counter(words)
        if counter is None or words[0] in found:
            # Garbage, or two lines of one name: which of them is right nobody can say.
            twice.add(words[0])
            continue
        found[words[0]] = counter
    return {name: counter for name, counter in found.items() if name not in twice}


def _counter(words: list[str]) -> Counter | None:
    if (
        len(words) not in (4, 7, 8)
        or words[2] != "samples"
        or not (words[3].startswith("[") and words[3].endswith("]"))
    ):
        return None
    count = whole(words[1])
    if count is None:
        return None
    if len(words) == 4:
        return Counter(count)
    # The sum of squares overflows on a busy client, and nothing here needs it.
    least, most, total = (whole(word) for word in words[4:7])
    if least is None or most is None or total is None or least > most or total < most:
        return None
    return Counter(count, total)


def is_whole(text: str, found: dict[str, Counter]) -> bool:
    """Return whether each line of a text is a time or one of the counters that were found in it.

    Args:
        text: The file.
        found: Its counters.
    """
    names = [line.split(" ", 1)[0] for line in lines_of(text)]
    return names[:1] == ["snapshot_time"] and [each for each in names if each not in _TIMES] == list(found)


def split_parameters(text: str) -> dict[str, dict[str, str]]:
    """Return the texts that ``lctl get_param llite.*.stats osc.*.stats mdc.*.stats`` prints, by kind and device.

    Args:
        text: What it printed.
    """
    blocks: dict[tuple[str, str], list[str]] = {}
    current: list[str] | None = None
    for line in lines_of(text):
        header = _HEADER.match(line)
        if header is not None:
            current = blocks.setdefault((header.group(1), header.group(2)), [])
            rest = line[header.end() :]
            if rest:
                current.append(rest)
        elif "=" in line:
            current = None  # a parameter that was not asked for, or a header that is garbled
        elif current is not None:
            current.append(line)
    found: dict[str, dict[str, str]] = {}
    for (kind, device), lines in blocks.items():
        found.setdefault(kind, {})[device] = "".join(f"{line}\n" for line in lines)
    return found
