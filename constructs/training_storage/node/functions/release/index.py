"""Works one step of a release; the state machine calls it step by step, and after every wait."""

from __future__ import annotations

import logging
import os
from typing import Any

from ...aws import Aws, connect
from ...plain import plain
from ...release.steps import run

_LOG = logging.getLogger("release")
_LOG.setLevel(logging.INFO)
_CLIENTS: list[Aws] = []


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Work a step and return the state that the next one gets.

    Args:
        event: ``step``, and ``state`` as the last call returned it; of the first call the input of the
            release, there or under ``input``.
        _context: Context of the run.

    Raises:
        ClientError: AWS was throttled or failed: the state machine calls again.
        BotoCoreError: AWS was not reached: likewise.
    """
    if not _CLIENTS:
        _CLIENTS.append(connect())
    state = {**(event.get("input") or {}), **(event.get("state") or {})}
    state["workload"], state["lake_bucket"] = os.environ["WORKLOAD"], os.environ["LAKE_BUCKET"]
    state["empties"] = os.environ.get("EMPTIES_DIRECTORY_BUCKETS") == "true"  # whatever the input says
    state.setdefault("action", "check")
    answer = run(event["step"], state, _CLIENTS[0])
    _LOG.info("%s: %s %s", event["step"], answer["status"], answer.get("refused") or answer.get("waiting_for") or "")
    return plain(answer)
