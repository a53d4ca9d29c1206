"""Rules of single nodes and ranks: one is not like the others, and all wait for it."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from training_storage.node.metrics.model import INSTANCE, NODE, RANK, RUN
from training_storage.operations.diagnosis import borders
from training_storage.operations.diagnosis.finding import (
    BOTTLENECK,
    STOP,
    Evidence,
    Finding,
    Rule,
    confidence,
    strength,
)
from training_storage.operations.diagnosis.look import percent
from training_storage.operations.diagnosis.outliers import Place, outliers, slow_ranks

if TYPE_CHECKING:
    from training_storage.operations.diagnosis.look import Look

_SLOWER = 0.1
"""Share by which a step is longer than the median one, from which a node computes slowly."""
_SHOWN = 3
_GONE_S = 600.0
"""Time after the last word of a node, while others report, from which it is gone."""


def _waiting_ranks(look: Look) -> tuple[dict[Place, float], dict[Place, float]]:
    """Return the ranks that wait for data far longer than the median one: their scores, and every rank's share."""
    shares = look.ranks or look.nodes_waiting
    return slow_ranks(shares), shares


def _whole_nodes(slow: dict[Place, float], shares: dict[Place, float]) -> tuple[str, ...]:
    """Return the nodes most of whose ranks are slow, the slowest first; empty where single ranks are."""
    counts, wholes = Counter(node for node, _ in slow), Counter(node for node, _ in shares)
    nodes = [node for node, count in counts.items() if count * 2 > wholes[node]]
    if len(wholes) < 2 or 2 * sum(counts[node] for node in nodes) <= len(slow):
        return ()
    worst = {node: max(shares[place] for place in slow if place[0] == node) for node in nodes}
    return tuple(sorted(nodes, key=lambda node: (-worst[node], node)))


def slow_node(look: Look) -> Finding | None:
    """A node waits for data longer than the others, or computes more slowly."""
    slow, shares = _waiting_ranks(look)
    if slow:
        nodes = _whole_nodes(slow, shares)
        return _slow(look, "slow-node", slow, shares, nodes) if nodes else None
    return _slow_steps(look)


def slow_rank(look: Look) -> Finding | None:
    """Single ranks wait for data longer than the others, also on their own node."""
    slow, shares = _waiting_ranks(look)
    if not slow or _whole_nodes(slow, shares):
        return None
    return _slow(look, "slow-rank", slow, shares, ())


def _slow(
    look: Look, rule: str, slow: dict[Place, float], shares: dict[Place, float], nodes: tuple[str, ...]
) -> Finding:
    middle = statistics.median(share for place, share in shares.items() if place not in slow)
    node = nodes[0] if nodes else ""
    worst = max((place for place in slow if not node or place[0] == node), key=lambda place: shares[place])
    won = statistics.fmean(shares[place] for place in slow) - middle
    evidence = [
        percent("waits for data", shares[worst], middle, "others"),
        Evidence(name="robust z-score of its wait", observed=slow[worst], expected=borders.OUTLIER, against="border"),
    ]
    named = node or worst[0]
    rpc = look.by_node("StorageRpcWaitTime")
    storage = None
    if named in rpc and len(rpc) > 2:
        other = statistics.median(value for each, value in rpc.items() if each != named)
        storage = rpc[named] >= 2 * other and rpc[named] > look.rpc_quick_ms / 10
        evidence.append(
            Evidence(
                name="mean wait of a request to storage", observed=rpc[named], expected=other, unit="ms",
                against="others",
            )
        )  # fmt: skip
    if named in look.node_rates and len(look.node_rates) > 2:
        other = statistics.median(value for each, value in look.node_rates.items() if each != named)
        evidence.append(
            Evidence(name="reads", observed=look.node_rates[named], expected=other, unit="MB/s", against="others")
        )
    if node:
        why = "requests of its own to storage take longer" if storage else "its own loader or network is slow"
        many = f"{len(nodes)} nodes are slow, and all wait for them: {_named(nodes)}"
        title = f"{many if len(nodes) > 1 else f'one node is slow, and all wait for it: {node}'}; {why}"
        step = (
            f"replace {'each, the slowest first' if len(nodes) > 1 else 'the node'}: "
            f"`aws autoscaling terminate-instance-in-auto-scaling-group --instance-id {node} "
            "--no-should-decrement-desired-capacity` (save first)"
        )
    else:
        names = [f"rank {rank} on {where}" for where, rank in sorted(slow, key=lambda each: -slow[each])]
        title = f"single ranks wait for data, and all others for them: {_named(names)}"
        step = (
            f"look at the data of {names[0]}: its shard is larger, slower to decode or lies apart; give every rank the "
            "same bytes (shuffle shards each epoch, `DistributedSampler(drop_last=True)`), and the same loader workers"
        )
    plain = strength(slow[worst], borders.OUTLIER, borders.OUTLIER_PLAIN)
    return Finding(
        id=rule,
        title=title,
        kind=BOTTLENECK,
        confidence=confidence(
            [plain, strength(won, borders.WAIT, borders.WAIT_PLAIN)], [middle < max(borders.WAIT, won)]
        ),
        evidence=tuple(evidence),
        next_step=step,
        **look.gain(won),
    )


