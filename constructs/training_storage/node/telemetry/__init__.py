"""Telemetry of training code: how long accelerators wait for data and for saves, by the rank, once a minute.

::

    from training_storage.node import telemetry

    for batch in telemetry.watch(loader):
        train(batch)
        if due():
            with telemetry.checkpoint("save", bytes=size):
                save()

Standard library alone. It says nothing and costs next to nothing where ``TRAINING_STORAGE_METRICS`` is ``off`` or not
set outside of a node of ours; see docs/telemetry.md.
"""

from __future__ import annotations

from .checkpoints import Checkpoint
from .front import Telemetry
from .loaders import nbytes
from .watched import Watched

__all__ = [
    "Checkpoint",
    "Telemetry",
    "Watched",
    "checkpoint",
    "close",
    "configure",
    "epoch",
    "flush",
    "hugging_face_callback",
    "lightning_callback",
    "nbytes",
    "step",
    "watch",
]

_default = Telemetry()

watch = _default.watch
checkpoint = _default.checkpoint
step = _default.step
epoch = _default.epoch
configure = _default.configure
flush = _default.flush
close = _default.close
lightning_callback = _default.lightning_callback
hugging_face_callback = _default.hugging_face_callback
