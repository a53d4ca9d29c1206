"""The Lustre part of a plan: from the overrides of the workload file to one legal configuration, with its reasons."""

from __future__ import annotations

from dataclasses import dataclass, replace

from training_storage.catalog.model import StorageOption
from training_storage.catalog.training import TrainingCatalog
from training_storage.planner.draft import RANKING_REGION, Draft
from training_storage.planner.latency import read_time
from training_storage.planner.lustre import LustreAsk, Sized, network_mb_per_s
from training_storage.planner.lustre_efa import Choice, search
from training_storage.planner.lustre_report import explain, warn
from training_storage.planner.model import LinkPlan, LustrePlan
from training_storage.planner.supply import Limits, Term, latency_terms, tightest
from training_storage.planner.words import listed
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.lustre import LUSTRE_RULES, LUSTRE_WORKLOAD_PATHS, NEW_CLIENTS, LustreSettings
from training_storage.rules.lustre_region import REGION_RULES
from training_storage.rules.lustre_settings import OLD_SERVER
from training_storage.units import MB
from training_storage.workload.checks_lustre import lustre_settings


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
    # What is given is checked before it decides anything; the rest of a plan keeps to the rules by itself.
    given = draft.workload.lustre.model_fields_set - {"removal"}
    ask = _ask(draft, settings) if not given or _legal(draft, settings) else None
    if ask is None:
        return None
    choice = search(ask)
    sized = choice.chosen
    if sized is None:
        _refuse_unsized(draft, ask, choice)
        return None
    if not _gds_possible(draft, choice) or not _legal(draft, _planned_settings(settings, sized)):
        return None
    if draft.told:
        explain(draft, ask, choice, sized)
    warn(draft, ask, choice, sized)
    _warn_clients(draft, settings)
    limits = _limits(ask, choice, sized, draft.catalog.training)
    return LustreResult(plan=_plan(draft, ask, choice, sized, links), limits=limits, ask=ask)


def _given_settings(draft: Draft, links: tuple[LinkPlan, ...]) -> LustreSettings:
    """What the workload file says, with the deployment and storage types that follow from it."""
    workload = draft.workload
    return lustre_settings(
        workload.lustre,
        image=workload.compute.image,
        facts=draft.facts,
        catalog=draft.catalog,
        linked=bool(links),
    )


def _warn_clients(draft: Draft, settings: LustreSettings) -> None:
    """Name an old version where the image does not say which client it has; where it does, a rule decides."""
    version = settings.file_system_type_version
    if version == OLD_SERVER and settings.client_os is None:
        draft.warn(
            "lustre-old-version",
            f"a Lustre {version} server does not serve the 2.15 client of {listed(sorted(NEW_CLIENTS))}, and the "
            f"image {draft.workload.compute.image} does not say which client it has: mounting may end in an I/O "
            "error. Leave lustre.file_system_type_version out",
        )


def _legal(draft: Draft, settings: LustreSettings) -> bool:
    """Whether the settings keep every rule of FSx; problems go to the draft. The one place where the planner asks."""
    problems = relabel(find_problems(LUSTRE_RULES, settings), LUSTRE_WORKLOAD_PATHS)
    draft.problems.extend(problems)
    return not problems


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
    tiers = _tiers(draft, option, settings)
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
        efa=settings.efa,
        fleet_efa=draft.workload.compute.efa is not False and facts.has_efa,
        region_efa=draft.region.lustre_efa is not False,
        usd_per_gib=usd_per_gib,
        usd_per_metadata_iops=prices.usd("lustre.metadata_iops", RANKING_REGION),
    )


def _tiers(draft: Draft, option: StorageOption, settings: LustreSettings) -> tuple[int, ...] | None:
    """Return the tiers that the region offers and the file allows; None with a problem where there is none."""
    region, given = draft.region, draft.workload.lustre
    offered = tuple(sorted(option.tiers)) or (0,)
    if option.deployment_type == "PERSISTENT_2":
        if region.lustre_tiers is None:
            draft.assume(
                f"the facts do not say which Lustre tiers {region.name} offers; it counts as offering all, with EFA"
            )
        elif option.tiers:
            offered = tuple(tier for tier in offered if tier in region.lustre_tiers)
    if problems := find_problems(REGION_RULES, replace(settings, region=region.name)):
        # Where the type follows from nothing that the file says, it is the region that can be changed.
        draft.problems.extend(
            replace(each, path="region", value=region.name)
            if each.path == "lustre.deployment_type" and given.deployment_type is None
            else each
            for each in relabel(problems, LUSTRE_WORKLOAD_PATHS)
        )
        return None
    tier = given.per_unit_storage_throughput
    return offered if tier is None else (tier,)


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
    if not facts.gds:
        with_gds = [name for name, row in draft.catalog.instance_types.items() if row.gds]
        unknown = "; the facts do not say, which counts as no" if facts.gds is None else ""
        draft.refuse(
            f"{facts.name} has no GPUDirect Storage with FSx{unknown}",
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


def _limits(ask: LustreAsk, choice: Choice, sized: Sized, training: TrainingCatalog) -> Limits:
    needs, opens, read = ask.needs, ask.needs.demand.file_opens_per_s, ask.needs.demand.read_mb_per_s
    instances, client_mb, network_mb = needs.instances, choice.client_limit_mb_per_s, network_mb_per_s(ask.facts)
    disk = _disk(sized.read_mb_per_s, sized.gib)
    network = Term("network", instances * network_mb, "{} x {} MB/s of one instance", (instances, network_mb))
    interfaces = choice.efa_interfaces
    if interfaces is None:
        form, count = "{} x {} MB/s of one client over TCP (file servers: {})", sized.servers
    else:
        form, count = "{} x {} MB/s of one client over EFA (connections: {})", interfaces
    client = Term("client", instances * client_mb, form, (instances, client_mb, count))
    reads = [disk, network, client]
    if sized.metadata_iops is not None and opens and read is not None:
        granted = sized.metadata_iops * ask.lustre.opens_per_metadata_iops
        reads.append(
            Term(
                "opens",
                read * granted / opens,
                "{} metadata IOPS serve {} opens a second of {} asked for",
                (sized.metadata_iops, granted, opens),
            )
        )
    time = read_time(needs, training, f"lustre.{ask.option.storage_type}", files=True)
    return Limits(
        reads=(*reads, *latency_terms(needs, time)),
        write=tightest((_disk(sized.write_mb_per_s, sized.gib), network, client)),
        restore=tightest((disk, network, client)),
        read_time=time,
    )


def _disk(total_mb_per_s: float, gib: int | None) -> Term:
    if gib is None:
        return Term("disk", total_mb_per_s, "{} MB/s of throughput capacity", (total_mb_per_s,))
    return Term("disk", total_mb_per_s, "{} GiB at {} MB/s per TiB", (gib, total_mb_per_s / gib * 1024))


def _plan(draft: Draft, ask: LustreAsk, choice: Choice, sized: Sized, links: tuple[LinkPlan, ...]) -> LustrePlan:
    return LustrePlan(
        deployment_type=ask.option.deployment_type,
        storage_type=ask.option.storage_type,
        storage_capacity_gib=sized.gib,
        per_unit_storage_throughput=sized.tier or None,
        throughput_capacity_mb_per_s=int(sized.read_mb_per_s) if sized.gib is None else None,
        throughput_mb_per_s=sized.read_mb_per_s,
        write_throughput_mb_per_s=sized.write_mb_per_s,
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
