"""Rules of the storage classes besides SSD: HDD and its drive cache, INTELLIGENT_TIERING and its read cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from training_storage.errors import Problem
from training_storage.rules.base import Rule, rule
from training_storage.rules.lustre_settings import (
    API,
    GUIDE,
    HDD,
    PERSISTENT_2,
    TIERED,
    TIERING,
    LustreSettings,
    listed,
    lustre_of,
)

SMALL_HDD_GIB: Final = 6000
"""Under it sources disagree: the quotas page says 6 TiB at least, the API takes multiples of 1800 GiB at 40 MB/s."""

_READ_CACHE_MODES: Final = ("NO_CACHE", "USER_PROVISIONED", "PROPORTIONAL_TO_THROUGHPUT_CAPACITY")


@rule(
    id="lustre.drive-cache",
    statement="HDD file systems say whether they have an SSD read cache; other types do not.",
    reason="FSx requires the drive cache type with HDD and refuses it elsewhere.",
    source=API,
    passes=HDD,
    fails=replace(PERSISTENT_2, drive_cache_type="READ"),
)
def _drive_cache(settings: LustreSettings) -> Iterator[Problem]:
    cache = settings.drive_cache_type
    if settings.storage_type is None:
        return
    if settings.storage_type != "HDD" and cache is not None:
        yield Problem(
            what=f"{settings.storage_type} storage has no drive cache",
            path="drive_cache_type",
            value=cache,
            allowed="a drive cache with HDD",
        )
    if settings.storage_type == "HDD" and (
        "drive_cache_type" in settings.omitted or cache not in {None, "NONE", "READ"}
    ):
        yield Problem(
            what="HDD storage needs a drive cache type", path="drive_cache_type", value=cache, allowed="NONE or READ"
        )


@rule(
    id="lustre.tiering-throughput",
    statement="INTELLIGENT_TIERING has a throughput capacity in multiples of 4000 MB/s; other types have none.",
    reason="The newest API text also names 1000 and 2000; multiples of 4000 are right in every source.",
    source=f"{API}; {GUIDE}, Intelligent-Tiering",
    passes=TIERED,
    fails=replace(TIERED, throughput_capacity_mb_per_s=3000),
)
def _it_throughput(settings: LustreSettings) -> Iterator[Problem]:
    given, storage = settings.throughput_capacity_mb_per_s, settings.storage_type
    if storage is None:
        return
    lustre = lustre_of(settings)
    step, most = lustre.intelligent_tiering_throughput_step_mb_per_s, lustre.intelligent_tiering_throughput_max_mb_per_s
    form = f"multiples of {step} MB/s to {most}"
    path = "throughput_capacity_mb_per_s"
    if storage != TIERING and given is not None:
        yield Problem(
            what=f"{storage} storage has no throughput capacity",
            path=path,
            value=given,
            allowed="a throughput capacity with INTELLIGENT_TIERING",
            fix="give per_unit_storage_throughput instead",
        )
    elif storage == TIERING and given is None and path in settings.omitted:
        yield Problem(what="INTELLIGENT_TIERING needs a throughput capacity", path=path, allowed=form)
    elif storage == TIERING and given is not None and not lustre.is_legal_throughput_capacity(given):
        yield Problem(what="no throughput capacity of INTELLIGENT_TIERING", path=path, value=given, allowed=form)


@rule(
    id="lustre.tiering-capacity",
    statement="INTELLIGENT_TIERING takes no storage capacity.",
    reason="It grows and shrinks with the data.",
    source=API,
    passes=TIERED,
    fails=replace(TIERED, storage_capacity_gib=4800),
)
def _it_capacity(settings: LustreSettings) -> Iterator[Problem]:
    if settings.storage_type == TIERING and settings.storage_capacity_gib is not None:
        yield Problem(
            what="INTELLIGENT_TIERING grows and shrinks by itself and takes no capacity",
            path="storage_capacity_gib",
            value=settings.storage_capacity_gib,
            allowed="nothing",
            fix="leave it out",
        )


@rule(
    id="lustre.tiering-read-cache",
    statement="INTELLIGENT_TIERING says how its read cache is sized; a given size is 32 to 131,072 GiB per 4000 MB/s.",
    reason="FSx requires the read cache configuration there and refuses it elsewhere.",
    source=f"{API}; {GUIDE}, Intelligent-Tiering",
    passes=replace(TIERED, read_cache_mode="USER_PROVISIONED", read_cache_gib=32),
    fails=replace(TIERED, read_cache_mode="USER_PROVISIONED", read_cache_gib=16),
)
def _it_read_cache(settings: LustreSettings) -> Iterator[Problem]:
    mode, gib, throughput = settings.read_cache_mode, settings.read_cache_gib, settings.throughput_capacity_mb_per_s
    if settings.storage_type is None:
        return
    if settings.storage_type != TIERING:
        for path, value in (("read_cache_mode", mode), ("read_cache_gib", gib)):
            if value is not None:
                yield Problem(
                    what=f"{settings.storage_type} storage has no read cache",
                    path=path,
                    value=value,
                    allowed="a read cache with INTELLIGENT_TIERING",
                )
        return
    if "read_cache_mode" in settings.omitted or (mode is not None and mode not in _READ_CACHE_MODES):
        yield Problem(
            what="INTELLIGENT_TIERING needs a read cache mode",
            path="read_cache_mode",
            value=mode,
            allowed=listed(_READ_CACHE_MODES),
        )
    if mode == "USER_PROVISIONED" and "read_cache_gib" in settings.omitted:
        yield Problem(what="a USER_PROVISIONED read cache needs a size", path="read_cache_gib", allowed="a size in GiB")
    if gib is not None and mode is not None and mode != "USER_PROVISIONED":
        yield Problem(
            what="read cache size given, but not USER_PROVISIONED",
            path="read_cache_gib",
            value=gib,
            allowed="a size with USER_PROVISIONED only",
        )
    if gib is not None and throughput is not None and not any(_it_throughput.check(settings)):
        lustre = lustre_of(settings)
        steps = throughput // lustre.intelligent_tiering_throughput_step_mb_per_s
        low = steps * lustre.intelligent_tiering_cache_min_gib_per_step
        high = steps * lustre.intelligent_tiering_cache_max_gib_per_step
        if not low <= gib <= high:
            yield Problem(
                what=f"read cache size out of range at {throughput} MB/s",
                path="read_cache_gib",
                value=gib,
                allowed=f"{low} to {high} GiB",
            )


@rule(
    id="lustre.tiering-metadata",
    statement="INTELLIGENT_TIERING has USER_PROVISIONED metadata of 6000 or 12000 IOPS.",
    reason="The newest API text allows more; this set is right in every source.",
    source=f"{GUIDE}, Intelligent-Tiering; aws-samples/aws-hpc-recipes",
    passes=TIERED,
    fails=replace(TIERED, metadata_mode="AUTOMATIC", metadata_iops=None),
)
def _it_metadata(settings: LustreSettings) -> Iterator[Problem]:
    if settings.storage_type != TIERING:
        return
    legal = lustre_of(settings).intelligent_tiering_metadata_iops
    if settings.metadata_mode == "AUTOMATIC" or settings.metadata_iops not in {None, *legal}:
        yield Problem(
            what="no metadata configuration of INTELLIGENT_TIERING",
            path="metadata_iops",
            value=settings.metadata_iops if settings.metadata_iops is not None else settings.metadata_mode,
            allowed=f"USER_PROVISIONED with {listed(legal)}",
        )


STORAGE_CLASS_RULES: Final[tuple[Rule[LustreSettings], ...]] = (
    _drive_cache,
    _it_throughput,
    _it_capacity,
    _it_read_cache,
    _it_metadata,
)
"""HDD and INTELLIGENT_TIERING."""