def _named(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _slow_steps(look: Look) -> Finding | None:
    """A node whose ranks take longer for a step although no rank waits longer: it computes slowly."""
    found: dict[str, list[float]] = {}
    for each in look.seen.all("StepTime", *RANK):
        if each.dimensions[RUN] == look.newest_run and each.mean is not None:
            found.setdefault(each.dimensions[INSTANCE], []).append(each.mean)
    steps = {node: statistics.fmean(values) for node, values in found.items()}
    scores = outliers(steps)
    if not scores:
        return None
    worst, middle = max(scores, key=lambda node: scores[node]), statistics.median(steps.values())
    longer = steps[worst] / middle - 1 if middle else 0.0
    if scores[worst] < borders.OUTLIER or longer < _SLOWER:
        return None
    shares = look.ranks or look.nodes_waiting
    others = [share for (node, _), share in shares.items() if node != worst]
    own = [share for (node, _), share in shares.items() if node == worst]
    if own and others and statistics.fmean(own) - statistics.fmean(others) >= borders.WAIT:
        return None
    return Finding(
        id="slow-node",
        title=f"one node computes slowly, and storage is not why: {worst}",
        kind=BOTTLENECK,
        confidence=confidence([strength(longer, _SLOWER, 3 * _SLOWER)], [bool(own and others) or None]),
        evidence=(
            Evidence(name="step time", observed=steps[worst], expected=middle, unit="s", against="others"),
            Evidence(
                name="robust z-score of its step time", observed=scores[worst], expected=borders.OUTLIER,
                against="border",
            ),
            *([percent("waits for data", statistics.fmean(own))] if own else []),
        ),
        next_step=f"look at `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,ECC` on {worst}, and replace it: `aws "
        f"autoscaling terminate-instance-in-auto-scaling-group --instance-id {worst} "
        "--no-should-decrement-desired-capacity`",
        **look.gain(1 - middle / steps[worst]),
    )  # fmt: skip


def mounts_missing(look: Look) -> Finding | None:
    """Nodes lack mounts of the plan."""
    told = [each for each in look.seen.all("MountsMissing", *NODE) if each.points]
    # A node that reports no more has been replaced, or is gone.
    end = max((each.points[-1][0] for each in told), default=0.0) - max(_GONE_S, look.seen.period_s)
    last = {each.dimensions[INSTANCE]: each.values[-1] for each in told if each.points[-1][0] >= end}
    lacking = sorted(node for node, count in last.items() if count > 0)
    if not lacking:
        return None
    return Finding(
        id="mounts-missing",
        title=f"mounts of the plan are not there on {_named(lacking)}",
        kind=STOP,
        confidence=confidence([1.0], [True]),
        evidence=(
            Evidence(
                name="nodes that lack a mount", observed=float(len(lacking)), expected=float(len(last)),
                against="nodes that report",
            ),
        ),
        next_step=f"run `sudo jq . /var/lib/training-storage/status.json; sudo tail -n 50 "
        f"/var/log/training-storage.log` on {lacking[0]}: it names the mount and why; where a "
        "restart of the node does not bring it back, replace it",
        **look.gain(len(lacking) / len(last)),
    )  # fmt: skip


RULES = (
    Rule(
        id="slow-node",
        kind=BOTTLENECK,
        condition="most ranks of a node wait for data with a robust z-score (by the median and MAD of all ranks) of "
        "3.5 or more and 5 points longer than the median rank (of two nodes: all ranks of one, and those of the other "
        "less than 5 %); or its steps take 10 % longer than the median node's "
        "with such a score, while it waits no longer for data",
        step="replace the node",
        needs=("DataWaitTime", "ElapsedTime"),
        check=slow_node,
    ),
    Rule(
        id="slow-rank",
        kind=BOTTLENECK,
        condition="the same for ranks that are not most of one node, at most 20 % of all",
        step="give every rank the same bytes",
        needs=("DataWaitTime", "ElapsedTime"),
        check=slow_rank,
    ),
    Rule(
        id="mounts-missing",
        kind=STOP,
        condition="a node that still reports says, last, that it lacks a mount of the plan",
        step="look at the node's status, replace the node",
        needs=("MountsMissing",),
        check=mounts_missing,
    ),
)
