"""Callbacks in stand-ins of their frameworks, which call hooks in the order and with the arguments of the real ones."""

from __future__ import annotations

import copy
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.telemetry.simulated import Clock, Kept, Loader, recorder
from training_storage.node import telemetry as default


class LightningCallback:
    """Hooks of ``lightning.pytorch.Callback`` (2.x) that fit() calls here."""

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None: ...
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None: ...
    def on_train_start(self, trainer: Any, pl_module: Any) -> None: ...
    def on_train_end(self, trainer: Any, pl_module: Any) -> None: ...
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None: ...
    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None: ...
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None: ...
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None: ...
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None: ...
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None: ...
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None: ...


class LightningTrainer:
    """The order of ``Trainer.fit``: restore, epochs, batches, validation, and saves by a callback of its own."""

    def __init__(self, clock: Clock, callback: Any) -> None:
        self.clock = clock
        self.callback = callback
        self.current_epoch = 0
        self.strategy = SimpleNamespace(load_checkpoint=lambda path: clock.pass_s(20))
        self.saves = 0

    def call(self, hook: str, *given: Any) -> None:
        getattr(self.callback, hook)(self, "module", *given)

    def save_checkpoint(self, path: str, weights_only: bool = False) -> str:
        self.clock.pass_s(3)
        self.saves += 1
        return path

    def fit(self, loader: Any, epochs: int, fails: bool = False) -> None:
        self.call("setup", "fit")
        self.strategy.load_checkpoint("last.ckpt")
        self.call("on_train_start")
        for self.current_epoch in range(epochs):
            self.call("on_train_epoch_start")
            for number, batch in enumerate(loader):
                self.call("on_train_batch_start", batch, number)
                self.clock.pass_s(0.9)
                if fails and number == 3:
                    self.call("on_exception", ValueError("of training"))
                    self.call("teardown", "fit")
                    return
                self.call("on_train_batch_end", None, batch, number)
                if number == 4:
                    assert self.save_checkpoint("a.ckpt") == "a.ckpt"
            self.call("on_validation_start")
            self.clock.pass_s(5)
            self.save_checkpoint("best.ckpt")
            self.call("on_validation_end")
            self.call("on_train_epoch_end")
        self.call("on_train_end")
        self.call("teardown", "fit")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture(params=["lightning.pytorch", "pytorch_lightning"])
def lightning(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(request.param)
    module.Callback = LightningCallback  # type: ignore[attr-defined] # a stand-in module
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    if "." in request.param:
        monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, request.param, module)


@pytest.mark.usefixtures("lightning")
@pytest.mark.parametrize("watches", [False, True], ids=["callback", "callback and watch"])
def test_lightning(watches: bool, clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept, interval_s=3600)
    callback = telemetry.lightning_callback()
    assert isinstance(callback, LightningCallback)
    trainer = LightningTrainer(clock, callback)
    loader: Any = Loader(clock, [0.1] * 10)
    trainer.fit(telemetry.watch(loader) if watches else loader, 3)
    telemetry.close()
    assert kept.total("Steps") == 30
    assert kept.all("StepTime") == pytest.approx([1] * 30)
    assert kept.total("DataWaitTime") == pytest.approx(3)
    assert kept.all("CheckpointSaveTime") == pytest.approx([3] * 6)
    assert kept.all("RestoreTime") == pytest.approx([20])
    assert kept.total("CheckpointBlockedTime") == pytest.approx(38)
    assert kept.total("ElapsedTime") == pytest.approx(30 + 18 + 20 + 15)
    assert kept.all("Epoch")[-1] == 3
    assert trainer.saves == 6
    assert "save_checkpoint" not in vars(trainer)


