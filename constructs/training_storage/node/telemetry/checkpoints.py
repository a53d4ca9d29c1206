"""Saves and restores: how long each took, and how long it held the loop up."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import quiet
from .cells import MOST_BYTES

if TYPE_CHECKING:
    from .loops import Loop
    from .recorder import Recorder

KINDS = ("save", "restore")


class Checkpoint:
    """What ``with telemetry.checkpoint("save") as save:`` gives.

    In the thread of the loop it holds the loop up from begin to end, and this time is neither a wait for data nor part
    of a step. Before any loop the main thread stands for it, between two loops that of the last one: accelerators are
    idle there, too. In any other thread it is a save beside training.

    Attributes:
        bytes: Bytes saved or restored, where they are known; may be set inside the block.
    """

    def __init__(self, recorder: Recorder, kind: str, size: Any) -> None:
        self._recorder = recorder
        self._kind = kind
        self.bytes = size
        self.thread = 0
        self._counts = False
        self._begun_ns = 0
        self._mark_ns = 0
        self._loops: tuple[Loop, ...] = ()
        self._alone = False

    @property
    def blocks(self) -> bool:
        """Whether it holds a loop up."""
        return bool(self._loops) or self._alone

    def __enter__(self) -> Checkpoint:
        try:
            self._enter()
        except BaseException as error:
            # Whatever a signal raises here: nothing ends a block that did not begin.
            self._forget()
            if not isinstance(error, Exception):
                raise
            quiet.warn("checkpoint", "a checkpoint is not measured: %r", error)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._exit(whole=kind is None)
        except Exception as own:
            quiet.warn("checkpoint", "a checkpoint is not measured: %r", own)
        finally:
            self._forget()

    def _enter(self) -> None:
        recorder = self._recorder
        if not recorder.starts():
            return
        if self._kind not in KINDS:
            quiet.warn("kind", "checkpoint(%r) is neither %s: it is not measured", self._kind, " nor ".join(KINDS))
            return
        self.thread = threading.get_ident()
        with recorder.lock:
            # A save inside a save, such as a framework's around one's own, is one save.
            if self.thread in recorder.checkpoints:
                return
            recorder.checkpoints[self.thread] = self
            self._counts = True
            self._begun_ns = self._mark_ns = now = recorder.clock()
            self._loops = recorder.loops_of(self.thread)
            self._alone = not self._loops and recorder.leads(self.thread)
            if self._alone:
                recorder.active(now, 1)

    def _exit(self, whole: bool) -> None:
        recorder = self._recorder
        if not self._counts:
            outer = recorder.checkpoints.get(self.thread)
            if outer is not None and outer.bytes is None:
                outer.bytes = self.bytes
            return
        self._counts = False
        with recorder.lock:
            now = recorder.clock()
            if recorder.checkpoints.get(self.thread) is self:
                del recorder.checkpoints[self.thread]
            taken = now - self._begun_ns
            self.split(now)
            for loop in self._loops:
                loop.exclude(taken)
            recorder.exclude_free(self.thread, taken)
            if self._alone:
                self._alone = False
                recorder.active(now, -1)
            if whole:
                cell = recorder.cell
                (cell.saves if self._kind == "save" else cell.restores).add([taken * 1e-9])
                size = self._size()
                if size is not None and self._kind == "save":
                    cell.save_bytes = (cell.save_bytes or 0) + size

    def _forget(self) -> None:
        """Leave nothing behind: later saves of this thread would seem to be parts of this one."""
        recorder = self._recorder
        if recorder.checkpoints.get(self.thread) is self or self._alone:
            with recorder.lock:
                if recorder.checkpoints.get(self.thread) is self:
                    del recorder.checkpoints[self.thread]
                if self._alone:
                    self._alone = False
                    recorder.active(recorder.clock(), -1)

    def split(self, now: int) -> None:
        """An interval ends, or the checkpoint; with the lock held.

        Args:
            now: The time.
        """
        if self.blocks:
            self._recorder.cell.blocked_ns += now - self._mark_ns
        self._mark_ns = now

    def since(self) -> int:
        """Return when it began, ns."""
        return self._begun_ns

    def _size(self) -> int | None:
        try:
            size = None if self.bytes is None else int(self.bytes)
            if size is None or 0 <= size <= MOST_BYTES:
                return size
        except Exception:  # noqa: S110 - the warning below says it
            pass
        quiet.warn("bytes", "the bytes of a checkpoint are not counted: bytes=%r", self.bytes)
        return None
