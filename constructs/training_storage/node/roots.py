"""Where files of a node lie, and which node this is. Tests point ``TS_ROOT`` at a folder that stands for a node."""

from __future__ import annotations

import os
import socket

CLOUD_INSTANCE = "/var/lib/cloud/data/instance-id"


def rooted(path: str) -> str:
    """Return where an absolute path of a node lies: itself, on a node.

    Args:
        path: Absolute path; an empty one stays empty.
    """
    return os.environ.get("TS_ROOT", "") + path if path else path


def instance_id() -> str:
    """Return the id of this instance; empty where nothing tells it."""
    given = os.environ.get("TRAINING_STORAGE_INSTANCE_ID", "")
    if given:
        return given
    try:
        with open(rooted(CLOUD_INSTANCE), encoding="utf-8") as stream:  # noqa: PTH123 - as in ``settings``
            return stream.read().strip()
    except (OSError, ValueError):
        return ""


def node_name() -> str:
    """Return what leases and status call this node: its instance id, else its host name."""
    return instance_id() or socket.gethostname()
