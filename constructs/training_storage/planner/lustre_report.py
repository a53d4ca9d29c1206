"""What a reader is told about the Lustre part of a plan: each option with its numbers, and what to watch out for."""

from __future__ import annotations

from training_storage.planner.demand import covers
from training_storage.planner.draft import RANKING_REGION, Draft
from training_storage.planner.lustre import LustreAsk, Sized, servers_needed, throughput_gib
from training_storage.planner.lustre_efa import Choice, tcp_client_limit
from training_storage.planner.words import gib, listed, mb_per_s, number, usd_per_month
from training_storage.rules.lustre_storage_classes import SMALL_HDD_GIB


def _label(ask: LustreAsk, tier: int) -> str:
    kind = f"{ask.option.deployment_type} {ask.option.storage_type}"
    return f"{kind} {tier} MB/s per TiB" if tier else kind


def explain(draft: Draft, ask: LustreAsk, choice: Choice, chosen: Sized) -> None:
    """Note every configuration, transport and metadata mode that was looked at."""
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
    _explain_efa(draft, ask, choice, chosen)
    _explain_metadata(draft, ask, chosen)
    _explain_cache(draft)


def _explain_efa(draft: Draft, ask: LustreAsk, choice: Choice, chosen: Sized) -> None:
    if not chosen.efa:
        draft.choose("lustre.efa", "false", choice.efa_because)
        draft.reject("lustre.efa", "true", _against_efa(ask, chosen))
        return
    draft.choose("lustre.efa", "true", choice.efa_because)
    plain = choice.without_efa
    if plain is None:
        draft.reject("lustre.efa", "false", "lustre.efa: true is given")
        return
    size = gib(plain.gib) if plain.gib is not None else mb_per_s(plain.read_mb_per_s)
    draft.reject(
        "lustre.efa",
        "false",
        f"{_label(ask, plain.tier)}, {size}, {usd_per_month(plain.usd)}: one instance would move "
        f"{mb_per_s(tcp_client_limit(ask, plain.servers))}",
    )


def _against_efa(ask: LustreAsk, chosen: Sized) -> str:
    """What an EFA-enabled file system would change where clients use TCP."""
    option, step = ask.option, ask.option.efa_step_gib.get(chosen.tier)
    if chosen.gib is None:
        bought = mb_per_s(ask.lustre.intelligent_tiering_throughput_step_mb_per_s)
        return f"clients use TCP, and throughput is bought in steps of {bought} with EFA too"
    if step is None:
        return f"{option.deployment_type} {option.storage_type} has no EFA-enabled file systems"
    return (
        f"clients use TCP, and EFA would only make the capacity steps larger ({gib(step)} in place of "
        f"{gib(ask.lustre.step_gib(option, chosen.tier))})"
    )


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


def _explain_cache(draft: Draft) -> None:
    """Say that a cache is no throughput that a plan can count on: what is read for the first time is in none."""
    given = draft.workload.lustre
    if given.drive_cache == "read":
        draft.assume(
            "what the SSD read cache of HDD storage serves, a fifth of the capacity, is not counted: the disks alone "
            "carry the plan"
        )
    if given.read_cache == "none":
        draft.assume(
            "without a read cache INTELLIGENT_TIERING reads in tens of milliseconds and charges each request; the plan "
            "counts neither"
        )


def warn(draft: Draft, ask: LustreAsk, choice: Choice, sized: Sized) -> None:
    """Name what falls short, what has to be raised before deploying, and what is not used."""
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
            f"{gib(sized.gib)} are more than the default quota of {gib(lustre.default_quota_gib)}: have it raised "
            "before deploying",
        )
    if sized.gib is not None and ask.option.storage_type == "HDD" and sized.gib < SMALL_HDD_GIB:
        draft.warn(
            "lustre-small-hdd",
            f"{gib(sized.gib)} of HDD storage: the API takes them, but the quotas of FSx name {gib(SMALL_HDD_GIB)} as "
            "the least",
        )
    quota = lustre.intelligent_tiering_default_quota_mb_per_s
    if sized.gib is None and sized.read_mb_per_s > quota:
        draft.warn(
            "lustre-quota",
            f"a throughput capacity of {mb_per_s(sized.read_mb_per_s)} is more than the default quota of "
            f"{mb_per_s(quota)}: have it raised before deploying",
        )
    if ask.option.deployment_type == "SCRATCH_2" and needs.saves is not None:
        draft.warn(
            "scratch-not-durable",
            "SCRATCH_2 keeps one copy of each file: what lies on a server that fails is lost, checkpoints too unless "
            "they were promoted to the data lake",
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
            ratio = sized.read_mb_per_s / sized.write_mb_per_s
            weight = f" (a write takes {ratio:g} times the disk throughput of a read)" if ratio > 1 else ""
            missing.append(f"{mb_per_s(short)} of {mb_per_s(required)}{weight}")
    elif not covers(sized.read_mb_per_s, required):
        missing.append(f"{mb_per_s(required - sized.read_mb_per_s)} of {mb_per_s(required)}")
    servers = servers_needed(ask)
    if choice.efa_interfaces is None and sized.servers < servers:
        missing.append(f"{servers - sized.servers} of {servers} file servers for the share of one instance")
    if missing:
        draft.warn("lustre-too-small", f"the file system as given misses {listed(missing)}")
