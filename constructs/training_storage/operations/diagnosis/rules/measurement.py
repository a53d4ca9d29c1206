"""Rules of measuring: figures that say less than it seems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from training_storage.node.metrics.model import FLEET
from training_storage.operations.diagnosis import borders
from training_storage.operations.diagnosis.finding import (
    MEASUREMENT,
    Evidence,
    Finding,
    Rule,
    confidence,
    strength,
)

if TYPE_CHECKING:
    from training_storage.operations.diagnosis.look import Look

_LEAST_MB_PER_S = 1.0
"""What programs read at least, for a rate to be worth a word."""


def page_cache_only(look: Look) -> Finding | None:
    """Programs read many times what came from storage: their rate is that of memory."""
    programs = look.rate(look.seen.one("ApplicationReadBytes", *FLEET))
    storage = look.rate(look.seen.one("StorageReadBytes", *FLEET))
    times = look.cached
    if programs is None or storage is None or times is None or programs < _LEAST_MB_PER_S * 1e6:
        return None
    if times < borders.PAGE_CACHE:
        return None
    limit = look.expected.node_limit_mb_per_s if look.expected else None
    return Finding(
        id="page-cache-only",
        title="reads come from the page cache of the nodes: this rate says nothing about storage",
        kind=MEASUREMENT,
        confidence=confidence([strength(times, borders.PAGE_CACHE, 4 * borders.PAGE_CACHE)], [True]),
        evidence=(
            Evidence(name="read by programs", observed=programs / 1e6, unit="MB/s"),
            Evidence(
                name="read from storage", observed=storage / 1e6, expected=limit, unit="MB/s",
                against="limit of a node" if limit else "",
            ),
            Evidence(name="times", observed=times, expected=borders.PAGE_CACHE, against="border"),
        ),
        next_step="measure with more data than memory, or after `sync; echo 3 | sudo tee /proc/sys/vm/drop_caches` on "
        "each node, or with `fio --direct=1`",
        **look.gain(None),
    )  # fmt: skip


RULES = (
    Rule(
        id="page-cache-only",
        kind=MEASUREMENT,
        condition="programs read 5 times or more what nodes got from storage; a verdict of its own only where no busy "
        "GPU says that training goes well",
        step="measure without the page cache",
        needs=("ApplicationReadBytes", "StorageReadBytes"),
        check=page_cache_only,
    ),
)
