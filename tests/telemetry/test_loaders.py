"""What is watched behaves as it did: any iterable, its length, its errors; and PyTorch's loader tells what is ready."""

from __future__ import annotations

import asyncio
import copy
import gc
import itertools
import pickle
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.telemetry.simulated import Clock, Kept, Loader, recorder
from training_storage.node import telemetry as default
from training_storage.node.telemetry import Telemetry, nbytes


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def telemetry(clock: Clock, kept: Kept) -> Telemetry:
    return recorder(clock, kept)


class Data:
    """A data set, whose loader is made anew each epoch."""


class WorkersIterator:
    """What ``iter()`` of PyTorch's loader with workers gives: its attributes, its way to fetch, by a simulated clock.

    Workers take batches in turn and need a known time for each; what comes out of turn waits in ``_task_info``.
    """

    def __init__(self, clock: Clock, times: list[float], workers: int, prefetch: int) -> None:
        self._clock = clock
        self._times = times
        self._free = [clock.now] * workers
        self._data_queue = self
        self._queue: list[tuple[int, int]] = []
        self._task_info: dict[int, tuple[Any, ...]] = {}
        self._tasks_outstanding = 0
        self._send_idx = self._rcvd_idx = 0
        self.asked: list[tuple[int, int]] = []
        for _ in range(prefetch * workers):
            self._try_put_index()

    def qsize(self) -> int:
        return sum(done <= self._clock.now for done, _ in self._queue)

    def _try_put_index(self) -> None:
        if self._send_idx >= len(self._times):
            return
        worker = self._send_idx % len(self._free)
        self._free[worker] = max(self._free[worker], self._clock.now) + round(self._times[self._send_idx] * 1e9)
        self._queue.append((self._free[worker], self._send_idx))
        self._queue.sort()
        self._task_info[self._send_idx] = (worker,)
        self._tasks_outstanding += 1
        self._send_idx += 1

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if self._rcvd_idx >= len(self._times):
            raise StopIteration
        done = {number for when, number in self._queue if when <= self._clock.now}
        fetched = {number for number, info in self._task_info.items() if len(info) == 2}
        ready, begun = len(done | fetched), self._clock.now
        while len(self._task_info[self._rcvd_idx]) < 2:
            when, number = self._queue.pop(0)
            self._clock.now = max(self._clock.now, when)
            self._tasks_outstanding -= 1
            self._task_info[number] += (number,)
        self.asked.append((ready, self._clock.now - begun))
        _, batch = self._task_info.pop(self._rcvd_idx)
        self._rcvd_idx += 1
        self._try_put_index()
        return int(batch)


class WorkersLoader:
    def __init__(self, clock: Clock, times: list[float], workers: int = 4, prefetch: int = 2) -> None:
        self.dataset = Data()
        self.given = (clock, times, workers, prefetch)
        self.last: WorkersIterator | None = None

    def __len__(self) -> int:
        return len(self.given[1])

    def __iter__(self) -> Iterator[int]:
        self.last = WorkersIterator(*self.given)
        return self.last


@pytest.mark.parametrize(
    ("times", "step"),
    [
        pytest.param([0.1] * 400, 0.2, id="fast"),
        pytest.param([0.1] * 400, 0.01, id="slow"),
        pytest.param([0.3 if number % 7 == 0 else 0.02 for number in range(400)], 0.03, id="out of turn"),
    ],
)
def test_a_loader_with_workers_tells_how_many_batches_are_ready(
    times: list[float], step: float, telemetry: Telemetry, clock: Clock, kept: Kept
) -> None:
    loader = WorkersLoader(clock, times)
    begun = clock.now
    for _ in telemetry.watch(loader):
        clock.pass_s(step)
    telemetry.flush()
    assert loader.last is not None
    asked = loader.last.asked
    steps = [record["Steps"] for record in kept.records]
    assert sum(steps) == len(asked) == 400
    depth = sum(steps[at] * record["LoaderQueueDepth"] for at, record in enumerate(kept.records)) / 400
    assert depth == pytest.approx(sum(ready for ready, _ in asked) / 400, rel=0.02, abs=0.02)
    empty = sum(steps[at] * record["LoaderQueueEmptyShare"] for at, record in enumerate(kept.records)) / 400
    truth = sum(ready == 0 or wait > 0.25 * (clock.now - begun) / 400 for ready, wait in asked)
    assert empty == pytest.approx(100 * truth / 400, rel=0.02, abs=0.5)
    total = (clock.now - begun) * 1e-9
    assert kept.total("DataWaitTime") == pytest.approx(total - 400 * step, rel=0.01)


