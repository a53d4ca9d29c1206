"""Which epoch it is: told by training, or by loaders that are iterated over again."""

from __future__ import annotations

import weakref
from typing import Any


class Epochs:
    """Counts whole passes over a loader, or takes what training says."""

    def __init__(self) -> None:
        self._told: int | None = None
        self._shift = 0
        self._passes: list[tuple[Any, int]] = []

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
        self._passes = [each for each in self._passes if each[0]() is not None and each[0]() is not data][-7:]
        self._passes.append((_reference(data), number))

    def _whole(self, loader: object) -> int:
        data = _data(loader)
        return next((number for seen, number in self._passes if seen() is data), 0)


def _data(loader: object) -> object:
    # A loader that is made anew for each epoch reads the same data set.
    found = getattr(loader, "dataset", None)
    return loader if found is None else found


def _reference(data: object) -> Any:
    try:
        return weakref.ref(data)
    except TypeError:
        # Lists and the like: held, so that no other one has their place in memory.
        return lambda: data
