"""A callback for the Trainer of Hugging Face Transformers."""

# ruff: noqa: ARG002 - hooks have the signatures that their framework gives them

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

from .hooks import Hooked, safely

if TYPE_CHECKING:
    from .recorder import Recorder


def callback(recorder: Recorder, *, device: object = None) -> Any:
    """Return a callback that measures waits, steps, epochs and saves of ``Trainer.train``.

    The wait lies between the end of a step and the begin of the next one, less what the Trainer does there: it logs,
    evaluates and saves, in this order, and calls a hook when each is done. With gradient accumulation the batches of
    one step are fetched before the hook that begins it, or (before Transformers 4.46) within it, where no hook sees
    them; a Trainer whose ``get_train_dataloader`` returns a watched loader sees each in every version, and both work
    together.

    Args:
        recorder: What measures.
        device: As for ``Telemetry.watch``.

    Raises:
        ImportError: Transformers is not installed.
    """
    base = importlib.import_module("transformers").TrainerCallback
    hooked = Hooked(recorder, None, device)
    clock = recorder.clock

    class TrainingStorageTelemetry(base):  # type: ignore[misc, valid-type] # the base is found when it is asked for
        """Measures with ``training_storage.node.telemetry``."""

        def __reduce__(self) -> tuple[Any, ...]:
            # A trainer goes to the processes that it spawns with its callbacks; this class is not to be found by name.
            return functools.partial(callback, recorder, device=device), ()

        mark = 0
        evaluates = False

        @safely
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.evaluates = False
            hooked.begin(None)

        @safely
        def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            hooked.begin(int(state.epoch or 0) + 1)

        @safely
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            hooked.batch()

        @safely
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            hooked.ready()
            self.mark = clock()

        @safely
        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            # What follows may evaluate and save; its time begins here.
            self.mark = clock()

        @safely
        def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.evaluates = True

        @safely
        def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            # Logging reads the loss, and so waits for the GPU: part of the step, and no wait for data. The log of an
            # evaluation comes before the hook that ends it.
            if not self.evaluates:
                hooked.no_wait()
                self.mark = clock()

        @safely
        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self.evaluates = False
            now = clock()
            hooked.exclude(now - self.mark)
            self.mark = now

        @safely
        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            now = clock()
            recorder.saved(now - self.mark)
            self.mark = now

        @safely
        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            hooked.end()
            recorder.flush()

    return TrainingStorageTelemetry()
