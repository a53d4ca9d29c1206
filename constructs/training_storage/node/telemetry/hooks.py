"""A loop that is seen from outside: by the hooks that a framework calls around its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from . import quiet

if TYPE_CHECKING:
    from .loops import BatchBytes, Loop
    from .recorder import Recorder


def safely(hook: Callable[..., None]) -> Callable[..., None]:
    """Make a hook that raises nothing into training.

    Args:
        hook: The hook.
    """

    def called(*given: Any, **named: Any) -> None:
        try:
            hook(*given, **named)
        except Exception as error:
            quiet.warn("hook", "telemetry misses some of a framework's hooks: %s: %r", hook.__name__, error)

    called.__name__ = hook.__name__
    called.__doc__ = hook.__doc__
    return called


class Hooked:
    """Turns begins and ends of batches into a loop.

    Args:
        recorder: What measures.
        batch_bytes: As for ``Telemetry.watch``.
        device: As for ``Telemetry.watch``.
    """

    def __init__(self, recorder: Recorder, batch_bytes: BatchBytes, device: object) -> None:
        self.recorder = recorder
        self._batch_bytes = batch_bytes
        self._device = device
        self._loop: Loop | None = None
        self._paused: tuple[int, int] | None = None

    def begin(self, epoch: int | None) -> None:
        """A pass over the data begins: from now on a batch is waited for.

        Args:
            epoch: Number of the epoch, from 1; None where it goes on.
        """
        if not self.recorder.starts():
            return
        if self._loop is None:
            self._loop = self.recorder.enter("train", self._batch_bytes, self._device)
        if epoch is not None:
            self.recorder.at_epoch(epoch)

    def batch(self, batch: Any = None) -> None:
        """A batch has come, and its step begins."""
        if self._loop is not None and self._loop.waiting:
            self._loop.came(batch)

    def ready(self) -> None:
        """The step ended: the next batch is waited for."""
        if self._loop is not None and not self._loop.waiting:
            self._loop.ask()

    def no_wait(self) -> None:
        """What passed since was no wait for data."""
        if self._loop is not None:
            self._loop.no_wait()

    def exclude(self, taken_ns: int) -> None:
        """Time that ended now was neither a wait for data nor part of a step.

        Args:
            taken_ns: So much.
        """
        if self._loop is not None and taken_ns > 0:
            with self.recorder.lock:
                self._loop.exclude(taken_ns)

    def pause(self) -> None:
        """Something begins that is neither a wait for data nor part of a step, such as validation."""
        if self._paused is None and self._loop is not None:
            self._paused = (self.recorder.clock(), self._loop.excluded_ns)

    def resume(self) -> None:
        """It ended."""
        paused, self._paused = self._paused, None
        if paused is not None and self._loop is not None:
            # A save meanwhile has been taken out already.
            self.exclude(self.recorder.clock() - paused[0] - (self._loop.excluded_ns - paused[1]))

    def end(self) -> None:
        """There is no further batch."""
        loop, self._loop = self._loop, None
        self._paused = None
        if loop is not None:
            self.recorder.leave(loop)