@pytest.mark.usefixtures("lightning")
def test_lightning_with_bytes_of_batches_and_an_exception(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    LightningTrainer(clock, telemetry.lightning_callback(batch_bytes=7)).fit(Loader(clock, [0.1] * 10), 1, fails=True)
    clock.pass_s(100)
    telemetry.close()
    assert kept.total("TrainingReadBytes") == 28
    assert kept.total("ElapsedTime") == pytest.approx(4 + 20)


class TrainerCallback:
    """Events of ``transformers.TrainerCallback``."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None: ...


class HuggingFaceTrainer:
    """The order of ``Trainer._inner_training_loop``: batches of a step, its substeps, then log, evaluate and save."""

    def __init__(self, clock: Clock, callback: Any) -> None:
        self.clock = clock
        self.callback = callback
        self.state = SimpleNamespace(epoch=0.0, global_step=0)

    def call(self, event: str, **more: Any) -> None:
        getattr(self.callback, event)("args", self.state, "control", model=None, train_dataloader=None, **more)

    def train(self, loader: Any, epochs: int, accumulated: int = 1) -> None:
        self.call("on_train_begin")
        for epoch in range(epochs):
            self.state.epoch = float(epoch)
            self.call("on_epoch_begin")
            batches: Iterator[Any] = iter(loader)
            while True:
                taken = [batch for _, batch in zip(range(accumulated), batches, strict=False)]
                if not taken:
                    break
                self.call("on_step_begin")
                for number, _ in enumerate(taken):
                    self.clock.pass_s(0.8 / accumulated)
                    if number < len(taken) - 1:
                        self.call("on_substep_end")
                self.state.global_step += 1
                self.call("on_step_end")
                if self.state.global_step % 5 == 0:
                    self.clock.pass_s(0.1)
                    self.call("on_log", logs={})
                if self.state.global_step % 10 == 0:
                    for _ in range(4):
                        self.clock.pass_s(1)
                        self.call("on_prediction_step")
                    self.call("on_log", logs={})
                    self.call("on_evaluate", metrics={})
                    self.clock.pass_s(6)
                    self.call("on_save")
            self.call("on_epoch_end")
        self.call("on_train_end")


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("transformers")
    module.TrainerCallback = TrainerCallback  # type: ignore[attr-defined] # a stand-in module
    monkeypatch.setitem(sys.modules, "transformers", module)


@pytest.mark.usefixtures("transformers")
@pytest.mark.parametrize("watches", [False, True], ids=["callback", "callback and watch"])
@pytest.mark.parametrize("accumulated", [1, 4])
def test_hugging_face(accumulated: int, watches: bool, clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept, interval_s=3600)
    callback = telemetry.hugging_face_callback()
    assert isinstance(callback, TrainerCallback)
    loader: Any = Loader(clock, [0.2 / accumulated] * 10 * accumulated)
    trainer = HuggingFaceTrainer(clock, callback)
    trainer.train(telemetry.watch(loader) if watches else loader, 2, accumulated)
    telemetry.close()
    assert kept.total("Steps") == 20
    assert kept.total("StepTime") == pytest.approx(20 * 1.0 + 4 * 0.1, rel=0.01)
    assert kept.total("DataWaitTime") == pytest.approx(4)
    assert kept.all("CheckpointSaveTime") == pytest.approx([6, 6])
    assert kept.total("CheckpointBlockedTime") == pytest.approx(12)
    assert kept.total("ElapsedTime") == pytest.approx(20 + 0.4 + 8 + 12)
    assert kept.all("Epoch")[-1] == 2


@pytest.mark.usefixtures("transformers")
def test_a_hook_that_fails_raises_nothing(clock: Clock, kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    telemetry = recorder(clock, kept)
    callback = telemetry.hugging_face_callback()
    callback.on_train_begin("args", None, "control")
    callback.on_epoch_begin("args", None, "control")
    callback.on_step_begin("args", None, "control")
    callback.on_step_end("args", None, "control")
    assert len(caplog.messages) == 1


def test_frameworks_that_are_not_there(clock: Clock, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    telemetry = recorder(clock, kept)
    with pytest.raises(ImportError, match="Lightning is not installed"):
        telemetry.lightning_callback()
    with pytest.raises(ImportError):
        telemetry.hugging_face_callback()


@pytest.mark.usefixtures("lightning", "transformers")
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
@pytest.mark.parametrize("make", [default.lightning_callback, default.hugging_face_callback])
def test_callbacks_go_to_processes_that_are_spawned(again: Callable[[Any], Any], make: Callable[..., Any]) -> None:
    one = make(device="cpu")
    other = again(one)

    assert other is not one
    assert type(other).__mro__[1] is type(one).__mro__[1]
