"""The fleet: which type it is, EFA and placement with every ``auto`` resolved, and the addresses that it takes."""

from __future__ import annotations

from typing import Literal

from training_storage.catalog import Catalog, instance_type_from_facts
from training_storage.catalog.model import InstanceType, Region
from training_storage.errors import CatalogError, Problem
from training_storage.planner.draft import RANKING_REGION, Draft
from training_storage.planner.model import ComputePlan, LustrePlan
from training_storage.planner.s3_supply import s3_gbps
from training_storage.planner.words import number
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.fleet import FLEET_RULES, FLEET_WORKLOAD_PATHS, FleetSettings
from training_storage.rules.network import NETWORK_RULES, NETWORK_WORKLOAD_PATHS, NetworkSettings
from training_storage.units import GB
from training_storage.workload.model import Workload


def find_region(workload: Workload, catalog: Catalog, problems: list[Problem]) -> Region | None:
    """Return the row of the region, or None with a problem that names the nearest one."""
    row = catalog.regions.get(workload.region)
    if row is None:
        near = catalog.nearest_region(workload.region)
        problems.append(
            Problem(
                what="unknown region",
                path="region",
                value=workload.region,
                allowed="a region of the catalog",
                fix=f"did you mean {near}?" if near else "add it to a catalog file of your own",
            )
        )
        return None
    zone = workload.availability_zone_id
    if not zone.startswith(f"{row.zone_id_prefix}-"):
        problems.append(
            Problem(
                what=f"no zone of {row.name}",
                path="availability_zone_id",
                value=zone,
                allowed=", ".join(row.zone_ids),
                fix="give a zone of the region: storage and GPUs share it",
            )
        )
    return row


def find_facts(workload: Workload, catalog: Catalog, problems: list[Problem]) -> InstanceType | None:
    """Return the row of the instance type, or the one made from ``type_facts``; None with a problem without either."""
    compute = workload.compute
    row = catalog.instance_types.get(compute.instance_type)
    given = compute.type_facts
    if row is not None:
        if given is not None:
            problems.append(
                Problem(
                    what=f"the catalog knows {row.name}, and type_facts are for types that it does not know",
                    path="compute.type_facts",
                    allowed="nothing for a known type",
                    fix="leave type_facts out",
                )
            )
        return row
    if given is None:
        near = catalog.nearest_instance_type(compute.instance_type)
        problems.append(
            Problem(
                what="the catalog does not know this instance type",
                path="compute.instance_type",
                value=compute.instance_type,
                allowed="a type of the catalog, or one described by compute.type_facts",
                fix=f"did you mean {near}?" if near else "give compute.type_facts",
            )
        )
        return None
    try:
        return instance_type_from_facts(
            compute.instance_type,
            accelerators=given.accelerators,
            network_cards=given.network_cards,
            efa_interfaces=given.efa_interfaces,
            primary_card_has_efa=given.primary_card_has_efa,
            network_gbps=given.network_gbps,
            architecture=given.architecture,
            local_nvme_gb=given.local_nvme_gb,
            fsx_efa_client=given.fsx_efa_client,
        )
    except CatalogError as error:
        paths = {problem.path: f"compute.type_facts.{problem.path}" for problem in error.problems}
        problems.extend(relabel(error.problems, paths))
        return None


def plan_fleet(draft: Draft, lustre: LustrePlan | None) -> ComputePlan:
    """Return the fleet; what the services refuse goes to the draft's problems."""
    compute, facts = draft.workload.compute, draft.facts
    over_efa = lustre is not None and lustre.efa
    wanted = facts.has_efa and (compute.instance_count >= 2 or over_efa)
    efa = wanted if compute.efa == "auto" else compute.efa
    placement: Literal["cluster", "none"]
    if compute.placement_group == "auto":
        placement = "cluster" if efa and compute.purchase == "on-demand" else "none"
    else:
        placement = compute.placement_group
    if draft.told:
        _explain(draft, lustre, placement, efa=efa)
    draft.problems.extend(
        relabel(
            find_problems(
                FLEET_RULES,
                FleetSettings(
                    catalog=draft.catalog,
                    instance_type=compute.instance_type,
                    facts=facts,
                    instance_count=compute.instance_count,
                    purchase=compute.purchase,
                    has_reservation_id=compute.capacity_reservation_id is not None,
                    capacity_reservation_id=compute.capacity_reservation_id,
                    start=compute.start,
                    end=compute.end,
                    placement_group=placement,
                    efa=efa,
                ),
            ),
            FLEET_WORKLOAD_PATHS,
        )
    )
    if compute.image == "auto" and facts.image_family is None:
        draft.warn(
            "image-unknown",
            f"no public image is known for {facts.name}: give compute.image (ami-... or ssm:/parameter/name) before "
            "deploying",
        )
    _check_network(draft, lustre, efa=efa)
    _warn_nat(draft)
    return ComputePlan(
        instance_type=compute.instance_type,
        instance_count=compute.instance_count,
        purchase=compute.purchase,
        efa=efa,
        placement_group=placement,
        mountpoint_gbps=s3_gbps(facts),
        facts=facts,
    )


