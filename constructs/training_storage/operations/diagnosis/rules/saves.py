"""Rules of checkpoints: saves that hold training up, and restores that take long."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from training_storage.node.metrics.model import FLEET
from training_storage.operations.diagnosis import borders
from training_storage.operations.diagnosis.finding import BOTTLENECK, Evidence, Finding, Rule, confidence, strength
from training_storage.operations.diagnosis.look import percent
from training_storage.operations.diagnosis.look_training import MINUTE_S
from training_storage.units import format_seconds

if TYPE_CHECKING:
    from training_storage.operations.diagnosis.look import Look


def checkpoint_write_path(look: Look) -> Finding | None:
    """The loop stands still while it saves."""
    expected, blocked = look.expected, look.blocked
    saved = look.seen.one("CheckpointSaveTime", *FLEET)
    if blocked is None or saved is None or not saved.points or blocked < borders.SAVES:
        return None
    took = statistics.median(dict(look.in_training(saved)).values() or saved.values)
    planned = expected.checkpoint_save_s if expected else None
    allowed = expected.max_write_s if expected else None
    slow = (planned is not None and took > planned * borders.SAVE_SLOWER) or (allowed is not None and took > allowed)
    if not slow and blocked < borders.SAVES_PLAIN:
        return None  # as planned, or nobody knows how it was
    evidence = [
        percent("saves hold the loop up", blocked, borders.SAVES, "border"),
        Evidence(name="a save", observed=took, expected=planned, unit="s", against="planned" if planned else ""),
    ]
    if allowed is not None:
        evidence.append(Evidence(name="a save may take", observed=allowed, unit="s"))
    during, between = _gpu(look)
    if during is not None and between is not None:
        evidence.append(percent("GPU utilisation while a save goes on", during, between, "between saves"))
    rate = _write_rate(look, took)
    limit = expected.write_mb_per_s if expected else None
    if rate is not None:
        evidence.append(
            Evidence(
                name="written by a save", observed=rate, expected=limit, unit="MB/s", against="limit" if limit else ""
            )
        )
    # What the next step wins back: all of it where saves go on beside training, the excess otherwise.
    excess = blocked if planned is None or not slow else blocked * max(0.0, 1 - planned / took)
    return Finding(
        id="checkpoint-write-path",
        title="training stands still while checkpoints are written",
        kind=BOTTLENECK,
        confidence=confidence(
            [strength(blocked, borders.SAVES, borders.SAVES_PLAIN)],
            [
                None if planned is None else took > planned * borders.SAVE_SLOWER,
                None if look.wait is None else look.wait < max(blocked, borders.WAIT),
            ],
        ),
        evidence=tuple(evidence),
        next_step=_step(look, rate, limit, took),
        **look.gain(blocked if expected is not None and not expected.asynchronous else excess),
    )


def _step(look: Look, rate: float | None, limit: float | None, took: float) -> str:
    expected = look.expected
    folder = (expected.paths or {}).get("checkpoints", "/fsx/checkpoints") if expected else "/fsx/checkpoints"
    if rate is not None and limit and rate >= borders.LIMIT * limit:
        asks = expected.max_write_s if expected and expected.max_write_s else took / 2
        return (
            f"the storage takes no more: set `checkpoints.max_write_time: {max(1, round(min(asks, took / 2)))}s` and "
            "`checkpoints.asynchronous: true` in the workload file and run `training-storage plan FILE`"
        )
    if expected is not None and expected.asynchronous:
        return (
            "saves were planned beside training and hold it up: save with `torch.distributed.checkpoint.async_save`, "
            f"every rank its own shard, into a folder with `lfs setstripe -c -1 -S 16M {folder}`"
        )
    return (
        "save beside training: `torch.distributed.checkpoint.async_save` in the code, and `checkpoints.asynchronous: "
        "true` in the workload file; let every rank write its own shard, for one writer never fills the file system"
    )


def _gpu(look: Look) -> tuple[float | None, float | None]:
    series = look.seen.one("nvidia_smi_utilization_gpu", *FLEET)
    if series is None:
        return None, None
    inside = [value / 100 for moment, value in series.points if moment in look.save_moments]
    outside = [value / 100 for moment, value in series.points if moment not in look.save_moments]
    return (
        statistics.fmean(inside) if inside else None,
        statistics.fmean(outside) if outside else None,
    )


def _write_rate(look: Look, took: float) -> float | None:
    """Return what the fleet wrote by the second of a save, MB/s."""
    expected = look.expected
    often = expected.checkpoint_interval_s if expected else None
    if look.seen.period_s > max(MINUTE_S, often or 0.0):
        return None  # a period has the bytes of several saves, nobody knows of how many
    size = look.in_training(look.seen.one("CheckpointSaveBytes", *FLEET))
    if size and took > 0:
        return statistics.median(value for _, value in size) / took / 1e6
    written = look.seen.one("StorageWriteBytes", *FLEET, statistic="Sum")
    if written is None or took <= 0 or look.seen.period_s > MINUTE_S:
        return None
    values = [value for moment, value in written.points if moment in look.save_moments]
    return statistics.median(values) / min(took, look.seen.period_s) / 1e6 if values else None


def restore_slow(look: Look) -> Finding | None:
    """Reading a checkpoint back took longer than it may."""
    restored, expected = look.seen.one("RestoreTime", *FLEET), look.expected
    if restored is None or restored.highest is None or expected is None:
        return None
    took, planned, allowed = restored.highest, expected.restore_s, expected.max_restore_s
    border = min(
        (each for each in (allowed, planned and planned * borders.SAVE_SLOWER) if each is not None), default=None
    )
    if border is None or took <= border:
        return None
    span = look.seen.until - look.seen.since
    evidence = [
        Evidence(
            name="longest restore", observed=took, expected=planned, unit="s", against="planned" if planned else ""
        )
    ]
    if allowed is not None:
        evidence.append(Evidence(name="a restore may take", observed=allowed, unit="s"))
    excess = took - min(each for each in (planned, allowed) if each is not None)
    return Finding(
        id="restore-slow",
        title=f"a restart waits {format_seconds(took)} for its checkpoint",
        kind=BOTTLENECK,
        confidence=confidence([strength(took / border, 1.0, 2.0)], [planned is not None]),
        evidence=tuple(evidence),
        next_step=f"run `training-storage checkpoints restore-drill {look.seen.workload}`: it tells the hot tier from "
        "the lake and the page cache; restart from the hot tier (`checkpoints.keep_hot`), each rank with its own shard",
        **look.gain(min(1.0, excess / span) if span > 0 else None),
    )


RULES = (
    Rule(
        id="checkpoint-write-path",
        kind=BOTTLENECK,
        condition="saves hold the loop up for 2 % or more of its time, and a save takes 1.25 times the planned time or "
        "more, or longer than `max_write_time`; 6 % or more also where it is as planned",
        step="save beside training, every rank its own shard; more throughput where writes are at their limit",
        needs=("CheckpointBlockedTime", "CheckpointSaveTime", "ElapsedTime"),
        check=checkpoint_write_path,
    ),
    Rule(
        id="restore-slow",
        kind=BOTTLENECK,
        condition="a restore took longer than `max_restore_time`, or 1.25 times the planned time",
        step="`training-storage checkpoints restore-drill NAME`",
        needs=("RestoreTime",),
        check=restore_slow,
    ),
)
