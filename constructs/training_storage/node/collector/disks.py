"""Counters of local disks from ``/proc/diskstats``: of instance stores alone, which ``/sys/block`` tells by model.

Source: Linux, ``Documentation/admin-guide/iostats.rst``: a sector there has 512 bytes, whatever the disk has.
"""

from __future__ import annotations

import re

from .numbers import lines_of, whole

SECTOR_BYTES = 512
INSTANCE_STORE = "Amazon EC2 NVMe Instance Storage"
"""Model of an instance store; EBS volumes are ``Amazon Elastic Block Store``."""

_WHOLE_DISK = re.compile(r"nvme\d+n\d+")


def parse_diskstats(text: str) -> dict[str, dict[str, int]]:
    """Return ``read_bytes`` and ``write_bytes`` of each NVMe disk, without partitions; none of one that can't be read.

    Args:
        text: The file.
    """
    found: dict[str, dict[str, int]] = {}
    for line in lines_of(text):
        words = line.split()
        # 14 numbers until 4.18, then 18, then 20.
        if len(words) < 14 or not _WHOLE_DISK.fullmatch(words[2]):
            continue
        numbers = [whole(word) for word in words[3:]]
        read, written = numbers[2], numbers[6]
        found[words[2]] = {}
        if None not in numbers and read is not None and written is not None:
            found[words[2]] = {"read_bytes": read * SECTOR_BYTES, "write_bytes": written * SECTOR_BYTES}
    return found


def is_instance_store(model: str) -> bool:
    """Whether a disk goes with its instance.

    Args:
        model: Text of ``/sys/block/NAME/device/model``.
    """
    return model.strip() == INSTANCE_STORE