def addresses_per_instance(facts: InstanceType, *, efa: bool) -> int:
    """Return the IPv4 addresses of one instance: one for each interface of its layout that is not EFA alone."""
    if not efa:
        return 1
    return max(1, sum(interface.interface_type != "efa-only" for interface in facts.efa_layout))


def _check_network(draft: Draft, lustre: LustrePlan | None, *, efa: bool) -> None:
    network, compute = draft.workload.network, draft.workload.compute
    addresses = compute.instance_count * addresses_per_instance(draft.facts, efa=efa)
    if lustre is not None:
        addresses += lustre.ip_addresses
    settings = NetworkSettings(
        own=network.vpc_id is None,
        availability_zone_id=draft.workload.availability_zone_id,
        internet=network.internet,
        has_vpc_id=network.vpc_id is not None,
        has_subnet_id=network.subnet_id is not None,
        addresses=addresses,
        efa_file_system=lustre is not None and lustre.efa_interfaces_per_client is not None,
        image=compute.image,
    )
    draft.problems.extend(relabel(find_problems(NETWORK_RULES, settings), NETWORK_WORKLOAD_PATHS))


def _warn_nat(draft: Draft) -> None:
    """Say what S3 traffic could cost in a VPC whose routes cannot be seen (field report 36)."""
    network, dataset = draft.workload.network, draft.workload.dataset
    if network.vpc_id is None or network.route_table_ids:
        return
    gigabytes = dataset.size.bytes * dataset.hot_fraction / GB
    usd = draft.catalog.prices.usd("nat.data_processed", RANKING_REGION)
    price = "an unknown price" if usd is None else f"{gigabytes * usd:,.0f} USD at {usd:g} USD a GB"
    draft.warn(
        "gateway-endpoint-unseen",
        f"whether {network.vpc_id} has a gateway endpoint for S3 cannot be seen: through a NAT gateway, reading the "
        f"data once ({number(gigabytes)} GB) would cost {price}; with network.route_table_ids the endpoint is added",
    )


def _explain(draft: Draft, lustre: LustrePlan | None, placement: Literal["cluster", "none"], *, efa: bool) -> None:
    compute, facts = draft.workload.compute, draft.facts
    if compute.efa != "auto":
        reason = f"compute.efa: {'true' if efa else 'false'} is given"
    elif not facts.has_efa:
        reason = f"{facts.name} has no EFA"
    elif compute.instance_count >= 2:
        reason = f"{facts.name} has EFA, and {compute.instance_count:,} instances train together"
    elif efa:
        reason = "the file system is reached over EFA"
    else:
        over = "Lustre over TCP" if lustre is not None else "no Lustre over EFA"
        reason = f"one instance alone, and {over}"
    taken, left = ("true", "false") if efa else ("false", "true")
    draft.choose("compute.efa", taken, reason)
    if compute.efa == "auto":
        draft.reject("compute.efa", left, _against_other_efa(draft, efa=efa))
    if compute.placement_group != "auto":
        why = f"compute.placement_group: {placement} is given"
    elif compute.purchase != "on-demand":
        why = f"purchase {compute.purchase} is placed by EC2"
    else:
        why = "on-demand instances with EFA stand close together" if efa else "without EFA it brings nothing"
    draft.choose("compute.placement-group", placement, why)
    if compute.placement_group == "auto":
        count = f"{compute.instance_count:,} instance{'s' if compute.instance_count > 1 else ''}"
        left, against = "none", f"{count} may stand far apart"
        if placement == "none":
            left, against = "cluster", f"it can only keep {count} from starting"
        draft.reject("compute.placement-group", left, against)


def _against_other_efa(draft: Draft, *, efa: bool) -> str:
    """Why the other choice of ``compute.efa`` was not taken."""
    count = draft.workload.compute.instance_count
    if not efa:
        return f"{draft.facts.name} has none" if not draft.facts.has_efa else "EFA would connect 1 instance to nothing"
    between = "1 instance and its file system" if count == 1 else f"{count:,} instances"
    return f"traffic between {between} would run over TCP"
