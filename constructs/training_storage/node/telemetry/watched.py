"""A loader that is watched: it behaves as the loader itself does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from . import quiet
from .loops import BatchBytes, Loop

if TYPE_CHECKING:
    from .recorder import Recorder

_OWN = frozenset(("_batch_bytes", "_device", "_inner", "_loader", "_name", "_recorder"))


def watched(recorder: Recorder, loader: Iterable[Any], name: str, batch_bytes: BatchBytes, device: object) -> Watched:
    """Return a loader, watched; one that is an iterator stays one. What is no iterable comes back as it is.

    Args:
        recorder: What measures.
        loader: The loader.
        name: Its name.
        batch_bytes: As for ``Telemetry.watch``.
        device: As for ``Telemetry.watch``.
    """
    kind = WatchedIterator if hasattr(type(loader), "__next__") else Watched
    if not any(hasattr(type(loader), name) for name in ("__iter__", "__next__", "__getitem__")):
        quiet.warn("iterable", "a %s is no iterable, and is not watched", type(loader).__name__)
        return loader  # type: ignore[return-value] # an asynchronous one, or a mistake: training finds what it gave
    return kind(recorder, loader, name, batch_bytes, device)


class Watched:
    """A loader whose passes are measured; everything else of it is as it was, its length and attributes too."""

    def __init__(
        self, recorder: Recorder, loader: Iterable[Any], name: str, batch_bytes: BatchBytes, device: object
    ) -> None:
        self._recorder = recorder
        self._loader = loader
        self._name = name
        self._batch_bytes = batch_bytes
        self._device = device

    def __iter__(self) -> Iterator[Any]:
        try:
            if not self._recorder.starts():
                return iter(self._loader)
        except Exception as error:
            quiet.warn("watch", "a loader is not watched: %r", error)
            return iter(self._loader)
        return self._measured()

    def _measured(self) -> Iterator[Any]:
        recorder, loader = self._recorder, self._loader
        loop: Loop | None = None
        try:
            loop = recorder.enter(self._name, self._batch_bytes, self._device, loader)
        except Exception as error:
            quiet.warn("watch", "a loader is not watched: %r", error)
        if loop is None:
            # Not "yield from": an iterator that is left would be closed, and could not go on elsewhere.
            for batch in loader:  # noqa: UP028 - as said
                yield batch
            return
        whole = False
        try:
            # Starting the workers of a loader is a wait for its first batch.
            iterator = iter(loader)
            loop.takes(iterator)
            came, ask, following = loop.came, loop.ask, iterator.__next__
            try:
                # No name holds the batch, so that it is gone as soon as training lets go of it.
                while True:
                    yield came(following())
                    ask()
            except StopIteration:
                whole = True
                loop.over()
        finally:
            recorder.leave(loop, loader, whole)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type] # what has no length says so itself

    def __getitem__(self, key: Any) -> Any:
        return self._loader[key]  # type: ignore[index] # what has no items says so itself

    def __bool__(self) -> bool:
        return bool(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name in _OWN or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        return getattr(self._loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self._loader, name, value)


class WatchedIterator(Watched):
    """An iterator that is watched: ``next()`` works on it, too."""

    def __next__(self) -> Any:
        inner = self.__dict__.get("_inner")
        if inner is None:
            inner = iter(self)
            self._inner = inner
        return next(inner)
