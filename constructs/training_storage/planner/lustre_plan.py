"""The Lustre part of a plan: from the overrides of the workload file to one legal configuration, with its reasons."""

from __future__ import annotations

from dataclasses import dataclass, replace

from training_storage.catalog.model import StorageOption
from training_storage.planner.demand import covers
from training_storage.planner.draft import RANKING_REGION, Draft
from training_storage.planner.lustre import LustreAsk, Sized, servers_needed, throughput_gib
from training_storage.planner.lustre_efa import Choice, search
from training_storage.planner.model import LinkPlan, LustrePlan
from training_storage.planner.supply import Limits
from training_storage.planner.words import gib, listed, mb_per_s, number, usd_per_month
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.lustre import LUSTRE_RULES, LUSTRE_WORKLOAD_PATHS, LustreSettings
from training_storage.units import GIB, MB

_COMPRESSION = {"lz4": "LZ4", "none": "NONE"}
_AMAZON_LINUX = "al2023"
"""Operating system of the images that ``compute.image: auto`` takes."""


@dataclass(slots=True, kw_only=True)
class LustreResult:
    """The Lustre part of a plan.

    Attributes:
        plan: What is printed and built.
        limits: What binds, for the comparison of tiers.
        ask: What decided, to ask again with another demand.
    """

    plan: LustrePlan
    limits: Limits
    ask: LustreAsk


def plan_lustre(draft: Draft, links: tuple[LinkPlan, ...]) -> LustreResult | None:
    """Return the Lustre part, or None with the reasons among the draft's problems."""
    settings = _given_settings(draft, links)
    problems = relabel(find_problems(LUSTRE_RULES, settings), LUSTRE_WORKLOAD_PATHS)
    draft.problems.extend(problems)
    ask = None if problems else _ask(draft, settings)
    if ask is None:
        return None
    choice = search(ask)
    sized = choice.chosen
    if sized is None:
        _refuse_unsized(draft, ask, choice)
        return None
    planned = _planned_settings(settings, sized)
    problems = relabel(find_problems(LUSTRE_RULES, planned), LUSTRE_WORKLOAD_PATHS)
    draft.problems.extend(problems)
    if problems or not _gds_possible(draft, choice):
        return None
    _explain(draft, ask, choice, sized)
    _warn(draft, ask, choice, sized)
    return LustreResult(plan=_plan(draft, ask, choice, sized, links), limits=_limits(ask, choice, sized), ask=ask)


def price_at(result: LustreResult, write_s: float) -> float | None:
    """Return the ranking price where one save may take ``write_s`` seconds; None where it is not known."""
    needs = result.ask.needs
    demand, saves = needs.demand, needs.saves
    if saves is None:
        return result.plan.ranking_usd_per_month
    write = saves.checkpoint_bytes / MB / write_s
    training = max(demand.read_mb_per_s or 0.0, write)
    relaxed = replace(
        demand,
        checkpoint_write_mb_per_s=write,
        required_mb_per_s=max(training, demand.restore_read_mb_per_s or 0.0),
    )
    sized = search(replace(result.ask, needs=replace(needs, demand=relaxed))).chosen
    return None if sized is None else sized.usd


