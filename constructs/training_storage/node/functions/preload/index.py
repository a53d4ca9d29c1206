"""One call of the state machine ``NAME-preload``: ``{"step": "preload", "state": {...}}`` becomes the next state."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from ... import preload_steps
from ...aws import Aws, connect
from ...plain import plain


def handler(event: Mapping[str, Any], _context: object = None, *, aws: Aws | None = None) -> dict[str, Any]:
    """Do what can be done now, and return the state with ``status``.

    Args:
        event: As the state machine gives it.
        _context: Not used.
        aws: Clients. Left out: those of the function's role.
    """
    state = {
        **event.get("state", {}),
        "workload": os.environ["WORKLOAD"],
        "lake_bucket": os.environ["LAKE_BUCKET"],
    }
    return plain(preload_steps.run(state, aws or connect(), time.time))
