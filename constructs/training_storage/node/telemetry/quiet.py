"""Telemetry never speaks up twice, and never stands in training's way: what goes wrong in it is logged once."""

from __future__ import annotations

import contextlib
import logging

LOGGER = "training_storage.telemetry"

_said: set[str] = set()


def warn(about: str, message: str, *arguments: object) -> None:
    """Log a warning, once for what it is about.

    Args:
        about: What it is about; a second warning of the same is not logged.
        message: Text of the message, with places for the arguments.
        arguments: What goes there.
    """
    if about in _said:
        return
    _said.add(about)
    # At the end of the interpreter logging may be gone, and nobody listens.
    with contextlib.suppress(Exception):
        logging.getLogger(LOGGER).warning(message + " (said once)", *arguments)


def forget() -> None:
    """Say everything again; for tests."""
    _said.clear()
