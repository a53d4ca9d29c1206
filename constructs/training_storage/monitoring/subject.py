"""What dashboard and alarms watch, and what a plan expects of it: plain values, all but the names optional."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final

from training_storage._arguments import FLAG, LISTED_TEXTS, NUMBER, TEXT, Kind, misfits, optional
from training_storage._tokens import concrete, is_concrete
from training_storage.errors import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Figures of a plan, or of your own sizing, in the units in which metrics are shown; None is not known.

    What is not known is not drawn, and an alarm whose threshold follows from it is not made.

    Attributes:
        instance_count: Nodes.
        read_mb_per_s: Read demand of the whole fleet, MB/s.
        node_read_mb_per_s: Read demand of one node, MB/s.
        node_limit_mb_per_s: What one node can read at most, MB/s.
        supply_mb_per_s: What the storage can give at most to the whole fleet, MB/s.
        write_mb_per_s: What the storage takes at most from the whole fleet, MB/s.
        file_opens_per_s: Files that the job opens a second.
        file_opens_limit_per_s: Files that the metadata servers open at most a second.
        data_wait_percent: Predicted share of time in which GPUs wait for data.
        checkpoint_save_s: Predicted time of a save.
        max_write_s: Time that a save may take.
        max_restore_s: Time that a restore may take.
        asynchronous: Whether saves go on beside training.
        storage_usd_per_hour: Price of everything but the instances.
        gpu_usd_per_hour: Price of the fleet.
        import_events: Whether a link carries new objects over by itself.
        export_events: Whether a link carries new files over by itself.
        storage_capacity_gib: Capacity of the Lustre file system.
        warn_when_free_below: Share of it that is free below which somebody is told.
    """

    instance_count: int | None = None
    read_mb_per_s: float | None = None
    node_read_mb_per_s: float | None = None
    node_limit_mb_per_s: float | None = None
    supply_mb_per_s: float | None = None
    write_mb_per_s: float | None = None
    file_opens_per_s: float | None = None
    file_opens_limit_per_s: float | None = None
    data_wait_percent: float | None = None
    checkpoint_save_s: float | None = None
    max_write_s: float | None = None
    max_restore_s: float | None = None
    asynchronous: bool | None = None
    storage_usd_per_hour: float | None = None
    gpu_usd_per_hour: float | None = None
    import_events: bool = False
    export_events: bool = False
    storage_capacity_gib: float | None = None
    warn_when_free_below: float | None = None

    @property
    def limit_mb_per_s(self) -> float | None:
        """What the fleet can read at most: what the storage gives, or what all nodes together can take."""
        nodes = (
            self.node_limit_mb_per_s * self.instance_count if self.node_limit_mb_per_s and self.instance_count else None
        )
        known = [each for each in (self.supply_mb_per_s, nodes) if each]
        return min(known) if known else None

    @property
    def slowest_save_s(self) -> float | None:
        """Time above which a save is slow: what the workload allows, else twice what is predicted."""
        if self.max_write_s is not None:
            return self.max_write_s
        return None if self.checkpoint_save_s is None else 2 * self.checkpoint_save_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is watched, by the names under which its metrics are written; None, or empty, is not there.

    Attributes:
        workload: Name of the workload under which its nodes write.
        file_system_id: Lustre file system.
        bucket_name: Bucket of the data lake.
        bucket_filter_ids: Filters of its request metrics.
        directory_bucket_names: Directory buckets.
        directory_filter_id: Filter of their request metrics; None where they keep none.
        s3_file_system_id: The lake as a file system (S3 Files).
        auto_scaling_group_name: The fleet.
        links: Whether links of the file system are watched.
        expected: What the plan expects.
    """

    workload: str | None = None
    file_system_id: str | None = None
    bucket_name: str | None = None
    bucket_filter_ids: tuple[str, ...] = ()
    directory_bucket_names: tuple[str, ...] = ()
    directory_filter_id: str | None = None
    s3_file_system_id: str | None = None
    auto_scaling_group_name: str | None = None
    links: bool = False
    expected: Expected = Expected()


EXPECTED: Final = Kind(
    allowed="an Expected",
    fits=lambda value: isinstance(value, Expected),
    fix="Expected(read_mb_per_s=3000, instance_count=16)",
)

KINDS: Final = {
    "workload": optional(TEXT),
    "file_system_id": optional(TEXT),
    "bucket_name": optional(TEXT),
    "bucket_filter_ids": LISTED_TEXTS,
    "directory_bucket_names": LISTED_TEXTS,
    "directory_filter_id": optional(TEXT),
    "s3_file_system_id": optional(TEXT),
    "auto_scaling_group_name": optional(TEXT),
    "links": FLAG,
    "expected": optional(EXPECTED),
}
"""Kinds of the arguments of the constructs that a subject is made of."""


def expected_problems(expected: Expected | None) -> list[Problem]:
    """Return what is wrong with expected figures: each is a number that is known at synth, and not negative."""
    return [] if expected is None else list(_wrong(expected))


def _wrong(expected: Expected) -> Iterator[Problem]:
    flags = {"asynchronous", "import_events", "export_events"}
    for each in fields(expected):
        value: Any = getattr(expected, each.name)
        path = f"expected.{each.name}"
        if wrong := misfits({path: (value, optional(FLAG if each.name in flags else NUMBER))}):
            yield from wrong
        elif each.name in flags or value is None:
            continue
        elif not is_concrete(value):
            yield Problem(what="only known at deploy", path=path, allowed="a number that is known at synth")
        elif value < 0:
            yield Problem(what="less than nothing", path=path, value=value, allowed="0 or more")


def known(value: float | None) -> float | None:
    """Return a number; None where it is not known at synth."""
    return concrete(value)
