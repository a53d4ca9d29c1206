"""Borders of the rules. Where a source has a number it stands beside it; the others are ours, and stand in the docs."""

from __future__ import annotations

from typing import Final

WAIT: Final = 0.05
"""Share of its time that a GPU waits for data, from which a rule looks for the reason. MLPerf Storage takes 90 % of
accelerator utilisation as enough for its hardest workloads; half of what is left there is ours."""
WAIT_PLAIN: Final = 0.15

QUEUE_EMPTY: Final = 0.1
"""Share of batches that were asked for while none was ready, below which the loader keeps up by itself. It is low, as
one stall of many steps is one batch that was not ready."""
QUEUE_FULL: Final = 0.5
"""Times the share of waiting, below which the share of batches that were not ready does not explain the waiting."""

GPU_BUSY: Final = 0.8
"""Utilisation from which GPUs count as busy."""

LIMIT: Final = 0.85
"""Share of a limit from which it counts as reached: means over minutes never show a limit at 100 %."""
LIMIT_PLAIN: Final = 0.95
FAR: Final = 0.6
"""Share of a limit below which it is not what anything waits for."""

CPU_BUSY: Final = 0.8
CPU_PLAIN: Final = 0.95

RPC_QUICK_MS: Final = {"lustre": 10.0, "express": 10.0, "s3-files": 30.0, "s3": 50.0}
"""Mean wait of a request up to which storage answers quickly: Lustre in less than a millisecond to some, S3 Express One
Zone in less than ten (S3 user guide, directory buckets), of S3 and S3 Express the wait for the first byte. S3 gives
the first byte of small objects in 100 to 200 ms (S3 user guide, performance design patterns): that is neither quick nor
slow here."""
RPC_SLOW: Final = 3.0
"""Times that, from which it counts as slow."""

SAVES: Final = 0.02
"""Share of the time in which saves hold the loop up, from which they are looked at."""
SAVES_PLAIN: Final = 0.06
SAVE_SLOWER: Final = 1.25
"""Times the planned time of a save or restore from which it is slower than planned."""

HOT_TARGET: Final = 2.5
"""Times the mean of all storage targets that the busiest one reads, from which it is hot."""
HOT_TARGET_PLAIN: Final = 5.0

TCP: Final = 0.1
"""Share of bytes over EFA below which EFA is not used."""

OUTLIER: Final = 3.5
"""Robust z-score (0.6745 x deviation from the median / MAD) of an outlier (Iglewicz and Hoaglin)."""
OUTLIER_PLAIN: Final = 10.0

THROTTLED: Final = 0.01
"""Share of requests answered with 503 from which S3 throttles."""
THROTTLED_PLAIN: Final = 0.05
GETS_PER_PREFIX: Final = 5500.0
PUTS_PER_PREFIX: Final = 3500.0
"""Requests a second of a prefix that S3 scales from (S3 user guide, performance design patterns)."""

FREE: Final = 0.05
"""Share of free space below which a file system, or a target of it, counts as full."""
FREE_NONE: Final = 0.01

QUEUE_AGE_S: Final = 3600.0
"""Age of the oldest change that a link has not carried over; it is seconds to minutes where the link works."""

PAGE_CACHE: Final = 5.0
"""Times the bytes from storage that programs read, from which the page cache answers."""