def test_a_fast_loader_has_batches_ready_and_a_slow_one_none(telemetry: Telemetry, clock: Clock, kept: Kept) -> None:
    for _ in telemetry.watch(WorkersLoader(clock, [0.1] * 100)):
        clock.pass_s(0.5)
    telemetry.flush()
    assert kept.last["LoaderQueueDepth"] > 6
    assert kept.last["LoaderQueueEmptyShare"] < 3
    for _ in telemetry.watch(WorkersLoader(clock, [0.5] * 100)):
        clock.pass_s(0.01)
    telemetry.flush()
    assert kept.last["LoaderQueueDepth"] < 2


def test_a_queue_that_does_not_know_its_size_is_no_queue(telemetry: Telemetry, clock: Clock, kept: Kept) -> None:
    class Unknown(WorkersIterator):
        def qsize(self) -> int:
            raise NotImplementedError

    class UnknownLoader(WorkersLoader):
        def __iter__(self) -> Iterator[int]:
            return Unknown(*self.given)

    for _ in telemetry.watch(UnknownLoader(clock, [0.5] * 20)):
        clock.pass_s(0.01)
    telemetry.close()
    assert "LoaderQueueDepth" not in kept.last
    assert kept.last["LoaderQueueEmptyShare"] > 20


def test_a_loader_made_anew_reads_the_same_data(telemetry: Telemetry, clock: Clock, kept: Kept) -> None:
    data = Data()
    for _ in range(3):
        loader = WorkersLoader(clock, [0.1] * 10)
        loader.dataset = data
        for _ in telemetry.watch(loader):
            clock.pass_s(0.1)
        telemetry.flush()
    assert kept.all("Epoch") == [1, 2, 3]


@pytest.mark.parametrize("source", [[1, 2, 3], (1, 2, 3), "abc", {"a": 1}, range(3), {1, 2}], ids=repr)
def test_any_iterable(source: Any, telemetry: Telemetry) -> None:
    watched = telemetry.watch(source)
    assert list(watched) == list(source)
    assert list(watched) == list(source)
    assert len(watched) == len(source)
    assert bool(watched)


def test_generators_and_iterators(telemetry: Telemetry) -> None:
    watched = telemetry.watch(each for each in range(5))
    assert next(watched) == 0
    assert list(watched) == [1, 2, 3, 4]
    assert list(watched) == []
    with pytest.raises(TypeError, match="has no len"):
        len(watched)
    assert not hasattr(telemetry.watch([1]), "__next__")
    assert list(itertools.islice(telemetry.watch(itertools.count()), 3)) == [0, 1, 2]


def test_only_next_is_needed_of_an_iterator(telemetry: Telemetry) -> None:
    class Bare:
        left = 3

        def __next__(self) -> int:
            self.left -= 1
            if self.left < 0:
                raise StopIteration
            return self.left

    class Source:
        def __iter__(self) -> Any:
            return Bare()

    assert list(telemetry.watch(Source())) == [2, 1, 0]


def test_attributes_are_the_loaders(telemetry: Telemetry, clock: Clock) -> None:
    loader = WorkersLoader(clock, [0.1])
    watched = telemetry.watch(loader)
    assert watched.dataset is loader.dataset
    watched.dataset = None
    assert loader.dataset is None
    assert not hasattr(watched, "set_epoch")


def test_errors_of_the_loader_pass_as_they_are(telemetry: Telemetry, clock: Clock, kept: Kept) -> None:
    error = RuntimeError("worker died")

    def broken() -> Iterator[int]:
        yield 1
        clock.pass_s(2)
        raise error

    with pytest.raises(RuntimeError) as caught:  # noqa: PT012 - a loop that raises
        for _ in telemetry.watch(broken()):
            clock.pass_s(1)
    assert caught.value is error
    telemetry.close()
    assert kept.last["Steps"] == 1
    assert kept.last["ElapsedTime"] == pytest.approx(3)
    with pytest.raises(TypeError, match="not iterable"):
        list(telemetry.watch(5))  # type: ignore[arg-type] # as wrong as it is without telemetry


