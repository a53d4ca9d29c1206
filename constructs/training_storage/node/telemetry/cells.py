"""What one rank did in one interval: sums that grow by the step, and the values that follow from them."""

from __future__ import annotations

from .digest import Digest

FOLD = 1_024
"""Steps whose times are kept as they are before they are folded; a list of so many takes some 40 KB."""

EMPTY_NS = 1_000_000
EMPTY_SHARE = 0.01
"""Where a loader does not tell what is ready: none was if the wait was longer than 1 ms and 1 % of a mean step."""

LATE_SHARE = 0.25
"""Where it tells: the batch in turn was not ready if the wait was longer than 1 ms and a quarter of a mean step.
Fetching one that is ready takes some milliseconds between processes."""

MOST_BYTES = 1 << 63
"""No batch and no checkpoint has more, and sums of so many are still numbers of CloudWatch."""

_S = 1e-9


class Cell:
    """One interval.

    Attributes:
        steps: Times of steps that ended, ns, not folded yet.
        waits: Waits for a batch of loaders that do not tell what is ready, ns.
        known: Waits where the loader tells, ns.
        judged: Waits of the host where the GPU's own are measured: they only say whether a batch was ready.
        depths: Batches that were ready when one was asked for, and the wait for it, ns.
        more_wait_ns: Waits that stand in none of these lists, less what an earlier interval had of them.
        elapsed_ns: Time in which a loop was watched.
        blocked_ns: Time in which saves or restores held it up.
        watched: Whether waits are known at all.
        read_bytes: Bytes of the batches; None where their size is not known.
        saves: Times of saves, s.
        restores: Times of restores, s.
        save_bytes: Bytes saved; None where nobody told.
        epoch: Number of the epoch; None where nothing tells.
        mean_before_ns: Mean time of a step in the interval before.
        begun_ns: When the interval began.
        length_ns: How long it was; 0 while it lasts.
        streamed: Whether the waits are the GPU's own.
    """

    __slots__ = (
        "_asked",
        "_depth_asked",
        "_depth_sum",
        "_empty",
        "_times",
        "_wait_ns",
        "begun_ns",
        "blocked_ns",
        "depths",
        "elapsed_ns",
        "epoch",
        "judged",
        "known",
        "length_ns",
        "mean_before_ns",
        "more_wait_ns",
        "read_bytes",
        "restores",
        "save_bytes",
        "saves",
        "steps",
        "streamed",
        "waits",
        "watched",
    )

    def __init__(self, epoch: int | None = None) -> None:
        self.steps: list[int] = []
        self.waits: list[int] = []
        self.known: list[int] = []
        self.judged: list[int] = []
        self.depths: list[tuple[int, int]] = []
        self.more_wait_ns = 0
        self.elapsed_ns = 0
        self.blocked_ns = 0
        self.watched = False
        self.read_bytes: int | None = None
        self.saves = Digest()
        self.restores = Digest()
        self.save_bytes: int | None = None
        self.epoch = epoch
        self.streamed = False
        self.begun_ns = 0
        self.length_ns = 0
        self._times = Digest()
        self.mean_before_ns = 0.0
        self._wait_ns = 0
        self._asked = 0
        self._empty = 0
        self._depth_asked = 0
        self._depth_sum = 0

    def mean_step_ns(self) -> float:
        """Return the mean time of a step, of the interval before where none ended in this one."""
        return self._times.mean if self._times.count else self.mean_before_ns

    def fold(self) -> None:
        """Fold the lists into sums."""
        self._times.add(self.steps)
        self._wait_ns += sum(self.waits) + sum(self.known)
        longest = max(EMPTY_NS, EMPTY_SHARE * self.mean_step_ns())
        for waits in (self.waits, self.judged):
            self._asked += len(waits)
            self._empty += sum([wait > longest for wait in waits])
        self._asked += len(self.depths)
        late = max(EMPTY_NS, LATE_SHARE * self.mean_step_ns())
        self._empty += sum([not ready or wait > late for ready, wait in self.depths])
        self._depth_asked += len(self.depths)
        self._depth_sum += sum([ready for ready, _ in self.depths])
        for each in (self.steps, self.waits, self.known, self.judged):
            each.clear()
        self.depths.clear()

    def values(self) -> dict[str, float | list[float]]:
        """Return the values by metric; none where nothing happened."""
        self.fold()
        found: dict[str, float | list[float]] = {}
        if self.elapsed_ns > 0:
            found["ElapsedTime"] = _seconds(self.elapsed_ns)
            found["CheckpointBlockedTime"] = _seconds(min(self.blocked_ns, self.elapsed_ns))
            if self.watched:
                # A wait that the GPU's clock measured may end a little after the host's interval.
                wait = min(max(self._wait_ns + self.more_wait_ns, 0), self.elapsed_ns)
                found["DataWaitTime"] = _seconds(wait)
                found["DataWaitShare"] = round(100 * wait / self.elapsed_ns, 6)
            found["Steps"] = float(self._times.count)
        if self._times.count:
            # A step may end as its interval begins, with no time in it.
            found["Steps"] = float(self._times.count)
            found["StepTime"] = [_seconds(each) for each in self._times.values()]
            variation = self._times.variation()
            if variation is not None:
                found["StepTimeVariation"] = round(100 * variation, 6)
        if self._asked:
            found["LoaderQueueEmptyShare"] = round(100 * self._empty / self._asked, 6)
        if self._depth_asked:
            found["LoaderQueueDepth"] = round(self._depth_sum / self._depth_asked, 6)
        if self.read_bytes is not None:
            found["TrainingReadBytes"] = float(self.read_bytes)
        if self.saves.count:
            found["CheckpointSaveTime"] = [round(each, 9) for each in self.saves.values()]
        if self.save_bytes is not None:
            found["CheckpointSaveBytes"] = float(self.save_bytes)
        if self.restores.count:
            found["RestoreTime"] = [round(each, 9) for each in self.restores.values()]
        if found and self.epoch is not None:
            found["Epoch"] = float(self.epoch)
        return found


def _seconds(nanoseconds: float) -> float:
    return round(nanoseconds * _S, 9)
