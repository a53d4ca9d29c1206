"""What counters moved by between two looks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

Counters = Mapping[str, int]
Devices = Mapping[str, Counters]
"""Counters by device: a file system, a server's target, a disk."""

Moved = dict[str, dict[str, Optional[int]]]

WHOLE = "(whole)"
"""A counter that says that every line of a device's text could be read: then one that is not listed stood at zero."""

UNREADABLE = "(unreadable)"
"""Stands among what a device moved by where the device was there and could not be read, now or at the look before."""

MAX_DEVICES = 4096
"""More than any file system has targets; what is above is left out, so that memory stays bounded."""


class Differences:
    """Remembers the last look at one source, and nothing else."""

    def __init__(self) -> None:
        self._last: dict[str, dict[str, int]] | None = None

    def look(self, devices: Devices | None) -> Moved:
        """Return what each counter moved by since the look before, by device.

        A device that could not be read, now or then, makes every sum over all devices unknown, for as long as it lasts.
        A counter that fell (a reset, or a wrap) and one that could be read then and can't be now have None. A device
        that is new has nothing: what it did before it was seen is not of this interval. One that is gone has nothing.

        Args:
            devices: The counters now, none for a device that is there and can't be read; None where the source can't be
                read.
        """
        last = self._last
        self._last = None
        if devices is None:
            return {}
        now = {device: dict(counters) for device, counters in list(devices.items())[:MAX_DEVICES]}
        self._last = now
        return {
            device: self._moved(last[device], counters)
            for device, counters in now.items()
            if last is not None and device in last
        }

    @staticmethod
    def _moved(before: Counters, now: Counters) -> dict[str, int | None]:
        moved: dict[str, int | None] = {name: None for name in before if name not in now}
        if not before or not now:
            moved[UNREADABLE] = None
        following = False  # whether a later line was there at the look before, so that its text went on behind this
        for name in reversed(list(now)):
            start = before.get(name)
            if start is None and following and WHOLE in before:
                start = 0
            if start is not None:
                moved[name] = now[name] - start if now[name] >= start else None
            following = following or (name in before and name != WHOLE)
        return moved


def total(moved: Mapping[str, Mapping[str, int | None]], name: str) -> int | None:
    """Return the sum of one counter over all devices that have it; None where none has, or one of them is not known.

    Args:
        moved: Differences by device.
        name: Name of the counter.
    """
    found = [counters[name] for counters in moved.values() if name in counters]
    return sum(each or 0 for each in found) if found and not is_unknown(moved, name) else None


def is_unknown(moved: Mapping[str, Mapping[str, int | None]], name: str) -> bool:
    """Return whether a device has moved by something of one counter that nobody knows.

    Args:
        moved: Differences by device.
        name: Name of the counter.
    """
    return any(UNREADABLE in each or (name in each and each[name] is None) for each in moved.values())