def test_a_loop_that_is_left_has_ended(telemetry: Telemetry, clock: Clock, kept: Kept) -> None:
    loader = Loader(clock, [0.5] * 10)
    for number in telemetry.watch(loader):
        clock.pass_s(1)
        if number == 2:
            break
    clock.pass_s(1000)
    with pytest.raises(ValueError, match="of training"):  # noqa: PT012 - a loop that raises
        for _ in telemetry.watch(loader):
            clock.pass_s(1)
            raise ValueError("of training")
    gc.collect()
    clock.pass_s(1000)
    telemetry.close()
    assert kept.total("ElapsedTime") == pytest.approx(6)
    assert kept.total("Steps") == 4
    assert kept.all("StepTime") == pytest.approx([1.5] * 4)


def test_a_generator_that_is_left_goes_on_where_it_was(telemetry: Telemetry) -> None:
    source = iter(range(10))
    for number in telemetry.watch(source):
        if number == 2:
            break
    assert next(source) == 3


def test_a_batch_is_gone_when_training_lets_go_of_it(telemetry: Telemetry) -> None:
    class Batch:
        pass

    seen: weakref.ref[Batch] | None = None
    for batch in telemetry.watch(Batch() for _ in range(3)):
        assert seen is None or seen() is None
        seen = weakref.ref(batch)
        del batch
        assert seen() is None


