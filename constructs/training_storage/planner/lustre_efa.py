"""EFA between clients and file system: what one client moves, and whether the file system should be EFA-enabled.

Two passes, as the contract says: every tier is sized without EFA first; where EFA is worth it the tiers are sized again
on the larger capacity steps of EFA.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from training_storage.planner.demand import below, covers
from training_storage.planner.lustre import (
    LustreAsk,
    Sized,
    covers_throughput,
    network_mb_per_s,
    servers_needed,
    size,
    size_tiered,
)
from training_storage.planner.words import counted, gib, mb_per_s


@dataclass(slots=True, kw_only=True)
class Rejected:
    """A tier that could not be sized, and why."""

    tier: int
    because: str


@dataclass(slots=True, kw_only=True)
class Choice:
    """What the search found.

    Attributes:
        chosen: The configuration; None where no tier can be sized.
        compared: Every configuration that was compared, the chosen one among them, by tier.
        rejected: Tiers that could not be sized.
        without_efa: The best configuration without EFA, where the search looked at one.
        efa_because: Why the file system is EFA-enabled, or why it is not.
        client_limit_mb_per_s: What one instance moves with the chosen configuration.
        efa_interfaces: EFA connections that one client opens; None where clients use TCP.
    """

    chosen: Sized | None
    compared: list[Sized] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    without_efa: Sized | None = None
    efa_because: str = ""
    client_limit_mb_per_s: float = 0.0
    efa_interfaces: int | None = None


def client_efa_interfaces(ask: LustreAsk) -> int:
    """Return the EFA connections that one client may open; 0 where clients use TCP.

    The type's default, as far as the connections of one file system reach for the whole fleet.
    """
    if not (ask.fleet_efa and ask.facts.fsx_efa_client and ask.facts.has_efa):
        return 0
    return min(ask.facts.fsx_efa_interfaces, ask.lustre.max_efa_connections // ask.needs.instances)


def efa_client_limit(ask: LustreAsk, interfaces: int) -> float:
    """Return what one instance moves over EFA, MB/s."""
    gds = ask.gds and ask.facts.gds
    top = ask.lustre.gds_client_mb_per_s if gds else ask.lustre.efa_client_mb_per_s
    return min(network_mb_per_s(ask.facts) * interfaces / ask.facts.network_cards, top)


def tcp_client_limit(ask: LustreAsk, servers: int) -> float:
    """Return what one instance moves over TCP, MB/s."""
    lustre = ask.lustre
    return min(network_mb_per_s(ask.facts), lustre.tcp_client_mb_per_s, lustre.tcp_server_mb_per_s * servers)


def search(ask: LustreAsk) -> Choice:
    """Return the cheapest configuration that covers the demand."""
    interfaces = client_efa_interfaces(ask)
    if ask.efa:
        choice = _compare(ask, efa=True, tcp_clients=interfaces == 0)
        choice.efa_because = "lustre.efa: true is given"
        return _with_client_limit(ask, choice, interfaces)
    plain = _compare(ask, efa=False, tcp_clients=True)
    if plain.chosen is None:
        return plain
    plain = _with_client_limit(ask, plain, 0)
    if ask.efa is False:
        plain.efa_because = "lustre.efa: false is given"
        return plain
    verdict = _why_not_efa(ask, plain, interfaces)
    if verdict:
        plain.efa_because = verdict
        return plain
    fast = _compare(ask, efa=True, tcp_clients=False)
    if fast.chosen is None:
        plain.efa_because = "; ".join(rejected.because for rejected in fast.rejected)
        return plain
    fast = _with_client_limit(ask, fast, interfaces)
    fast.without_efa = plain.chosen
    fast.efa_because = _why_efa(ask, plain, fast)
    return fast


def _with_client_limit(ask: LustreAsk, choice: Choice, interfaces: int) -> Choice:
    if choice.chosen is not None:
        if choice.chosen.efa and interfaces:
            choice.client_limit_mb_per_s = efa_client_limit(ask, interfaces)
            choice.efa_interfaces = interfaces
        else:
            choice.client_limit_mb_per_s = tcp_client_limit(ask, choice.chosen.servers)
    return choice


def _why_not_efa(ask: LustreAsk, plain: Choice, interfaces: int) -> str:
    """Why the file system is not EFA-enabled; empty where it should be."""
    facts, lustre, limit = ask.facts, ask.lustre, plain.client_limit_mb_per_s
    if not ask.fleet_efa:
        return "the fleet has no EFA (compute.efa: false)" if facts.has_efa else f"{facts.name} has no EFA"
    if not facts.fsx_efa_client:
        return f"FSx does not serve {facts.name} over EFA"
    if not ask.region_efa:
        return "the region has no EFA-enabled file systems"
    if not ask.option.efa_step_gib and ask.option.step_gib:
        return f"{ask.option.deployment_type} {ask.option.storage_type} has no EFA"
    if interfaces < 1:
        return (
            f"{ask.needs.instances:,} instances are more than the {lustre.max_efa_connections:,} EFA connections "
            "of one file system"
        )
    over_efa = efa_client_limit(ask, interfaces)
    if not below(limit, over_efa):
        return f"one instance moves {mb_per_s(limit)} over TCP and no more over EFA ({mb_per_s(over_efa)})"
    required, share = ask.needs.required_mb_per_s, ask.needs.share_mb_per_s
    if not covers(required, lustre.efa_advised_mb_per_s) and covers(limit, share):
        return (
            f"{mb_per_s(required)} required is under {mb_per_s(lustre.efa_advised_mb_per_s)}, and TCP covers the "
            f"share of one instance ({mb_per_s(share)})"
        )
    if ask.capacity_gib is not None and not _tiers_on_grid(ask, efa=True):
        return f"the given {gib(ask.capacity_gib)} are no capacity of an EFA-enabled file system"
    return ""


def _why_efa(ask: LustreAsk, plain: Choice, fast: Choice) -> str:
    required, advised = ask.needs.required_mb_per_s, ask.lustre.efa_advised_mb_per_s
    if covers(required, advised):
        reason = f"{mb_per_s(required)} required is {mb_per_s(advised)} or more"
    else:
        reason = (
            f"TCP gives one instance {mb_per_s(plain.client_limit_mb_per_s)} of its share of "
            f"{mb_per_s(ask.needs.share_mb_per_s)}"
        )
    return (
        f"{reason}; with {counted(fast.efa_interfaces or 0, 'interface')} a client one instance moves "
        f"{mb_per_s(fast.client_limit_mb_per_s)} in place of {mb_per_s(plain.client_limit_mb_per_s)}"
    )


def _tiers_on_grid(ask: LustreAsk, *, efa: bool) -> tuple[int, ...]:
    """The tiers that have the given capacity; every tier where it is legal in none, so that the rules can say so."""
    if ask.capacity_gib is None or not ask.option.step_gib:
        return ask.tiers
    capacity = ask.capacity_gib
    return tuple(tier for tier in ask.tiers if ask.lustre.is_legal_capacity(ask.option, capacity, tier, efa))


def _compare(ask: LustreAsk, *, efa: bool, tcp_clients: bool) -> Choice:
    servers = servers_needed(ask) if tcp_clients else 1
    if not ask.option.step_gib:
        chosen = size_tiered(ask, efa=efa, servers=servers)
        return Choice(chosen=chosen, compared=[chosen])
    on_grid = _tiers_on_grid(ask, efa=efa)
    choice = Choice(chosen=None)
    for tier in ask.tiers:
        if on_grid and tier not in on_grid:
            choice.rejected.append(
                Rejected(tier=tier, because=f"no capacity of {gib(ask.capacity_gib or 0)} at this tier")
            )
            continue
        sized = size(ask, tier, efa=efa, servers=servers)
        if sized is None:
            choice.rejected.append(
                Rejected(
                    tier=tier,
                    because=f"every capacity that covers the demand has more automatic metadata IOPS than the "
                    f"{ask.metadata_iops:,} given",
                )
            )
            continue
        choice.compared.append(sized)
    candidates = choice.compared
    if ask.capacity_gib is not None and candidates:
        covering = [sized for sized in candidates if covers_throughput(ask, sized)]
        candidates = covering or [max(candidates, key=lambda sized: sized.read_mb_per_s)]
    choice.chosen = min(candidates, key=lambda sized: sized.rank, default=None)
    return choice
