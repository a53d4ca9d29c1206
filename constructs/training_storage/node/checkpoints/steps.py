"""What the name of a checkpoint says: a step, so that a later one takes its place, or nothing of the kind.

``run1/step-300`` is one of many, and the newest of them are enough. ``run1/best`` and ``run1/last`` are written again
and again, ``run1/rank_0`` and ``run1/model`` are parts of something: nothing tells that another one replaces them.
"""

from __future__ import annotations

import re

_STEP = re.compile(
    r"(?:^|[-_.=])(?:global_?step|steps?|iter(?:ation)?|checkpoint|ckpt|epoch|ep|batch|ba|update)[-_=]?\d",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
_STAMP = 8
"""Digits that a name has at least when it holds a date; ranks, stages and sizes of models have fewer."""


def says_step(path: str) -> bool:
    """Return whether the name of a folder says when in a run it was saved.

    Args:
        path: The folder.
    """
    name = path.rpartition("/")[2]
    return bool(_STEP.search(name)) or name.isdigit() or sum(each.isdigit() for each in name) >= _STAMP


def form(path: str) -> str:
    """Return the name of a folder without its numbers, and without what marks it as temporary: ``step-#``.

    Args:
        path: The folder.
    """
    return _DIGITS.sub("#", bare(path.rpartition("/")[2])).lower()


def bare(name: str) -> str:
    """Return a name without what marks it as temporary."""
    if name.startswith(("tmp-", ".tmp-")):
        return name[name.index("-") + 1 :]
    for suffix in (".tmp", ".partial", "_tmp"):
        if name.endswith(suffix):
            return name[: -len(suffix)]
    return name
