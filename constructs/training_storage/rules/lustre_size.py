"""Rules of what a Lustre file system is built of: type, capacity, throughput, EFA, subnet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from training_storage.catalog.model import StorageOption
from training_storage.errors import Problem
from training_storage.rules.base import Rule, rule
from training_storage.rules.lustre_settings import (
    API,
    GUIDE,
    HDD,
    PERSISTENT_2,
    SCRATCH,
    LustreSettings,
    kind_of,
    listed,
    lustre_of,
    row_of,
)


def _steps(row: StorageOption, tier: int | None) -> str:
    step = row.step_gib.get(tier or 0) or row.step_gib.get(0)
    if step is None:  # the step depends on a tier that is not known yet
        each = ", ".join(f"multiples of {gib} GiB at {key} MB/s per TiB" for key, gib in sorted(row.step_gib.items()))
        first = [gib for gib in row.first_gib if gib not in row.step_gib.values()]
    else:
        each = f"multiples of {step} GiB"
        first = [gib for gib in row.first_gib if gib != step]
    return (f"{', '.join(map(str, first))}, then " if first else "") + each


def _illegal_capacity(settings: LustreSettings, *, efa: bool, what: str) -> Iterator[Problem]:
    row, gib, given = row_of(settings), settings.storage_capacity_gib, settings.per_unit_storage_throughput
    if row is None or gib is None or not row.step_gib:
        return
    # Beside a tier that does not exist, a capacity may still be wrong at every tier that does.
    tier = given if given in row.tiers else None
    steps = row.efa_step_gib if efa else row.step_gib
    tiers = (tier,) if tier is not None else row.tiers or (0,)
    lustre = lustre_of(settings)
    if any(lustre.is_legal_capacity(row, gib, each, efa) for each in tiers):
        return
    near = sorted({size for each in tiers for size in lustre.neighbours(row, gib, each, efa) if size})
    if efa:
        allowed = ", ".join(f"multiples of {steps[each]} GiB at {each} MB/s per TiB" for each in tiers)
    else:
        allowed = _steps(row, tier)
    yield Problem(
        what=what, path="storage_capacity_gib", value=gib, allowed=allowed, fix=f"{listed(tuple(map(str, near)))} GiB"
    )


@rule(
    id="lustre.deployment-type",
    statement="The deployment type is SCRATCH_2, PERSISTENT_1 or PERSISTENT_2.",
    reason="SCRATCH_1 can neither grow nor be linked to S3, and FSx takes it when no type is named.",
    source=API,
    passes=PERSISTENT_2,
    fails=replace(PERSISTENT_2, deployment_type="SCRATCH_1"),
)
def _deployment_type(settings: LustreSettings) -> Iterator[Problem]:
    known = lustre_of(settings).deployment_types
    if settings.deployment_type is not None and settings.deployment_type not in known:
        yield Problem(
            what="unknown deployment type",
            path="deployment_type",
            value=settings.deployment_type,
            allowed=listed(known),
        )


@rule(
    id="lustre.storage-type",
    statement="HDD storage goes with PERSISTENT_1, INTELLIGENT_TIERING with PERSISTENT_2, SSD with every type.",
    reason="FSx refuses other pairs.",
    source=API,
    passes=HDD,
    fails=replace(HDD, deployment_type="PERSISTENT_2"),
)
def _storage_type(settings: LustreSettings) -> Iterator[Problem]:
    lustre = lustre_of(settings)
    if settings.deployment_type not in lustre.deployment_types or settings.storage_type is None:
        return
    if row_of(settings) is None:
        yield Problem(
            what=f"{settings.deployment_type} has no such storage type",
            path="storage_type",
            value=settings.storage_type,
            allowed=listed(lustre.storage_types(settings.deployment_type)),
        )


@rule(
    id="lustre.capacity-required",
    statement="SSD and HDD file systems have a storage capacity.",
    reason="FSx has no default for it.",
    source=API,
    passes=PERSISTENT_2,
    fails=replace(PERSISTENT_2, storage_capacity_gib=None, omitted=frozenset({"storage_capacity_gib"})),
)
def _capacity_required(settings: LustreSettings) -> Iterator[Problem]:
    row = row_of(settings)
    if row is not None and row.step_gib and "storage_capacity_gib" in settings.omitted:
        yield Problem(
            what=f"{kind_of(settings)} needs a capacity", path="storage_capacity_gib", allowed=_steps(row, None)
        )


@rule(
    id="lustre.capacity-step",
    statement="The capacity is a legal one of its deployment type, storage type and tier.",
    reason="FSx refuses sizes between the steps; no linter knows them. There is no upper bound but the account quota.",
    source=API,
    passes=PERSISTENT_2,
    fails=replace(PERSISTENT_2, storage_capacity_gib=3600),
)
def _capacity_step(settings: LustreSettings) -> Iterator[Problem]:
    row = row_of(settings)
    if not settings.efa or row is None or not row.efa_step_gib:
        yield from _illegal_capacity(settings, efa=False, what=f"no capacity of {kind_of(settings)}")


@rule(
    id="lustre.efa-capacity-step",
    statement="With EFA the capacity is a multiple of the large step of its tier: 38400, 19200, 9600 or 4800 GiB.",
    reason="EFA-enabled file systems are built of larger servers; FSx refuses smaller ones.",
    source=f"{GUIDE}, getting started; aws-pcs operations notes in awslabs/awsome-distributed-ai",
    passes=replace(PERSISTENT_2, efa=True, storage_capacity_gib=19_200),
    fails=replace(PERSISTENT_2, efa=True, storage_capacity_gib=1200),
)
def _efa_capacity_step(settings: LustreSettings) -> Iterator[Problem]:
    row = row_of(settings)
    if settings.efa and row is not None and row.efa_step_gib:
        yield from _illegal_capacity(settings, efa=True, what="no capacity of an EFA-enabled file system")


@rule(
    id="lustre.efa-deployment-type",
    statement="Only PERSISTENT_2 file systems are EFA-enabled.",
    reason="FSx refuses EFA on other types, and it can never be switched on later.",
    source=API,
    passes=replace(PERSISTENT_2, efa=True, storage_capacity_gib=19_200),
    fails=replace(SCRATCH, efa=True),
)
def _efa_deployment_type(settings: LustreSettings) -> Iterator[Problem]:
    row = row_of(settings)
    if settings.efa and row is not None and not row.metadata_configuration:
        yield Problem(
            what=f"{kind_of(settings)} cannot be EFA-enabled",
            path="efa",
            value=settings.efa,
            allowed="EFA with PERSISTENT_2",
            fix="use PERSISTENT_2, or leave EFA off",
        )


@rule(
    id="lustre.efa-metadata",
    statement="An EFA-enabled file system has a metadata configuration.",
    reason="The guide asks for one; without it FSx may refuse the file system.",
    source=GUIDE,
    passes=replace(PERSISTENT_2, efa=True, storage_capacity_gib=19_200),
    fails=replace(
        PERSISTENT_2, efa=True, storage_capacity_gib=19_200, metadata_mode=None, omitted=frozenset({"metadata_mode"})
    ),
)
def _efa_metadata(settings: LustreSettings) -> Iterator[Problem]:
    row = row_of(settings)
    if settings.efa and row is not None and row.metadata_configuration and "metadata_mode" in settings.omitted:
        yield Problem(
            what="an EFA-enabled file system needs a metadata configuration",
            path="metadata_mode",
            allowed="AUTOMATIC or USER_PROVISIONED",
        )


@rule(
    id="lustre.gds-efa",
    statement="GPUDirect Storage is counted with an EFA-enabled file system only.",
    reason="It moves data over EFA straight into GPU memory; over TCP there is no such way.",
    source=f"{GUIDE}, performance",
    passes=replace(PERSISTENT_2, efa=True, gds=True),
    fails=replace(PERSISTENT_2, efa=False, gds=True),
)
def _gds_efa(settings: LustreSettings) -> Iterator[Problem]:
    if settings.gds and settings.efa is False:
        yield Problem(
            what="GPUDirect Storage works over EFA only",
            path="gds",
            value=settings.gds,
            allowed="gds with an EFA-enabled file system",
        )


@rule(
    id="lustre.throughput-tier",
    statement="The throughput tier is one that its deployment and storage type has.",
    reason="FSx refuses other values.",
    source=API,
    passes=PERSISTENT_2,
    fails=replace(PERSISTENT_2, per_unit_storage_throughput=200),
)
def _tier(settings: LustreSettings) -> Iterator[Problem]:
    row, tier = row_of(settings), settings.per_unit_storage_throughput
    if row is not None and row.tiers and tier is not None and tier not in row.tiers:
        yield Problem(
            what=f"no throughput tier of {kind_of(settings)}",
            path="per_unit_storage_throughput",
            value=tier,
            allowed=f"{listed(row.tiers)} MB/s per TiB",
        )


@rule(
    id="lustre.throughput-required",
    statement="Persistent SSD and HDD file systems have a throughput tier.",
    reason="FSx refuses a persistent file system without one.",
    source=API,
    passes=PERSISTENT_2,
    fails=replace(PERSISTENT_2, per_unit_storage_throughput=None, omitted=frozenset({"per_unit_storage_throughput"})),
)
def _tier_required(settings: LustreSettings) -> Iterator[Problem]:
    row = row_of(settings)
    if row is not None and row.tiers and "per_unit_storage_throughput" in settings.omitted:
        yield Problem(
            what=f"{kind_of(settings)} needs a throughput tier",
            path="per_unit_storage_throughput",
            allowed=f"{listed(row.tiers)} MB/s per TiB",
        )


@rule(
    id="lustre.throughput-forbidden",
    statement="Scratch and INTELLIGENT_TIERING file systems have no throughput tier.",
    reason="FSx refuses a scratch file system with one.",
    source=API,
    passes=SCRATCH,
    fails=replace(SCRATCH, per_unit_storage_throughput=200),
)
def _tier_forbidden(settings: LustreSettings) -> Iterator[Problem]:
    row = row_of(settings)
    if row is not None and not row.tiers and settings.per_unit_storage_throughput is not None:
        yield Problem(
            what=f"{kind_of(settings)} has no throughput tiers",
            path="per_unit_storage_throughput",
            value=settings.per_unit_storage_throughput,
            allowed="nothing",
            fix="leave it out, or use a persistent SSD type",
        )


@rule(
    id="lustre.one-subnet",
    statement="A Lustre file system stands in exactly one subnet.",
    reason="FSx refuses more; a file system lives in one zone, like the GPUs that read it.",
    source=API,
    passes=replace(PERSISTENT_2, subnet_count=1),
    fails=replace(PERSISTENT_2, subnet_count=2),
)
def _one_subnet(settings: LustreSettings) -> Iterator[Problem]:
    if settings.subnet_count is not None and settings.subnet_count != 1:
        yield Problem(
            what="a Lustre file system stands in one subnet",
            path="subnet_count",
            value=settings.subnet_count,
            allowed="exactly 1 subnet, in the zone of the clients",
        )


SIZE_RULES: Final[tuple[Rule[LustreSettings], ...]] = (
    _deployment_type,
    _storage_type,
    _capacity_required,
    _capacity_step,
    _efa_capacity_step,
    _efa_deployment_type,
    _efa_metadata,
    _gds_efa,
    _tier,
    _tier_required,
    _tier_forbidden,
    _one_subnet,
)
"""Type, capacity, throughput, EFA, subnet."""
