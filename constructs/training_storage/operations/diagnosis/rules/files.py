"""Rules of files and space: many small files, and no room for more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from training_storage.node.metrics.services import FILE_SYSTEM, TARGET
from training_storage.operations.diagnosis import borders
from training_storage.operations.diagnosis.finding import (
    BOTTLENECK,
    FAULT,
    STOP,
    Evidence,
    Finding,
    Rule,
    confidence,
    strength,
)
from training_storage.operations.diagnosis.look import percent
from training_storage.operations.diagnosis.look_training import MINUTE_S

if TYPE_CHECKING:
    from training_storage.operations.diagnosis.look import Look

_SMALL_MB = 4.0
"""Bytes an open below which files are small: a read of a larger one takes longer than its open, on every storage."""
_GIB = float(1 << 30)
_FREE = "AWS/FSx FreeDataStorageCapacity"


def small_files(look: Look) -> Finding | None:
    """GPUs wait, and the servers of metadata, or requests of S3, are at their limit."""
    if not look.waits or look.opens is None:
        return None
    limit = look.expected.file_opens_limit_per_s if look.expected else None
    if not look.on_lustre and limit is None:
        limit = borders.GETS_PER_PREFIX / 2  # a small object costs a look for its name, and a GET
    size = None if look.read_rate is None or not look.opens else look.read_rate / look.opens
    by_opens = look.opens / limit if limit else None
    share = max(by_opens or 0.0, look.metadata_cpu or 0.0)
    if share < borders.LIMIT:
        return None
    large = size is not None and size >= _SMALL_MB
    if large and look.system_share is not None and look.system_share >= borders.LIMIT:
        return None  # bytes are at their limit as well, and most of the time goes into them
    # Opens without reads at their limit beside them: bytes are not what anything waits for.
    far = None if look.system_share is None else (look.servers_share or look.node_share or 0.0) < borders.LIMIT
    evidence = [
        Evidence(name="files opened", observed=look.opens, expected=limit, unit="1/s", against="limit" if limit else "")
    ]
    if look.metadata_cpu is not None:
        evidence.append(percent("CPU of the busiest metadata server", look.metadata_cpu, borders.LIMIT, "border"))
    if size is not None:
        evidence.append(Evidence(name="read by open", observed=size, expected=_SMALL_MB, unit="MB", against="border"))
    needed = look.opens / (1 - min(look.wait or 0.0, 0.99))
    where = "metadata servers" if look.on_lustre else "requests of S3"
    return Finding(
        id="small-files",
        title=f"GPUs wait for opens of {'many' if large else 'small'} files: {where} are at their limit",
        kind=BOTTLENECK,
        confidence=confidence(
            [
                strength(share, borders.LIMIT, borders.LIMIT_PLAIN),
                strength(look.wait or 0.0, borders.WAIT, borders.WAIT_PLAIN),
            ],
            [far],
        ),
        evidence=tuple(evidence + look.waiting()),
        next_step="pack samples into shards of 100 MB and more (WebDataset, MDS, TFRecord) and set "
        f"`dataset.average_file_size: 100 MB`; without that the job opens {needed:,.0f} files a second"
        + (
            f": set `lustre.metadata_iops: {_iops(needed)}` and deploy {look.seen.workload}-hot"
            if look.on_lustre and _iops(needed) <= _MOST_IOPS
            else ", more than any setting gives"
        ),
        **look.gain(look.wait),
    )  # fmt: skip


_MOST_IOPS = 192_000
_IOPS = (1500, 3000, 6000, 12_000)


def _iops(opens: float) -> int:
    """Return the least number of metadata IOPS that FSx takes and that serves opens, at two opens an IOPS."""
    needed = opens / 2
    return next((each for each in _IOPS if each >= needed), -int(-needed // 12_000) * 12_000)


def file_system_full(look: Look) -> Finding | None:
    """No room is left on the file system."""
    free, capacity = _free(look, "Sum"), _capacity(look)
    if free is None or capacity is None or free / capacity >= borders.FREE:
        return None
    share = free / capacity
    return Finding(
        id="file-system-full",
        title="the file system is full: writes fail or are about to",
        kind=STOP if share < borders.FREE_NONE else FAULT,
        confidence=confidence([strength(share, borders.FREE, 0.0)], [True]),
        evidence=(
            percent("free space", share, borders.FREE, "border"),
            Evidence(name="free", observed=free / _GIB, expected=capacity / _GIB, unit="GiB", against="capacity"),
        ),
        next_step=f"free room now with `training-storage checkpoints prune {look.seen.workload}`; for good set "
        f"`lustre.storage_capacity: {_more(capacity)} GiB`, or a lower `checkpoints.keep_hot`",
        **look.gain(1.0 if share < borders.FREE_NONE else None),
    )


def _more(capacity: float) -> int:
    return -int(-capacity * 1.25 / _GIB // 2400) * 2400


def storage_target_full(look: Look) -> Finding | None:
    """One storage target is full, while the file system has room."""
    free, least, capacity = _free(look, "Sum"), _free(look, "Minimum"), _capacity(look)
    count = _targets(look)
    if free is None or least is None or capacity is None or not count or count < 2:
        return None
    whole = capacity / count
    share = least / whole
    if share >= borders.FREE or free / capacity < borders.FREE * 2:
        return None
    folder = (look.expected.paths or {}).get("checkpoints", "/fsx") if look.expected else "/fsx"
    return Finding(
        id="storage-target-full",
        title="one storage target is full, while the file system has room: writes to it fail",
        kind=STOP if share < borders.FREE_NONE else FAULT,
        confidence=confidence([strength(share, borders.FREE, 0.0)], [True]),
        evidence=(
            percent("free space of the fullest target", share, borders.FREE, "border"),
            percent("free space of the file system", free / capacity),
            Evidence(name="targets", observed=float(count)),
        ),
        next_step="find large files of one stripe on it and spread them: `lfs df -h /fsx` names the target, "
        f"`lfs find {folder} --ost INDEX -size +10G` its files, `lfs migrate -c -1 -S 16M FILE` moves each",
        **look.gain(1.0 if share < borders.FREE_NONE else None),
    )


def _last(look: Look, statistic: str) -> float | None:
    series = look.seen.one(_FREE, FILE_SYSTEM, statistic=statistic)
    return series.values[-1] if series is not None and series.points else None


def _free(look: Look, statistic: str) -> float | None:
    """Return what is free at the end: of the whole (``Sum``), or of the fullest target (``Minimum``)."""
    last = _last(look, statistic)
    if last is None or statistic != "Sum":
        return last
    # A sample a target and minute: a sum over a longer period has each target several times, and now and then one less.
    mean, targets = _last(look, "Average"), _targets(look)
    return mean * targets if mean is not None and targets else last / max(1.0, look.seen.period_s / MINUTE_S)


def _capacity(look: Look) -> float | None:
    facts = look.seen.facts.get("file_system") or {}
    gib = facts.get("storage_capacity_gib")
    return float(gib) * _GIB if isinstance(gib, int | float) and gib > 0 else None


def _targets(look: Look) -> int | None:
    named = {each.dimensions[TARGET] for each in look.seen.all(_FREE, FILE_SYSTEM, TARGET)}
    if named:
        return len(named)
    sums, means = (
        dict(series.points) if series is not None else {}
        for series in (look.seen.one(_FREE, FILE_SYSTEM, statistic=each) for each in ("Sum", "Average"))
    )
    samples = max((total / means[moment] for moment, total in sums.items() if means.get(moment)), default=0.0)
    return round(samples / max(1.0, look.seen.period_s / MINUTE_S)) or None


RULES = (
    Rule(
        id="small-files",
        kind=BOTTLENECK,
        condition="ranks wait as above, and opens are 85 % or more of what the metadata servers serve (or 85 % of the "
        "CPU of one; without Lustre of 2,750 opens a second); where 4 MB or more is read by open, only while the file "
        "system's throughput is not at its limit",
        step="shards; more metadata IOPS",
        needs=("DataWaitTime", "ElapsedTime", "FileOpens"),
        check=small_files,
        explains=("storage-throughput", "read-latency", "preprocessing"),
    ),
    Rule(
        id="file-system-full",
        kind=STOP,
        condition="less than 5 % of the capacity is free; below 1 % training stops",
        step="`training-storage checkpoints prune NAME`; more capacity",
        needs=("AWS/FSx FreeDataStorageCapacity",),
        check=file_system_full,
        explains=("storage-target-full",),
    ),
    Rule(
        id="storage-target-full",
        kind=STOP,
        condition="the fullest storage target has less than 5 % free, the file system 10 % or more; below 1 % training "
        "stops",
        step="`lfs find --ost`, `lfs migrate`",
        needs=("AWS/FSx FreeDataStorageCapacity",),
        check=storage_target_full,
    ),
)
