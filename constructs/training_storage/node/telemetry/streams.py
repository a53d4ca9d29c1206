"""How long a GPU had nothing to do while a batch was waited for: measured on its own stream, without waiting for it.

The host asks for the next batch as soon as it has handed the last step to the GPU, which may still work on it for
long. Time in ``next()`` is therefore the most that the GPU can have waited, and often far more than it did. An event
that is put into the stream when a batch is asked for is passed when the GPU is done with the steps before it; one that
is put there when the batch has come is passed at once by a GPU that waits, and right after the first by one that does
not. The time between both, which the GPU's clock takes, is the wait that the loader has caused.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from . import quiet

PENDING = 256
"""Pairs that are kept until the GPU has passed them. A GPU so far behind was not idle when the batch came."""


class Event(Protocol):
    """A place in a stream, as ``torch.cuda.Event(enable_timing=True)`` has it."""

    def query(self) -> bool:
        """Return whether the stream has passed it."""
        ...

    def elapsed_time(self, later: Any, /) -> float:
        """Return the milliseconds from it to a later one; both are passed."""
        ...


class Stream(Protocol):
    """What puts events into a stream."""

    def record(self) -> Event:
        """Put an event into the stream, behind everything that was handed to it; it must not wait."""
        ...


class CudaStream:
    """The current stream of the current CUDA device.

    Raises:
        ImportError: There is no torch.
        RuntimeError: torch sees no CUDA device.
    """

    def __init__(self) -> None:
        import torch  # no dependency of ours: it is there where a device is named

        if not torch.cuda.is_available():
            raise RuntimeError("torch sees no CUDA device")
        self._new = torch.cuda.Event

    def record(self) -> Event:
        """Put an event into the stream."""
        event: Event = self._new(enable_timing=True)
        event.record()  # type: ignore[attr-defined] # the adapter's own step, no part of the protocol
        return event


def stream_of(device: object) -> Stream | None:
    """Return what records events for a device; None, and a warning, where there is nothing.

    Args:
        device: None for the host's clock, ``cuda`` (or ``cuda:0``, or a torch device of this kind), or an adapter.
    """
    if device is None or str(device) in ("", "cpu", "host"):
        return None
    if hasattr(device, "record"):
        return device
    try:
        if str(device).split(":")[0] == "cuda":
            return CudaStream()
        raise ValueError(f"it is neither cuda nor an object with record()")  # noqa: F541, TRY301 - one text below
    except Exception as error:
        quiet.warn("device", "waits are measured by the host's clock: device %r: %s", device, error)
        return None


class Pairs:
    """Events of one loop, two for each batch.

    Args:
        stream: What records them.
    """

    __slots__ = ("_asked", "_pending", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._asked: Event | None = None
        self._pending: deque[tuple[Event, Event, int, int]] = deque()

    def ask(self) -> None:
        """A batch is asked for."""
        self._asked = self._stream.record()

    def come(self, host_ns: int, counted_ns: int) -> int:
        """It has come; return what is to be added to the waits by now, ns.

        Args:
            host_ns: How long the host waited.
            counted_ns: What of it stands in an earlier interval already.
        """
        asked, self._asked = self._asked, None
        if asked is None:
            return 0
        self._pending.append((asked, self._stream.record(), host_ns, counted_ns))
        return self.passed()

    def passed(self) -> int:
        """Return the waits of the pairs that the stream has passed, ns, and forget these."""
        total = 0
        pending = self._pending
        while pending:
            asked, came, host_ns, counted_ns = pending[0]
            if came.query():
                # The host's wait is the most that it can be: what is above it is the time between two events.
                exposed = min(max(int(asked.elapsed_time(came) * 1e6), 0), host_ns)
            elif len(pending) > PENDING:
                exposed = 0
            else:
                break
            total += exposed - counted_ns
            pending.popleft()
        return total

    def rest(self) -> int:
        """Return the waits of all that is left.

        An event that was recorded while the GPU was idle is passed at once. One that is not passed yet was therefore
        recorded while the GPU worked, and nothing was exposed; but for the very last, which has had no time.
        """
        total = self.passed()
        for asked, _, host_ns, counted_ns in self._pending:
            total += (host_ns if asked.query() else 0) - counted_ns
        self._pending.clear()
        return total
