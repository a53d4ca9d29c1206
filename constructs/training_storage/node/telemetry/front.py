"""What training calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from . import quiet
from .checkpoints import Checkpoint
from .loops import BatchBytes
from .recorder import Recorder
from .watched import Watched, watched


class Telemetry(Recorder):
    """Measures one process of a run and writes a record each interval.

    Everything is measured in the threads that train, and written in one of its own, which training never waits for.
    What goes wrong is logged once; nothing is raised but what the loader itself raises.

    Args:
        metrics: Where records go; left out: ``TRAINING_STORAGE_METRICS``, else the file of the node, else ``off``.
        workload: Name of the workload; left out: ``TRAINING_STORAGE_WORKLOAD``, else that of the node.
        run: Id of the run; left out: ``TRAINING_STORAGE_RUN``, else the launcher's, else the time of the start.
        rank: Number of this process; left out: that of the launcher, else 0.
        instance: Id of the node; left out: that of the instance, else the host's name.
        interval_s: Seconds of one record; left out: ``TRAINING_STORAGE_METRICS_INTERVAL``, else 60.
        per_rank: Whether each rank has metrics of its own; left out: ``TRAINING_STORAGE_METRICS_PER_RANK``, else yes.
        sink: Takes the records in place of what ``metrics`` names.
        clock: Steady ns. With a clock of one's own nothing runs beside: a record is written by the step after which it
            is due, and by ``flush()``.
        wall: Seconds since 1970.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # A watched loader goes to other processes as the loader does: there the environment names the sink.
        from . import _default  # the package is loaded whole by now

        return _again, (None if self is _default else dict(self._given),)

    def __copy__(self) -> Telemetry:
        return self

    def __deepcopy__(self, memory: dict[int, Any]) -> Telemetry:
        return self

    def watch(
        self,
        loader: Iterable[Any],
        *,
        name: str = "train",
        batch_bytes: BatchBytes = None,
        device: object = None,
    ) -> Watched:
        """Return the loader, watched: iterate over it as over the loader itself.

        Args:
            loader: Any iterable or iterator. Iterated over again it is the next epoch.
            name: Loops of one name make the steps of training; one inside another is no part of the outer one's steps
                where its name is another. Names such as ``eval``, ``val`` or ``test`` never make steps.
            batch_bytes: Bytes of a batch, or a function that tells them; left out: not counted.
            device: ``cuda`` or an adapter to measure waits on the GPU's stream; left out: by the host's clock.
        """
        return watched(self, loader, name, batch_bytes, device)

    def checkpoint(self, kind: str, *, bytes: Any = None) -> Checkpoint:
        """Return a block that measures a save or a restore.

        Args:
            kind: ``save`` or ``restore``.
            bytes: Bytes of it; left out, and not set on the block: not counted.
        """
        return Checkpoint(self, kind, bytes)

    def step(self) -> None:
        """A step ends here: where one takes several batches, or none comes from a watched loader."""
        try:
            if self.starts():
                self.stepped()
        except Exception as error:
            quiet.warn("step", "a step is not measured: %r", error)

    def epoch(self, number: int) -> None:
        """An epoch begins.

        Args:
            number: Its number. Where the first one told is 0, numbers are taken to begin there.
        """
        try:
            if self.starts():
                self.told(number)
        except Exception as error:
            quiet.warn("epoch", "an epoch is not counted: %r", error)

    def configure(
        self,
        *,
        metrics: str | None = None,
        workload: str | None = None,
        run: str | None = None,
        rank: int | str | None = None,
        instance: str | None = None,
        interval_s: float | None = None,
        per_rank: bool | None = None,
    ) -> None:
        """Say by code what the environment says otherwise; what was measured before is written as it was.

        Args:
            metrics: As in the class, and so the others.
            workload: Name of the workload.
            run: Id of the run.
            rank: Number of this process.
            instance: Id of the node.
            interval_s: Seconds of one record.
            per_rank: Whether each rank has metrics of its own.
        """
        try:
            self.close()
            new = {
                "metrics": metrics,
                "workload": workload,
                "run": run,
                "rank": rank,
                "instance": instance,
                "interval_s": interval_s,
                "per_rank": per_rank,
            }
            self._given.update({key: value for key, value in new.items() if value is not None})
            self._silent = False
            if self._active:
                self.starts()
        except Exception as error:
            quiet.warn("configure", "telemetry is configured in part: %r", error)

    def lightning_callback(self, **options: Any) -> Any:
        """Return a callback for ``Trainer(callbacks=[...])`` of PyTorch Lightning.

        Args:
            options: ``batch_bytes`` and ``device`` as for ``watch``.
        """
        from .lightning import callback  # a framework is loaded where it is used

        return callback(self, **options)

    def hugging_face_callback(self, **options: Any) -> Any:
        """Return a callback for ``Trainer(callbacks=[...])`` of Hugging Face Transformers.

        Args:
            options: ``device`` as for ``watch``.
        """
        from .hugging_face import callback  # a framework is loaded where it is used

        return callback(self, **options)


def _again(given: dict[str, Any] | None) -> Telemetry:
    """Return the recorder of this process for one that comes from another.

    Args:
        given: What code said of it; None for the one that the package's functions are of.
    """
    from . import _default  # the package is loaded whole by now

    return _default if given is None else Telemetry(**given)
