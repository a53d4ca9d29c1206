"""Figures of the training itself that several rules need: time, waits, GPUs, saves. Shares are 0 to 1."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from training_storage.node.metrics.model import FLEET, INSTANCE, NODE, RANK, RANK_NAME, RUN
from training_storage.operations.diagnosis import borders
from training_storage.operations.diagnosis.observation import Observation, Series, merged
from training_storage.operations.diagnosis.outliers import whole_wait

_MB = 1e6
MINUTE_S = 60.0
"""What services publish a sample of."""


class TrainingLook:
    """An observation and what follows from it; every figure is None where its series are missing.

    Periods count in which the newest run reports: what was before it or came after it says nothing of it. Waiting for
    data is that of the median rank, or of more than a fifth of the ranks, in the periods after the first epoch (all of
    them, where no epoch is told, or none but the first): single slow ranks, and files that come from S3 for the first
    time, have their own rules.

    Args:
        observation: The observation.
    """

    def __init__(self, observation: Observation) -> None:
        self.seen = observation
        self.expected = observation.expected

    # -- time

    @cached_property
    def epochs(self) -> dict[float, int]:
        """Epoch by the end of the period: what was told last holds until the next is told."""
        told = self.seen.one("Epoch", *FLEET)
        if told is None or not told.points:
            return {}
        moments = sorted({moment for each in self.seen.all("ElapsedTime", *FLEET) for moment, _ in each.points})
        values, found, current = dict(told.points), {}, int(told.points[0][1])
        for moment in moments:
            current = int(values.get(moment, current))
            found[moment] = current
        return found

    @cached_property
    def trained(self) -> frozenset[float] | None:
        """Ends of the periods in which the newest run reports, or any where runs are not told; None where all count.

        Periods with less than half the rank time of the fullest one are begun or ended ones: their sums are too small.
        """
        told = [each for each in self.seen.all("ElapsedTime", *RANK) if each.dimensions[RUN] == self.newest_run]
        times = merged(told or self.seen.all("ElapsedTime", *FLEET))
        least = max(times.values(), default=0.0) / 2
        found = frozenset(moment for moment, value in times.items() if value > 0 and value >= least)
        return found if len(found) >= 2 else None

    def in_training(self, series: Series | None) -> list[tuple[float, float]]:
        """Return the points of the periods in which the newest run reports."""
        points = () if series is None else series.points
        return [point for point in points if self.trained is None or point[0] in self.trained]

    @cached_property
    def steady(self) -> frozenset[float] | None:
        """Ends of the periods of the newest run after its first epoch; None where all count."""
        later = frozenset(
            moment
            for moment, epoch in self.epochs.items()
            if epoch > 1 and (self.trained is None or moment in self.trained)
        )
        return later if len(later) >= 2 else self.trained

    def in_steady(self, series: Series | None) -> list[float]:
        """Return the values of the periods that count."""
        if series is None:
            return []
        return [value for moment, value in series.points if self.steady is None or moment in self.steady]

    def rate(self, series: Series | None) -> float | None:
        """Return the mean rate by the second of a series of sums, over the periods that count."""
        values = self.in_steady(series)
        return sum(values) / (len(values) * self.seen.period_s) if values else None

    def mean(self, metric: str, *names: str, statistic: str | None = None) -> float | None:
        """Return the mean over periods and series; None without any."""
        values = [
            value for each in self.seen.all(metric, *names, statistic=statistic) for value in self.in_steady(each)
        ]
        return statistics.fmean(values) if values else None

    def _fleet_sum(self, metric: str) -> float | None:
        values = self.in_steady(self.seen.one(metric, *FLEET))
        return sum(values) if values else None

    # -- waiting

    @cached_property
    def ranks(self) -> dict[tuple[str, str], float]:
        """Share of its time that each rank of the newest run waits for data, by node and rank."""
        return self._shares(
            [each for each in self.seen.all("ElapsedTime", *RANK) if each.dimensions[RUN] == self.newest_run],
            [each for each in self.seen.all("DataWaitTime", *RANK) if each.dimensions[RUN] == self.newest_run],
            lambda of: (of[INSTANCE], of[RANK_NAME]),
        )

    @cached_property
    def nodes_waiting(self) -> dict[tuple[str, str], float]:
        """The same by node, where no ranks are told."""
        elapsed, waited = self.seen.all("ElapsedTime", *NODE), self.seen.all("DataWaitTime", *NODE)
        return self._shares(elapsed, waited, lambda of: (of[INSTANCE], ""))

    @cached_property
    def newest_run(self) -> str:
        """The run that reported last; of several that go on side by side, the one of most rank time; empty without."""
        ends: dict[str, float] = {}
        times: dict[str, float] = {}
        for each in self.seen.all("ElapsedTime", *RANK):
            if each.points:
                run = each.dimensions[RUN]
                ends[run] = max(ends.get(run, 0.0), each.points[-1][0])
                times[run] = times.get(run, 0.0) + each.total
        last = max(ends.values(), default=0.0) - 2 * self.seen.period_s
        return max((run for run, end in ends.items() if end >= last), key=lambda run: (times[run], run), default="")

    def _shares(
        self,
        elapsed: Iterable[Series],
        waited: Iterable[Series],
        key: Callable[[Mapping[str, str]], tuple[str, str]],
    ) -> dict[tuple[str, str], float]:
        waits = {key(each.dimensions): sum(self.in_steady(each)) for each in waited}
        wholes = {key(each.dimensions): sum(self.in_steady(each)) for each in elapsed}
        return {name: waits[name] / whole for name, whole in wholes.items() if whole > 0 and name in waits}

    @cached_property
    def fleet_wait(self) -> float | None:
        """Share of the time of all ranks that is waiting for data."""
        waited, elapsed = self._fleet_sum("DataWaitTime"), self._fleet_sum("ElapsedTime")
        return waited / elapsed if waited is not None and elapsed else None

    @cached_property
    def wait(self) -> float | None:
        """Share of the time of the ranks that is waiting for data: the median one's, or that of a large part."""
        each = self.ranks or self.nodes_waiting
        return whole_wait(each) if each else self.fleet_wait

    @cached_property
    def waits(self) -> bool:
        """Whether the median rank waits for data so much that a reason is looked for, and its loader has no batch."""
        if self.wait is None or self.wait < borders.WAIT:
            return False
        return self.queue_empty is None or self.queue_empty >= borders.QUEUE_EMPTY

    @cached_property
    def queue_empty(self) -> float | None:
        """Share of batches that were asked for while none was ready."""
        found = self.mean("LoaderQueueEmptyShare", *FLEET)
        return None if found is None else found / 100

    @cached_property
    def gpu(self) -> float | None:
        """Utilisation of the GPUs."""
        found = self.mean("nvidia_smi_utilization_gpu", *FLEET)
        if found is None:
            found = self.mean("nvidia_smi_utilization_gpu", *NODE)
        return None if found is None else found / 100

    @cached_property
    def cpu(self) -> float | None:
        """Share of their time in which the CPUs of the median node are busy."""
        found = self.by_node("cpu_usage_active")
        if found:
            return self._between_saves(statistics.median(found.values()) / 100)
        fleet = self.mean("cpu_usage_active", *FLEET)
        return None if fleet is None else self._between_saves(fleet / 100)

    def by_node(self, metric: str) -> dict[str, float]:
        """Return the mean of a metric by node."""
        found = {each.dimensions[INSTANCE]: self.in_steady(each) for each in self.seen.all(metric, *NODE)}
        return {node: statistics.fmean(values) for node, values in found.items() if values}

    # -- saves

    @cached_property
    def save_moments(self) -> frozenset[float]:
        """Ends of the periods in which a save ended."""
        return frozenset(moment for moment, _ in self.in_training(self.seen.one("CheckpointSaveTime", *FLEET)))

    @cached_property
    def blocked(self) -> float | None:
        """Share of the time of all ranks in which saves held the loop up; restores do not count."""
        blocked = self.in_training(self.seen.one("CheckpointBlockedTime", *FLEET))
        elapsed = sum(value for _, value in self.in_training(self.seen.one("ElapsedTime", *FLEET)))
        if not blocked or not elapsed:
            return None
        restored = {moment for each in self.seen.all("RestoreTime", *FLEET) for moment, _ in each.points}
        return sum(value for moment, value in blocked if moment not in restored) / elapsed

    def _between_saves(self, share: float) -> float:
        """Return how much of a limit is used while the loop is not held up: means have the saves in them as well."""
        return min(share / (1 - min(self.blocked or 0.0, 0.8)), max(share, 1.0))
