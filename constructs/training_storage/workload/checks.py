"""What needs more than one section or the catalog: types, regions, zones, reference workloads and service rules.

Every check passes over what is not readable: that is reported already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from training_storage.catalog import Catalog, InstanceType, instance_type_from_facts
from training_storage.errors import Problem
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.fleet import FLEET_RULES, FLEET_WORKLOAD_PATHS, FleetSettings
from training_storage.rules.network import NETWORK_RULES, NETWORK_WORKLOAD_PATHS, NetworkSettings
from training_storage.workload.buckets import object_storage_problems
from training_storage.workload.checks_lustre import lifecycle_problems, lustre_problems
from training_storage.workload.draft import Draft
from training_storage.workload.model import TypeFacts
from training_storage.workload.section import Refused, shorten
from training_storage.workload.storage import DataLakeSettings, Express, Mountpoint, S3Files

_FACTS = "accelerators, network_cards, efa_interfaces, primary_card_has_efa, network_gbps and architecture"


Check = Callable[[Draft, InstanceType | None, Catalog], Iterator[Problem]]
"""One check of a draft; the row of its instance type is given, where there is one."""


def check(draft: Draft, catalog: Catalog, only: tuple[Check, ...] | None = None) -> Iterator[Problem]:
    """Yield every problem of what is readable.

    Args:
        draft: The workload.
        catalog: Facts to hold it against.
        only: The checks to make, as ``checks_of`` returns them. Left out: every one.
    """
    facts = _facts(draft, catalog)
    for problems in only if only is not None else _CHECKS:
        yield from problems(draft, facts, catalog)


def every_check() -> tuple[Check, ...]:
    """Return every check in its order."""
    return tuple(_CHECKS)


def checks_of(path: str) -> tuple[Check, ...]:
    """Return the checks that look at a field, in their order; the others say the same whatever its value is.

    Args:
        path: Dotted path of the field.
    """
    return tuple(
        problems
        for problems, looks_at in _CHECKS.items()
        if any(f"{path}.".startswith(f"{each}.") or f"{each}.".startswith(f"{path}.") for each in looks_at)
    )


def _region(draft: Draft, _: InstanceType | None, catalog: Catalog) -> Iterator[Problem]:
    name, zone = draft.text("region"), draft.text("availability_zone_id")
    if name is None:
        return
    region = catalog.regions.get(name)
    if region is None:
        near = catalog.nearest_region(name[:100])
        yield Problem(
            what="is an unknown region",
            path="region",
            value=shorten(name),
            allowed="a region of the catalog",
            fix=f"did you mean {near}? A new region comes with a catalog file"
            if near
            else "add it with a catalog file",
        )
        return
    if zone is None or zone in region.zone_ids:
        return
    if region.zone_ids or not zone.startswith(f"{region.zone_id_prefix}-"):
        home = next((each.name for each in catalog.regions.values() if zone in each.zone_ids), None)
        yield Problem(
            what=f"belongs to {home}, and the region is {name}" if home else f"is no zone of {name}",
            path="availability_zone_id",
            value=shorten(zone),
            allowed=", ".join(region.zone_ids) or f"{region.zone_id_prefix}-az1 and so on",
            fix="choose one of those; a new zone comes with a catalog file",
        )


def _arns(draft: Draft, _: InstanceType | None, catalog: Catalog) -> Iterator[Problem]:
    region = catalog.regions.get(draft.text("region") or "")
    if region is None:
        return
    for path, what in (
        (("lustre", "kms_key_arn"), "key"),
        (("express", "kms_key_arn"), "key"),
        (("data_lake", "kms_key_arn"), "key"),
        (("monitoring", "alarm_topic_arn"), "topic"),
    ):
        parts = (draft.text(*path) or "").split(":", 5)
        if len(parts) == 6 and (parts[1], parts[3]) != (region.partition, region.name):
            yield Problem(
                what=f"is a {what} of {parts[3]} in partition {parts[1]}, and the storage stands in {region.name}",
                path=".".join(path),
                value=shorten(":".join(parts)),
                allowed=f"a {what} of {region.name} in partition {region.partition}",
            )
    role = draft.text("compute", "role_arn") or ""
    parts = role.split(":", 5)
    if len(parts) != 6:
        return
    account = draft.text("account")
    if parts[1] != region.partition:
        yield Problem(
            what=f"is a role of partition {parts[1]}, and {region.name} is in {region.partition}",
            path="compute.role_arn",
            value=shorten(role),
            allowed=f"a role of partition {region.partition}",
        )
    elif account is not None and parts[4] != account:
        yield Problem(
            what=f"is a role of account {parts[4]}, and the fleet runs in {shorten(account)}",
            path="compute.role_arn",
            value=shorten(role),
            allowed=f"a role of account {shorten(account)}: instances take roles of their own account only",
        )


def _object_storage(draft: Draft, _: InstanceType | None, catalog: Catalog) -> Iterator[Problem]:
    express, mountpoint, s3_files, lake = (
        draft.sections[name] for name in ("express", "mountpoint", "s3_files", "data_lake")
    )
    assert isinstance(express, Express) and isinstance(mountpoint, Mountpoint)  # noqa: S101, PT018 - narrows for mypy
    assert isinstance(s3_files, S3Files) and isinstance(lake, DataLakeSettings)  # noqa: S101, PT018 - narrows for mypy
    yield from object_storage_problems(
        express=express,
        mountpoint=mountpoint,
        s3_files=s3_files,
        lake=lake,
        zone=draft.text("availability_zone_id"),
        catalog=catalog,
    )


def _network(draft: Draft, _: InstanceType | None, __: Catalog) -> Iterator[Problem]:
    settings = NetworkSettings(
        has_vpc_id=draft.given("network", "vpc_id"), has_subnet_id=draft.given("network", "subnet_id")
    )
    yield from relabel(find_problems(NETWORK_RULES, settings), NETWORK_WORKLOAD_PATHS)


def _facts(draft: Draft, catalog: Catalog) -> InstanceType | None:
    name = draft.text("compute", "instance_type") or ""
    known = catalog.instance_types.get(name)
    if known is not None:
        return known
    raw = draft.data.get("compute")
    try:
        given = TypeFacts.read(raw.get("type_facts") if isinstance(raw, Mapping) else None)
    except Refused:
        return None
    return instance_type_from_facts(
        name,
        accelerators=given.accelerators,
        network_cards=given.network_cards,
        efa_interfaces=given.efa_interfaces,
        primary_card_has_efa=given.primary_card_has_efa,
        network_gbps=given.network_gbps,
        architecture=given.architecture,
        local_nvme_gb=given.local_nvme_gb,
        fsx_efa_client=given.fsx_efa_client,
    )


def _instance_type(draft: Draft, _: InstanceType | None, catalog: Catalog) -> Iterator[Problem]:
    name = draft.text("compute", "instance_type")
    if name is None:
        return
    if name in catalog.instance_types:
        if draft.given("compute", "type_facts"):
            yield Problem(
                what=f"describes {name}, which the catalog knows",
                path="compute.type_facts",
                allowed="only for a type that the catalog does not know",
                fix="remove it; a catalog file can correct single facts",
            )
    elif not draft.given("compute", "type_facts"):
        near = catalog.nearest_instance_type(name[:100])
        yield Problem(
            what="is an unknown instance type",
            path="compute.instance_type",
            value=shorten(name),
            allowed=f"a type of the catalog, or any type with type_facts: {_FACTS}",
            fix=f"did you mean {near}? Otherwise add type_facts" if near else "add type_facts",
        )


def _fleet(draft: Draft, facts: InstanceType | None, catalog: Catalog) -> Iterator[Problem]:
    compute = draft.compute
    settings = FleetSettings(
        catalog=catalog,
        instance_type=draft.text("compute", "instance_type"),
        facts=facts,
        instance_count=compute.instance_count,
        purchase=compute.purchase,
        has_reservation_id=draft.given("compute", "capacity_reservation_id"),
        capacity_reservation_id=compute.capacity_reservation_id,
        start=compute.start,
        end=compute.end,
        placement_group=None if compute.placement_group == "auto" else compute.placement_group,
        efa=compute.efa if isinstance(compute.efa, bool) else None,
        # An image that is not given is the deployment's concern: the plan does not need one.
        image=None,
    )
    yield from relabel(find_problems(FLEET_RULES, settings), FLEET_WORKLOAD_PATHS)


def _reference(draft: Draft, facts: InstanceType | None, catalog: Catalog) -> Iterator[Problem]:
    model = draft.text("dataset", "read_rate", "reference")
    if model is None:
        return
    models = catalog.reference_models()
    if model not in models:
        from training_storage.catalog.catalog import nearest

        near = nearest(model[:100], models)
        yield Problem(
            what="is an unknown reference workload",
            path="dataset.read_rate.reference",
            value=shorten(model),
            allowed=", ".join(models),
            fix=f"did you mean {near}?" if near else "give per_accelerator, samples or tokens instead",
        )
    elif facts is not None and (
        facts.accelerator_model is None or catalog.reference(model, facts.accelerator_model) is None
    ):
        measured = ", ".join(catalog.reference_accelerators(model))
        yield Problem(
            what=f"has no row for {facts.accelerator_model or 'the accelerator'} of {facts.name}",
            path="dataset.read_rate.reference",
            value=model,
            allowed=f"{model} on {measured}",
            fix="give per_accelerator, samples or tokens instead",
        )


_TYPE: Final = ("compute.instance_type", "compute.type_facts")
_CHECKS: Final[Mapping[Check, tuple[str, ...]]] = {
    _region: ("region", "availability_zone_id"),
    _arns: (
        "region",
        "account",
        "compute.role_arn",
        "lustre.kms_key_arn",
        "express.kms_key_arn",
        "data_lake.kms_key_arn",
        "monitoring.alarm_topic_arn",
    ),
    _object_storage: ("availability_zone_id", "express", "mountpoint", "s3_files", "data_lake"),
    _network: ("network",),
    _instance_type: _TYPE,
    _fleet: ("compute",),
    _reference: (*_TYPE, "dataset.read_rate.reference"),
    lustre_problems: (*_TYPE, "compute.image", "lustre"),
    lifecycle_problems: ("lustre.links", "lifecycle"),
}
"""Every check in order, with the fields that it looks at, single ones and whole sections."""
