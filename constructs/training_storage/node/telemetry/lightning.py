"""A callback for PyTorch Lightning."""

# ruff: noqa: ARG002 - hooks have the signatures that their framework gives them

from __future__ import annotations

import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any, Callable

from .checkpoints import Checkpoint
from .hooks import Hooked, safely

if TYPE_CHECKING:
    from .loops import BatchBytes
    from .recorder import Recorder

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
"""The new name and the old one; what is loaded already is what training uses."""


def callback(recorder: Recorder, *, batch_bytes: BatchBytes = None, device: object = None) -> Any:
    """Return a callback that measures waits, steps, epochs, saves and restores of ``Trainer.fit``.

    The wait lies between the end of a batch and the begin of the next one, less validation and saves. Saves and
    restores are measured around ``trainer.save_checkpoint`` and the strategy's ``load_checkpoint``, because hooks tell
    only where a save begins and where a restore ends.

    Args:
        recorder: What measures.
        batch_bytes: As for ``Telemetry.watch``.
        device: As for ``Telemetry.watch``.

    Raises:
        ImportError: PyTorch Lightning is not installed.
    """
    base = _base()
    hooked = Hooked(recorder, batch_bytes, device)
    undo: list[tuple[Any, str, Any]] = []

    def measured(owner: Any, name: str, kind: str) -> None:
        inner: Callable[..., Any] | None = getattr(owner, name, None)
        if not callable(inner) or any(owner is changed and name == named for changed, named, _ in undo):
            return

        def outer(*given: Any, **named: Any) -> Any:
            with Checkpoint(recorder, kind, None):
                return inner(*given, **named)

        undo.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, outer)

    class TrainingStorageTelemetry(base):  # type: ignore[misc, valid-type] # the base is found when it is asked for
        """Measures with ``training_storage.node.telemetry``."""

        def __reduce__(self) -> tuple[Any, ...]:
            # A trainer goes to the processes that it spawns with its callbacks; this class is not to be found by name.
            return functools.partial(callback, recorder, batch_bytes=batch_bytes, device=device), ()

        @safely
        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            if stage == "fit":
                measured(trainer, "save_checkpoint", "save")
                measured(getattr(trainer, "strategy", None), "load_checkpoint", "restore")

        @safely
        def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
            hooked.end()
            while undo:
                owner, name, before = undo.pop()
                if before is None:
                    delattr(owner, name)
                else:
                    setattr(owner, name, before)

        @safely
        def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            hooked.begin(int(trainer.current_epoch) + 1)

        @safely
        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            hooked.batch(batch)

        @safely
        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            hooked.ready()

        @safely
        def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
            hooked.pause()

        @safely
        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            hooked.resume()

        @safely
        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            hooked.end()

        @safely
        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            hooked.end()

        @safely
        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            hooked.end()
            recorder.flush()

    return TrainingStorageTelemetry()


def _base() -> Any:
    loaded = [name for name in _PACKAGES if name in sys.modules]
    for name in (*loaded, *_PACKAGES):
        try:
            return importlib.import_module(name).Callback
        except ImportError:  # noqa: PERF203 - two names at most
            continue
    raise ImportError("PyTorch Lightning is not installed: neither lightning nor pytorch_lightning can be imported")
