"""From what counters moved by to the records of one node: each byte stands in one record over all nodes, once.

The record of a kind has Workload, InstanceId and Kind, so that its bytes count over the fleet, over the node and over
the kind; the kinds together are then the fleet. Local NVMe stands in its kind alone: what is read there came over the
network before, or was never sent there. Everything that is not of one kind is in the record of the node.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..emf import record
from ..metrics.model import KIND
from .differences import Moved, is_unknown, total

INTERVAL = "IntervalSeconds"

Values = dict[str, float]


def lustre_values(moved: Mapping[str, Moved]) -> tuple[Values, Values, tuple[float, float]]:
    """Return values of the kind, those for the node, and requests with their wait in milliseconds.

    What is added up over kinds for the node is no number where this kind's part of it is not known.

    Args:
        moved: Differences of ``llite``, ``osc`` and ``mdc``.
    """
    kind = _known(
        StorageReadBytes=total(moved["osc"], "read_bytes.sum"), StorageWriteBytes=total(moved["osc"], "write_bytes.sum")
    )
    node = _parts(moved["llite"], ApplicationReadBytes="read_bytes.sum", FileOpens="open")
    requests = wait_ms = 0.0
    for side in ("osc", "mdc"):
        count, wait_us = total(moved[side], "req_waittime"), total(moved[side], "req_waittime.sum")
        if count is not None and wait_us is not None:
            requests += count
            wait_ms += wait_us / 1000
    return kind, node, (requests, wait_ms)


def nfs_values(moved: Moved) -> tuple[Values, Values, tuple[float, float]]:
    """As ``lustre_values``, of NFS mounts.

    Args:
        moved: Their differences.
    """
    kind = _known(StorageReadBytes=total(moved, "read_bytes"), StorageWriteBytes=total(moved, "write_bytes"))
    node = _parts(
        moved, ApplicationReadBytes="application_read_bytes", FileOpens="opens", StorageRequestErrors="errors"
    )
    count, wait_ms = total(moved, "requests"), total(moved, "wait_ms")
    return kind, node, (0.0, 0.0) if count is None or wait_ms is None else (float(count), float(wait_ms))


def mountpoint_values(sums: Mapping[str, float] | None) -> tuple[Values, Values, tuple[float, float]]:
    """As ``lustre_values``, of Mountpoint.

    Args:
        sums: What Mountpoint sent; None where nothing came.
    """
    if sums is None:
        return {}, {}, (0.0, 0.0)
    kind = {"StorageReadBytes": sums["read_bytes"], "StorageWriteBytes": sums["write_bytes"]}
    node = {
        "FileOpens": sums["opens"],
        "StorageRequestErrors": sums["errors"],
        "ThrottledRequests": sums["throttled"],
    }
    return kind, node, (sums["waits"], sums["wait_us"] / 1000)


def make_records(
    kinds: Mapping[str, Values],
    node: Values,
    *,
    workload: str,
    instance: str,
    timestamp_s: float,
    interval_s: float,
) -> list[dict[str, Any]]:
    """Return the records of one interval; none for what is not known.

    Args:
        kinds: Values by kind of storage.
        node: Values of the node.
        workload: Name of the workload.
        instance: Id of the instance.
        timestamp_s: End of the interval, seconds since 1970.
        interval_s: Its length in seconds.
    """
    properties: dict[str, Any] = {INTERVAL: round(interval_s, 3)}
    here = {"Workload": workload, "InstanceId": instance}
    found = [record(node, here, timestamp_s=timestamp_s, properties=properties)] if node else []
    for kind, values in sorted(kinds.items()):
        if not values:
            continue
        only = (KIND,) if kind == "nvme" else None
        dimensions = {**here, "Kind": kind}
        found.append(record(values, dimensions, timestamp_s=timestamp_s, properties=properties, only=only))
    return found


def _known(**values: int | None) -> Values:
    return {name: float(value) for name, value in values.items() if value is not None}


def _parts(moved: Moved, **names: str) -> Values:
    found: Values = {}
    for metric, counter in names.items():
        value = total(moved, counter)
        if value is not None:
            found[metric] = float(value)
        elif is_unknown(moved, counter):
            found[metric] = math.nan
    return found
