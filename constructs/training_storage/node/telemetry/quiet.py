"""Telemetry never speaks up twice, and never stands in training's way: what goes wrong in it is logged once."""

from __future__ import annotations

import contextlib
import logging
import signal
from types import CodeType

LOGGER = "training_storage.telemetry"

_said: set[str] = set()


def warn(about: str, message: str, *arguments: object) -> None:
    """Log a warning, once for what it is about.

    Args:
        about: What it is about; a second warning of the same is not logged.
        message: Text of the message, with places for the arguments.
        arguments: What goes there.

    Raises:
        Exception: An argument is an exception that a handler of a signal raised while telemetry had the thread: it is
            meant for training.
    """
    for each in arguments:
        if isinstance(each, Exception) and _is_of_a_handler(each):
            raise each
    if about in _said:
        return
    _said.add(about)
    # At the end of the interpreter logging may be gone, and nobody listens.
    with contextlib.suppress(Exception):
        logging.getLogger(LOGGER).warning(message + " (said once)", *arguments)


def _is_of_a_handler(error: Exception) -> bool:
    codes: set[CodeType] = set()
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        code = getattr(getattr(handler, "__func__", handler), "__code__", None)
        if isinstance(code, CodeType):
            codes.add(code)
    place = error.__traceback__
    while codes and place is not None:
        if place.tb_frame.f_code in codes:
            return True
        place = place.tb_next
    return False


def forget() -> None:
    """Say everything again; for tests."""
    _said.clear()
