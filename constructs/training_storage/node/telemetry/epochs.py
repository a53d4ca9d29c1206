"""Which epoch it is: told by training, or by loaders that are iterated over again."""

from __future__ import annotations

import weakref
from collections.abc import Sized


class Epochs:
    """Counts whole passes over a loader, or takes what training says."""

    def __init__(self) -> None:
        self._told: int | None = None
        self._shift = 0
        self._passes: list[tuple[_Seen, int]] = []

    def told(self, number: int) -> int:
        """Take a number from training and return that of the epoch, from 1.

        Args:
            number: The number; where the first one is 0, all begin there.
        """
        number = int(number)
        if self._told is None:
            self._shift = 1 if number == 0 else 0
        self._told = number + self._shift
        return self._told

    def begins(self, loader: object) -> int | None:
        """A pass begins; return the number of its epoch, None where nothing tells.

        Args:
            loader: The loader. An iterator has one pass alone, which says nothing of epochs.
        """
        if self._told is not None:
            return self._told
        if hasattr(type(loader), "__next__"):
            return None
        return 1 + self._whole(loader)

    def ends(self, loader: object) -> None:
        """A whole pass ended.

        Args:
            loader: The loader.
        """
        if hasattr(type(loader), "__next__"):
            return
        number = self._whole(loader) + 1
        data = _data(loader)
        self._passes = [each for each in self._passes if not each[0].is_gone() and not each[0].was(data)][-7:]
        self._passes.append((_Seen(data), number))

    def _whole(self, loader: object) -> int:
        data = _data(loader)
        return next((number for seen, number in self._passes if seen.was(data)), 0)


def _data(loader: object) -> object:
    # A loader that is made anew for each epoch reads the same data set.
    try:
        found = getattr(loader, "dataset", None)
    except Exception:
        # A property that is not ready yet: it is the loader's affair, and training may never ask.
        found = None
    return loader if found is None else found


class _Seen:
    """Tells a loader again that was seen before, and does not hold it: its data may be all that memory has room for.

    Lists and the like know no weak references. Another one may come to lie in the place of one that is gone; it is
    taken for the same only where its length, its first and its last item have their places too.

    Args:
        data: The loader, or its data set.
    """

    __slots__ = ("_marks", "_reference")

    def __init__(self, data: object) -> None:
        self._reference: weakref.ref[object] | None = None
        self._marks: tuple[object, ...] = ()
        try:
            self._reference = weakref.ref(data)
        except TypeError:
            self._marks = _marks(data)

    def is_gone(self) -> bool:
        """Return whether it is known to be no more."""
        return self._reference is not None and self._reference() is None

    def was(self, data: object) -> bool:
        """Return whether this is the one that was seen.

        Args:
            data: Another one, or the same.
        """
        return self._reference() is data if self._reference is not None else self._marks == _marks(data)


def _marks(data: object) -> tuple[object, ...]:
    if isinstance(data, range):
        return (range, data)
    ends: tuple[int, ...] = ()
    if isinstance(data, (list, tuple)) and data:
        ends = (id(data[0]), id(data[-1]))
    try:
        length = len(data) if isinstance(data, Sized) else 0
    except Exception:
        # What streams has no length, and says so when it is asked.
        length = 0
    return (type(data), id(data), length, *ends)
