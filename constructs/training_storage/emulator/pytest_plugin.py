"""A fixture for tests that deploy: installed with the package, idle until a test asks for it.

Importing this module loads no moto: pytest loads every installed plugin, also where the ``emulator`` extra is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from training_storage.emulator.session import Emulator


@pytest.fixture
def aws_emulator() -> Iterator[Emulator]:
    """An emulated AWS for one test: account 123456789012, region us-east-1, empty at the start."""
    from training_storage.emulator.errors import EmulatorUnavailableError
    from training_storage.emulator.session import emulator

    try:
        running = emulator()
        aws = running.__enter__()
    except EmulatorUnavailableError as error:
        pytest.fail(str(error), pytrace=False)
    try:
        yield aws
    finally:
        running.__exit__(None, None, None)
