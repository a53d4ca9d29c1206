"""matplotlib without what it says of its own settings, and a plain word where these keep it from loading."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from training_storage.errors import TrainingStorageError


@contextmanager
def quiet_matplotlib() -> Iterator[None]:
    """Load matplotlib, and keep what it says of folders, fonts and settings to itself meanwhile.

    A settings file with mistakes, a home that cannot be written or a first list of fonts change no page, and are no
    news to who asked for one. Where matplotlib is not installed, nothing happens.

    Raises:
        TrainingStorageError: Settings for matplotlib keep it from loading: a backend that does not exist, or a settings
            file that is no text.
    """
    log = logging.getLogger("matplotlib")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        _load()
        yield
    finally:
        log.setLevel(level)


def _load() -> None:
    try:
        import matplotlib  # noqa: F401 - loaded for those who draw
    except ImportError:
        return  # said by who needs it
    except Exception as error:  # a backend, a file that is no text, a locale: each raises its own
        raise TrainingStorageError(
            f"matplotlib, which draws the charts, cannot be loaded with its settings: {error}; fix: unset MPLBACKEND "
            "and MATPLOTLIBRC, or repair the file matplotlibrc of this folder or of matplotlib's configuration folder"
        ) from error