def test_a_function_that_cannot_tell_bytes(
    telemetry: Telemetry, clock: Clock, kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    def size(batch: Any) -> int:
        raise KeyError("image")

    for _ in telemetry.watch(Loader(clock, [0.1] * 50), batch_bytes=size):
        clock.pass_s(0.1)
    telemetry.close()
    assert "TrainingReadBytes" not in kept.last
    assert kept.last["Steps"] == 50
    assert sum("batch_bytes" in message for message in caplog.messages) == 1


def test_bytes_of_batches() -> None:
    class Tensor:
        nbytes = 400

    batch = {"image": [Tensor(), Tensor()], "name": ("ab", b"cde"), "label": 7, "raw": memoryview(bytes(10))}
    assert nbytes(batch) == 815
    assert nbytes(None) == 0


def test_a_loop_that_only_a_traceback_holds_does_not_stand_in_the_way(
    telemetry: Telemetry, clock: Clock, kept: Kept
) -> None:
    held = iter(telemetry.watch(Loader(clock, [0.5] * 10)))
    next(held)
    telemetry.flush()
    for _ in telemetry.watch(Loader(clock, [0.5] * 10)):
        clock.pass_s(0.5)
    telemetry.flush()
    assert kept.last["Steps"] == 10
    assert kept.last["StepTime"] == pytest.approx([1] * 10)
    for _ in held:
        clock.pass_s(1)
    telemetry.flush()
    assert kept.last["StepTime"] == pytest.approx([1.5] * 9)


@pytest.mark.parametrize("size", [10**400, 2**64, -1, float("inf"), float("nan"), "many"])
def test_bytes_that_are_no_number_of_bytes_cost_no_record(
    size: Any, telemetry: Telemetry, clock: Clock, kept: Kept
) -> None:
    for _ in telemetry.watch(Loader(clock, [0.1] * 3), batch_bytes=lambda _: size):
        with telemetry.checkpoint("save", bytes=size):
            clock.pass_s(1)
    telemetry.flush()

    assert (kept.last["Steps"], kept.last["CheckpointBlockedTime"]) == (3, 3)
    assert not {"TrainingReadBytes", "CheckpointSaveBytes"} & set(kept.last)


class Shards:
    """A loader as PyTorch's is: it goes to other processes, and knows its sampler."""

    def __init__(self) -> None:
        self.batches = [1, 2, 3]
        self.epoch = 0

    def __iter__(self) -> Iterator[int]:
        return iter(self.batches)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_watched_loader_is_copied_and_pickled_as_the_loader_is(again: Callable[[Any], Any]) -> None:
    other = again(default.watch(Shards(), batch_bytes=nbytes))

    assert list(other) == [1, 2, 3]
    other.epoch = 4
    assert other._loader.epoch == 4
    assert other._recorder is default._default


def test_a_recorder_of_ones_own_is_made_anew_elsewhere(clock: Clock, kept: Kept) -> None:
    other = pickle.loads(pickle.dumps(recorder(clock, kept, metrics="off").watch([1, 2])))

    assert list(other) == [1, 2]
    assert other._recorder._given["workload"] == "w"


def test_data_is_not_held(telemetry: Telemetry, clock: Clock) -> None:
    """Seven lists of an earlier epoch would take the memory that training has."""

    class Batch:
        pass

    references = []
    for _ in range(10):
        shard = [Batch()]
        references.append(weakref.ref(shard[0]))
        for batch in telemetry.watch(shard):  # noqa: B007 - the name holds it
            clock.pass_s(1)
        del shard, batch
    gc.collect()

    assert sum(each() is not None for each in references) == 0


@pytest.mark.parametrize("data", [[1, 2, 3], (1, 2, 3), range(3), {"a": 1}])
def test_epochs_of_what_has_no_weak_references(data: Any, telemetry: Telemetry, clock: Clock, kept: Kept) -> None:
    for _ in range(3):
        for _ in telemetry.watch(data):
            clock.pass_s(1)
    telemetry.flush()

    assert kept.last["Epoch"] == 3


def test_what_is_no_iterable_comes_back_as_it_is(telemetry: Telemetry, caplog: pytest.LogCaptureFixture) -> None:
    class Later:
        def __init__(self) -> None:
            self.left = 2

        def __aiter__(self) -> Later:
            return self

        async def __anext__(self) -> int:
            self.left -= 1
            if self.left < 0:
                raise StopAsyncIteration
            return self.left

    async def train() -> list[int]:
        watched: Any = telemetry.watch(Later())  # type: ignore[arg-type] # the mistake that is tested
        return [each async for each in watched]

    assert asyncio.run(train()) == [1, 0]
    assert sum("no iterable" in message for message in caplog.messages) == 1


def test_items_are_the_loaders(telemetry: Telemetry) -> None:
    assert telemetry.watch([4, 5])[1] == 5
    assert telemetry.watch({"a": 6})["a"] == 6
    with pytest.raises(TypeError, match="'set' object is not subscriptable"):
        telemetry.watch({1})[0]


def test_an_iterator_that_is_left_goes_on_where_nothing_measures(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("of ours")

    monkeypatch.setattr(telemetry, "enter", broken)
    source = (each for each in range(4))
    for each in telemetry.watch(source):
        if each == 1:
            break
    assert list(source) == [2, 3]


class Unready:
    """A loader whose data set is not there yet."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @property
    def dataset(self) -> Any:
        raise RuntimeError("setup() comes first")

    def __iter__(self) -> Iterator[int]:
        for each in range(3):
            self._clock.pass_s(0.5)
            yield each


class Streaming:
    """A data set with neither a length nor room for a weak reference."""

    __slots__ = ()

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))

    def __len__(self) -> int:
        raise TypeError("a stream has no length")


@pytest.mark.parametrize("make", [Unready, lambda _: Streaming()])
def test_a_loader_that_tells_nothing_of_its_data_is_watched(
    make: Callable[[Clock], Any], telemetry: Telemetry, clock: Clock, kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in telemetry.watch(make(clock)):
        clock.pass_s(0.5)
    clock.pass_s(1000)
    telemetry.flush()

    assert kept.last["Steps"] == 3
    assert kept.last["ElapsedTime"] <= 3
    assert not caplog.messages


def test_a_loop_that_cannot_be_entered_does_not_last_for_ever(
    telemetry: Telemetry, clock: Clock, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("of ours")

    with monkeypatch.context() as patch:
        patch.setattr(telemetry._epochs, "begins", broken)
        assert list(telemetry.watch([1, 2])) == [1, 2]
    clock.pass_s(50)
    for _ in telemetry.watch([1, 2]):
        clock.pass_s(1)
    telemetry.flush()

    assert kept.total("ElapsedTime") == 2