def _given_settings(draft: Draft, links: tuple[LinkPlan, ...]) -> LustreSettings:
    """What the workload file says, with the deployment and storage types that follow from it."""
    given, workload = draft.workload.lustre, draft.workload
    deployment = given.deployment_type or ("PERSISTENT_1" if given.storage_type == "HDD" else "PERSISTENT_2")
    capacity = given.storage_capacity
    provisioned = given.metadata_iops if isinstance(given.metadata_iops, int) else None
    return LustreSettings(
        deployment_type=deployment,
        storage_type=given.storage_type or "SSD",
        storage_capacity_gib=None if capacity is None else int(capacity.bytes // GIB),
        per_unit_storage_throughput=given.per_unit_storage_throughput,
        throughput_capacity_mb_per_s=given.throughput_capacity,
        metadata_mode=None if provisioned is None else "USER_PROVISIONED",
        metadata_iops=provisioned,
        efa=True if given.efa is True else None,
        gds=given.gds,
        compression=_COMPRESSION[given.compression],
        file_system_type_version=given.file_system_type_version,
        backup_retention_days=given.backup_retention_days,
        kms_key=given.kms_key_arn,
        linked=bool(links),
        client_os=_AMAZON_LINUX if workload.compute.image == "auto" else None,
    )


def _planned_settings(settings: LustreSettings, sized: Sized) -> LustreSettings:
    tiered = sized.gib is None
    return replace(
        settings,
        storage_capacity_gib=sized.gib,
        per_unit_storage_throughput=sized.tier or None,
        throughput_capacity_mb_per_s=int(sized.read_mb_per_s) if tiered else None,
        metadata_mode=sized.metadata_mode,
        metadata_iops=sized.metadata_iops if sized.metadata_mode == "USER_PROVISIONED" else None,
        efa=sized.efa,
    )


def _ask(draft: Draft, settings: LustreSettings) -> LustreAsk | None:
    """Return what decides the configuration, or None where the region or the price book does not allow one."""
    lustre, given, facts = draft.catalog.lustre, draft.workload.lustre, draft.facts
    option = lustre.option(settings.deployment_type or "", settings.storage_type or "")
    if option is None:  # the rules have said so
        return None
    tiers = _tiers(draft, option)
    if tiers is None:
        return None
    prices = draft.catalog.prices
    name = f"lustre.{option.deployment_type}.{option.storage_type}"
    usd_per_gib = {tier: prices.usd(f"{name}.{tier}" if tier else name, RANKING_REGION) for tier in tiers}
    if option.step_gib and len(tiers) > 1 and not any(usd is not None for usd in usd_per_gib.values()):
        draft.refuse(
            f"{option.deployment_type} {option.storage_type} has no price rows, so that its tier must be given",
            path="lustre.per_unit_storage_throughput",
            allowed=f"{listed([str(tier) for tier in tiers], 'or')} MB/s per TiB",
        )
        return None
    efa_wanted = True if given.efa is True else False if given.efa is False else None
    if facts.fsx_efa_client is None:
        draft.assume(f"the facts do not say whether FSx serves {facts.name} over EFA; it counts as no")
    return LustreAsk(
        lustre=lustre,
        option=option,
        tiers=tiers,
        needs=draft.needs,
        facts=facts,
        capacity_gib=settings.storage_capacity_gib,
        throughput_capacity_mb_per_s=settings.throughput_capacity_mb_per_s,
        metadata_iops=settings.metadata_iops,
        gds=given.gds,
        efa=efa_wanted,
        fleet_efa=draft.workload.compute.efa is not False and facts.has_efa,
        region_efa=draft.region.lustre_efa is not False,
        usd_per_gib=usd_per_gib,
        usd_per_metadata_iops=prices.usd("lustre.metadata_iops", RANKING_REGION),
    )


def _tiers(draft: Draft, option: StorageOption) -> tuple[int, ...] | None:
    """Return the tiers that the region offers and the file allows; None with a problem where there is none."""
    region, given = draft.region, draft.workload.lustre
    offered = tuple(sorted(option.tiers)) or (0,)
    if option.deployment_type == "PERSISTENT_2":
        if region.lustre_tiers is None:
            draft.assume(
                f"the facts do not say which Lustre tiers {region.name} offers; it counts as offering all, with EFA"
            )
        elif not region.lustre_tiers:
            draft.refuse(
                f"{region.name} has no PERSISTENT_2 file systems",
                path="lustre.deployment_type" if given.deployment_type else "region",
                value=given.deployment_type or region.name,
                allowed="SCRATCH_2 and PERSISTENT_1 in this region",
                fix="give lustre.deployment_type: SCRATCH_2, or PERSISTENT_1 with its tier, or choose another region",
            )
            return None
        elif option.tiers:
            offered = tuple(tier for tier in offered if tier in region.lustre_tiers)
        if given.efa is True and region.lustre_efa is False:
            draft.refuse(
                f"{region.name} has no EFA-enabled file systems",
                path="lustre.efa",
                value=True,
                allowed="auto or false in this region",
            )
            return None
    tier = given.per_unit_storage_throughput
    if tier is None:
        return offered
    if tier not in offered:
        draft.refuse(
            f"{region.name} does not offer this tier",
            path="lustre.per_unit_storage_throughput",
            value=tier,
            allowed=f"{listed([str(each) for each in offered], 'or')} MB/s per TiB",
        )
        return None
    return (tier,)


def _refuse_unsized(draft: Draft, ask: LustreAsk, choice: Choice) -> None:
    draft.refuse(
        "; ".join(dict.fromkeys(rejected.because for rejected in choice.rejected)) or "no tier can be sized",
        path="lustre.metadata_iops",
        value=ask.metadata_iops,
        allowed="at least what AUTOMATIC gives at the planned capacity",
        fix="leave metadata_iops out, or raise it",
    )


def _gds_possible(draft: Draft, choice: Choice) -> bool:
    if not draft.workload.lustre.gds:
        return True
    facts = draft.facts
    if facts.gds is None:
        draft.assume(f"the facts do not say whether FSx serves {facts.name} with GPUDirect Storage; it counts as no")
    if not facts.gds:
        with_gds = [name for name, row in draft.catalog.instance_types.items() if row.gds]
        draft.refuse(
            f"{facts.name} has no GPUDirect Storage with FSx",
            path="lustre.gds",
            value=True,
            allowed=f"gds on {listed(with_gds, 'or')}",
            fix="leave gds out",
        )
        return False
    if choice.efa_interfaces is None:
        draft.refuse(
            f"GPUDirect Storage works over EFA only, and clients use TCP: {choice.efa_because}",
            path="lustre.gds",
            value=True,
            allowed="gds with Lustre over EFA",
            fix="give lustre.efa: true where the fleet can use it, or leave gds out",
        )
        return False
    return True


def _label(ask: LustreAsk, tier: int) -> str:
    kind = f"{ask.option.deployment_type} {ask.option.storage_type}"
    return f"{kind} {tier} MB/s per TiB" if tier else kind


def _explain(draft: Draft, ask: LustreAsk, choice: Choice, chosen: Sized) -> None:
    required = ask.needs.required_mb_per_s
    for sized in choice.compared:
        label = _label(ask, sized.tier)
        figures = (
            f"{gib(sized.gib)} ({gib(sized.asked_gib)} asked), {mb_per_s(sized.read_mb_per_s)} for "
            f"{mb_per_s(required)} required, {usd_per_month(sized.usd)}"
            if sized.gib is not None
            else f"{mb_per_s(sized.read_mb_per_s)} bought for {mb_per_s(required)} required; capacity grows by itself"
        )
        if sized is chosen:
            draft.choose("lustre.configuration", label, f"{figures}{_why_chosen(ask, choice)}")
        else:
            draft.reject("lustre.configuration", label, f"{figures}: {_why_not(sized, chosen)}")
    for rejected in choice.rejected:
        draft.reject("lustre.configuration", _label(ask, rejected.tier), rejected.because)
    if len(choice.compared) > 1:
        draft.assume(
            f"Lustre configurations are ranked by the price rows of {RANKING_REGION}, whose trust is low; they rank "
            "every region"
        )
    taken, left = ("EFA", "TCP") if chosen.efa else ("TCP", "EFA")
    draft.choose("lustre.efa", taken, choice.efa_because)
    if choice.without_efa is not None:
        draft.reject(
            "lustre.efa",
            left,
            f"{choice.efa_because}; without EFA: {_label(ask, choice.without_efa.tier)}, "
            f"{gib(choice.without_efa.gib or 0)}, {usd_per_month(choice.without_efa.usd)}",
        )
    else:
        draft.reject("lustre.efa", left, choice.efa_because)
    _explain_metadata(draft, ask, chosen)


def _why_chosen(ask: LustreAsk, choice: Choice) -> str:
    if len(choice.compared) == 1:
        return "" if ask.needs.demand.required_mb_per_s is not None else "; no throughput is asked for"
    return "; the cheapest that was compared" if ask.capacity_gib is None else "; at the given capacity"


def _why_not(sized: Sized, chosen: Sized) -> str:
    if sized.rank < chosen.rank:
        return "does not cover the throughput"
    if sized.usd is None or chosen.usd is None:
        return "its price is not known" if sized.usd is None else "larger"
    more = sized.usd - chosen.usd
    if more < 0.01:
        return "the same price for a larger capacity"
    return f"{number(more)} USD a month more"


def _explain_metadata(draft: Draft, ask: LustreAsk, sized: Sized) -> None:
    mode, iops = sized.metadata_mode, sized.metadata_iops
    if mode is None or iops is None:
        return
    opens = ask.needs.demand.file_opens_per_s
    per_iops = ask.lustre.opens_per_metadata_iops
    served = f"{iops:,} IOPS serve {number(iops * per_iops)} opens a second"
    asked = "opens are not known" if opens is None else f"{number(opens)} are asked for"
    if sized.gib is None:
        draft.choose("lustre.metadata", mode, f"{served}; {asked}; the mode that every region takes for this storage")
        return
    automatic = ask.lustre.automatic_metadata_iops(sized.gib)
    granted = f"AUTOMATIC gives {automatic:,} IOPS at {gib(sized.gib)}, {number(automatic * per_iops)} opens a second"
    if mode == "AUTOMATIC":
        draft.choose("lustre.metadata", mode, f"{served}; {asked}")
        draft.reject("lustre.metadata", "USER_PROVISIONED", f"{granted}; more is not needed")
    else:
        given = "given in the workload file; " if ask.metadata_iops is not None else ""
        draft.choose("lustre.metadata", mode, f"{given}{served}; {asked}")
        draft.reject("lustre.metadata", "AUTOMATIC", f"{granted}; {asked}")


def _warn(draft: Draft, ask: LustreAsk, choice: Choice, sized: Sized) -> None:
    needs, lustre = ask.needs, ask.lustre
    _warn_too_small(draft, ask, choice, sized)
    share, limit = needs.share_mb_per_s, choice.client_limit_mb_per_s
    if not covers(limit, share):
        draft.warn(
            "client-limit",
            f"one instance can move {mb_per_s(limit)}, and its share of the demand is {mb_per_s(share)}: "
            "more instances, a type with more network, or EFA would cover it",
        )
    if sized.efa and choice.efa_interfaces is None:
        draft.warn(
            "lustre-efa-unused",
            f"the file system is EFA-enabled, and clients use TCP: {_why_tcp(ask)}",
        )
    opens = needs.demand.file_opens_per_s
    if sized.metadata_iops is not None and opens is not None:
        served = sized.metadata_iops * lustre.opens_per_metadata_iops
        if not covers(served, opens):
            most = sized.metadata_iops >= lustre.metadata_iops_max
            advice = "no file system grants more" if most else "raise lustre.metadata_iops"
            draft.warn(
                "metadata-short",
                f"{number(opens)} file opens a second are asked for and {sized.metadata_iops:,} metadata IOPS serve "
                f"{number(served)}, {number(opens - served)} too few: {advice}; pack small files into shards",
            )
    if sized.gib is not None and sized.gib > lustre.default_quota_gib:
        draft.warn(
            "lustre-quota",
            f"{gib(sized.gib)} are more than the default quota of {gib(lustre.default_quota_gib)}: have it raised before "
            "deploying",
        )
    if ask.option.deployment_type == "SCRATCH_2" and needs.saves is not None:
        draft.warn(
            "scratch-not-durable",
            "SCRATCH_2 keeps one copy of each file: checkpoints on a server that fails are lost until they are promoted "
            "to the data lake",
        )


def _why_tcp(ask: LustreAsk) -> str:
    facts, most = ask.facts, ask.lustre.max_efa_connections
    if not facts.has_efa:
        return f"{facts.name} has no EFA"
    if not ask.fleet_efa:
        return "the fleet has no EFA interfaces (compute.efa: false)"
    if not facts.fsx_efa_client:
        return f"FSx does not serve {facts.name} over EFA"
    return f"{ask.needs.instances:,} instances are more than the {most:,} EFA connections of one file system"


def _warn_too_small(draft: Draft, ask: LustreAsk, choice: Choice, sized: Sized) -> None:
    """Name what a configuration that is given misses; a planned one misses nothing of this."""
    needs = ask.needs
    missing: list[str] = []
    required = needs.required_mb_per_s
    if sized.gib is not None:
        space = needs.demand.hot_capacity_gib
        if not covers(sized.gib, space):
            missing.append(f"{gib(space - sized.gib)} of {gib(space)}")
        wanted = throughput_gib(ask, sized.tier)
        if not covers(sized.gib, wanted):
            short = required * (1 - sized.gib / wanted)
            missing.append(f"{mb_per_s(short)} of {mb_per_s(required)}")
    elif not covers(sized.read_mb_per_s, required):
        missing.append(f"{mb_per_s(required - sized.read_mb_per_s)} of {mb_per_s(required)}")
    servers = servers_needed(ask)
    if choice.efa_interfaces is None and sized.servers < servers:
        missing.append(f"{servers - sized.servers} of {servers} file servers for the share of one instance")
    if missing:
        draft.warn("lustre-too-small", f"the file system as given misses {listed(missing)}")


def _limits(ask: LustreAsk, choice: Choice, sized: Sized) -> Limits:
    fleet = ask.needs.instances * choice.client_limit_mb_per_s
    opens = ask.needs.demand.file_opens_per_s
    share = None
    if sized.metadata_iops is not None and opens:
        share = sized.metadata_iops * ask.lustre.opens_per_metadata_iops / opens
    reading = min(sized.read_mb_per_s, fleet)
    return Limits(
        read_mb_per_s=reading,
        write_mb_per_s=min(sized.write_mb_per_s, fleet),
        restore_mb_per_s=reading,
        granted_share=share,
    )


def _plan(draft: Draft, ask: LustreAsk, choice: Choice, sized: Sized, links: tuple[LinkPlan, ...]) -> LustrePlan:
    return LustrePlan(
        deployment_type=ask.option.deployment_type,
        storage_type=ask.option.storage_type,
        storage_capacity_gib=sized.gib,
        per_unit_storage_throughput=sized.tier or None,
        throughput_capacity_mb_per_s=int(sized.read_mb_per_s) if sized.gib is None else None,
        throughput_mb_per_s=sized.read_mb_per_s,
        client_limit_mb_per_s=choice.client_limit_mb_per_s,
        metadata_mode=sized.metadata_mode,
        metadata_iops=sized.metadata_iops,
        efa=sized.efa,
        efa_interfaces_per_client=choice.efa_interfaces,
        file_system_type_version=draft.workload.lustre.file_system_type_version,
        ip_addresses=ask.lustre.ip_addresses(sized.servers, sized.metadata_iops),
        servers=sized.servers,
        asked_capacity_gib=sized.asked_gib,
        ranking_usd_per_month=sized.usd,
        links=links,
    )
