"""Waits that pass on the clock of a test, for commands that are called as a user calls them.

``sleep=time.sleep`` is bound where a function is defined: replacing ``time.sleep`` reaches only what is imported later,
and what is imported then keeps the sleep of that test for all that follow.
"""

from __future__ import annotations

import inspect
import pkgutil
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FunctionType, ModuleType

import pytest

from training_storage import node, operations
from training_storage.node import checkpoints, commands

MODULES = [
    import_module(f"{package.__name__}.{each.name}")
    for package in (operations, node, checkpoints, commands)
    for each in pkgutil.iter_modules(package.__path__)
]


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    for value in vars(module).values():
        if inspect.isclass(value):
            yield from (each for each in vars(value).values() if isinstance(each, FunctionType))
        elif isinstance(value, FunctionType):
            yield value


def pass_waits(monkeypatch: pytest.MonkeyPatch, sleep: Callable[[float], object]) -> None:
    """Let nothing of a command or of the agent wait for real, wherever it says so: as a default, or in its body."""
    real = time.sleep
    for function in (each for module in MODULES for each in _functions(module)):
        given = function.__defaults__
        if given and real in given:
            monkeypatch.setattr(function, "__defaults__", tuple(sleep if each is real else each for each in given))
        if function.__kwdefaults__ and function.__kwdefaults__.get("sleep") is real:
            monkeypatch.setitem(function.__kwdefaults__, "sleep", sleep)
    monkeypatch.setattr("time.sleep", sleep)
