"""Rules of the loader: GPUs wait, and storage has more to give."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from training_storage.node.metrics.model import FLEET
from training_storage.operations.diagnosis import borders
from training_storage.operations.diagnosis.finding import BOTTLENECK, Evidence, Finding, Rule, confidence, strength
from training_storage.operations.diagnosis.look import percent
from training_storage.operations.diagnosis.rules.throughput import tcp_share

if TYPE_CHECKING:
    from training_storage.operations.diagnosis.look import Look

_LEAST_LAZY = 0.5
"""Share of what Lustre read that came from S3 meanwhile, from which files are being loaded for the first time."""


def _storage_is_free(look: Look, share: float) -> bool:
    """Whether no storage that is known is near its limit."""
    known = (look.storage_share, look.metadata_share, tcp_share(look))
    throttled = look.throttled
    return all(each is None or each < share for each in known) and (
        throttled is None or throttled[0] < borders.THROTTLED
    )


def preprocessing(look: Look) -> Finding | None:
    """GPUs wait, storage has more to give and answers quickly, or the CPUs are busy."""
    memory = look.cached is not None and look.cached >= borders.PAGE_CACHE
    if not look.waits or (look.storage_share is None and look.rpc_ms is None and not memory):
        return None
    busy = look.cpu is not None and look.cpu >= borders.CPU_BUSY
    # What the page cache answers is as quick as memory.
    quick = memory or (look.rpc_ms is not None and look.rpc_ms <= look.rpc_quick_ms)
    # Busy CPUs tell by themselves; where they are not, storage has to be far from its limits and quick.
    if not _storage_is_free(look, borders.LIMIT if busy else borders.FAR) or not (busy or quick):
        return None
    evidence = look.waiting()
    if look.cpu is not None:
        evidence.append(percent("CPUs of the median node busy", look.cpu, borders.CPU_BUSY, "border"))
    if look.storage_share is not None:
        evidence.append(percent("storage in use, of the nearest limit", look.storage_share, borders.LIMIT))
    if look.rpc_ms is not None:
        evidence.append(_rpc(look))
    strengths = [strength(look.wait or 0.0, borders.WAIT, borders.WAIT_PLAIN)]
    either = [strength(look.cpu or 0.0, borders.CPU_BUSY, borders.CPU_PLAIN)]
    if memory:
        either.append(strength(look.cached or 0.0, borders.PAGE_CACHE, 4 * borders.PAGE_CACHE))
        evidence.append(
            Evidence(name="read by programs, times what came from storage", observed=look.cached or 0.0,
                     expected=borders.PAGE_CACHE, against="border")
        )  # fmt: skip
    if look.rpc_ms is not None:
        either.append(strength(look.rpc_ms, look.rpc_quick_ms, look.rpc_quick_ms / 4))
    strengths.append(max(either))
    far = None if look.storage_share is None else look.storage_share < borders.FAR
    return Finding(
        id="preprocessing",
        title="GPUs wait for the loader's work on the data (decoding, augmenting), and not for storage",
        kind=BOTTLENECK,
        confidence=confidence(strengths, [far]),
        evidence=tuple(evidence),
        next_step=(
            "take work off the CPUs: decode on the GPUs (NVIDIA DALI), or store samples decoded and resized; more "
            "loader workers do not help where the CPUs are busy"
            if busy
            else "give the loader more workers (`DataLoader(num_workers=...)`, twice as many to begin with) and "
            "`prefetch_factor=4`: CPUs and storage have more to give"
        ),
        **look.gain(look.wait),
    )


def _rpc(look: Look) -> Evidence:
    return Evidence(
        name="mean wait of a request to storage",
        observed=look.rpc_ms or 0.0,
        expected=look.rpc_quick_ms,
        unit="ms",
        against="border",
    )


def read_latency(look: Look) -> Finding | None:
    """GPUs wait, throughput is far from its limits, CPUs are not busy, and each request takes long."""
    if not look.waits or look.rpc_ms is None or look.rpc_ms < look.rpc_quick_ms * borders.RPC_SLOW:
        return None
    if (look.cpu is not None and look.cpu >= borders.CPU_BUSY) or not _storage_is_free(look, borders.LIMIT):
        return None
    access = look.expected.file_access if look.expected else ""
    if look.on_lustre:
        step = (
            "read more at a time: 1 MiB or more a read, and `DataLoader(num_workers=...)` twice as large with "
            "`prefetch_factor=4`, so that more requests are under way"
        )
    elif access == "s3-files":
        step = "use larger reads and more loader workers, or `hot_tier: lustre` in the workload file for random reads"
    else:
        step = (
            "set `mountpoint: {cache: nvme}` in the workload file, so that the second epoch reads from local disks, "
            "and use `DataLoader(num_workers=...)` twice as large; `hot_tier: lustre` where samples are small"
        )
    return Finding(
        id="read-latency",
        title="GPUs wait for single reads: each request takes long, while throughput is far from its limits",
        kind=BOTTLENECK,
        confidence=confidence(
            [
                strength(look.rpc_ms, look.rpc_quick_ms * borders.RPC_SLOW, look.rpc_quick_ms * borders.RPC_SLOW * 2),
                strength(look.wait or 0.0, borders.WAIT, borders.WAIT_PLAIN),
            ],
            [
                None if look.cpu is None else True,
                None if look.storage_share is None else look.storage_share < borders.FAR,
            ],
        ),
        evidence=(
            *look.waiting(),
            _rpc(look),
            *([percent("storage in use, of the nearest limit", look.storage_share)] if look.storage_share else []),
            *([percent("CPUs of the median node busy", look.cpu)] if look.cpu is not None else []),
        ),
        next_step=step,
        **look.gain(look.wait),
    )


def first_epoch(look: Look) -> Finding | None:
    """GPUs wait in the first epoch, in which Lustre fetches files from S3, and not later."""
    if not look.on_lustre:
        return None
    waited, elapsed = look.seen.one("DataWaitTime", *FLEET), look.seen.one("ElapsedTime", *FLEET)
    if waited is None or elapsed is None or not look.epochs or not elapsed.total:
        return None
    wholes = dict(look.in_training(elapsed))
    first: list[tuple[float, float]] = []
    later: list[tuple[float, float]] = []
    for moment, value in waited.points:
        if wholes.get(moment):
            (first if look.epochs.get(moment, 1) <= 1 else later).append((value, wholes[moment]))
    if not first:
        return None
    share = sum(each[0] for each in first) / sum(each[1] for each in first)
    after = sum(each[0] for each in later) / sum(each[1] for each in later) if later else None
    if share < borders.WAIT or (after is not None and after > share / 2):
        return None
    loaded = _loaded(look)
    if after is None and (loaded is None or loaded < _LEAST_LAZY):
        return None
    won = share - (after or 0.0)
    part = sum(each[1] for each in first) / sum(wholes.values())
    evidence = [percent("GPUs wait for data in the first epoch", share, borders.WAIT, "border")]
    if after is not None:
        evidence.append(percent("later", after))
    evidence.append(percent("first epoch, of the time looked at", part))
    if loaded is not None:
        evidence.append(percent("bytes from S3 in the first epoch, of those read on Lustre", loaded))
    folder = (look.expected.paths or {}).get("datasets", "/fsx/datasets") if look.expected else "/fsx/datasets"
    inner = "/" + folder.strip("/").partition("/")[2] if folder.count("/") > 1 else folder
    return Finding(
        id="first-epoch-lazy-loading",
        title="GPUs wait in the first epoch, in which files come from S3 as they are read",
        kind=BOTTLENECK,
        confidence=confidence(
            [strength(won, borders.WAIT, borders.WAIT_PLAIN)], [None if after is None else after <= borders.WAIT]
        ),
        evidence=tuple(evidence),
        next_step=f"load the data before the fleet comes: `training-storage preload {look.seen.workload} --path "
        f"{inner}`; this run is past it where later epochs do not wait, and the next one gains",
        **look.gain(won * part),
    )


def _loaded(look: Look) -> float | None:
    """Return the bytes that S3 gave of those read on Lustre, in the first epoch; None where neither is known."""
    first = {moment for moment, epoch in look.epochs.items() if epoch <= 1}
    downloads = [each for each in look.seen.all("AWS/S3 BytesDownloaded", statistic="Sum") if each.points]
    read = look.seen.one("AWS/FSx DataReadBytes", "FileSystemId", statistic="Sum")
    if not downloads or read is None:
        return None
    given = [value for each in downloads for moment, value in each.points if moment in first]
    taken = [value for moment, value in read.points if moment in first]
    return sum(given) / sum(taken) if given and taken and statistics.fmean(taken) > 0 else None


RULES = (
    Rule(
        id="preprocessing",
        kind=BOTTLENECK,
        condition="ranks wait as above, and either CPUs of the median node are 80 % busy or more while no storage is "
        "at its limit, or requests are answered quickly (10 ms on Lustre and S3 Express, 30 ms on S3 Files, 50 ms on "
        "S3; or the page cache gives 4 of 5 bytes) while no storage is used to 60 % of a limit that is known",
        step="more loader workers; less work a sample where the CPUs are busy",
        needs=("DataWaitTime", "ElapsedTime", "cpu_usage_active", "StorageRpcWaitTime"),
        check=preprocessing,
    ),
    Rule(
        id="read-latency",
        kind=BOTTLENECK,
        condition="ranks wait as above, a request takes three times the quick time or more, no storage is at its "
        "limit, and the CPUs are not busy",
        step="more requests at a time, larger reads, or a cache",
        needs=("DataWaitTime", "ElapsedTime", "StorageRpcWaitTime"),
        check=read_latency,
    ),
    Rule(
        id="first-epoch-lazy-loading",
        kind=BOTTLENECK,
        condition="ranks wait 5 % or more in epoch 1 and at most half of that later; while there is no later epoch, "
        "half of the bytes read on Lustre come from S3",
        step="`training-storage preload NAME`",
        needs=("DataWaitTime", "ElapsedTime", "Epoch"),
        check=first_epoch,
        explains=("storage-throughput", "read-latency", "preprocessing"),
    ),
)
