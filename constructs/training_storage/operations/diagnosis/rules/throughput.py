"""Rules of throughput: the storage, or the way to it, gives all it has, and GPUs wait for more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from training_storage.operations.diagnosis import borders
from training_storage.operations.diagnosis.finding import (
    BOTTLENECK,
    FAULT,
    Evidence,
    Finding,
    Rule,
    confidence,
    strength,
)
from training_storage.operations.diagnosis.look import percent
from training_storage.units import plain_digits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from training_storage.operations.diagnosis.look import Look

_TIE = 0.95
_TIERS = (125, 250, 500, 1000)
_TCP_CLIENT_MB_PER_S = 12_500.0
_TCP_SERVER_MB_PER_S = 625.0
"""What a client reads at most over TCP, and from one server (FSx for Lustre user guide, performance: 100 Gbit/s a
client, 5 Gbit/s a client and server)."""


def mb_per_s(value: float) -> str:
    """Return a rate for people."""
    return f"{value:,.0f} MB/s" if value >= 100 else f"{plain_digits(value)} MB/s"


def storage_throughput(look: Look) -> Finding | None:
    """GPUs wait, and the node or the storage moves what it can."""
    if not look.waits:
        return None
    node, system = look.node_share, look.system_share
    if max(node or 0.0, system or 0.0) < borders.LIMIT:
        return None
    # What the storage gives is often what all nodes can take: then the node is the narrow place.
    by_node = (node or 0.0) >= _TIE * (system or 0.0)
    share = (node if by_node else system) or 0.0
    # One busy server among idle ones is a hot target, and no limit of the whole.
    spread = look.hot_ratio is None or look.hot_ratio < borders.HOT_TARGET
    metadata = look.metadata_share is None or look.metadata_share < borders.LIMIT
    expected = look.expected
    evidence = look.waiting()
    if look.node_rate is not None and node is not None and expected is not None:
        evidence.append(_rate("read by the median node", look.node_rate, expected.node_limit_mb_per_s))
    if look.read_rate is not None:
        supply = expected.supply_mb_per_s if expected else None
        evidence.append(_rate("read by the fleet", look.read_rate, supply))
    if look.servers_share is not None:
        evidence.append(percent("file servers busy, mean", look.servers_share, 1.0))
    where, step = _node_step(look) if by_node else _system_step(look)
    return Finding(
        id="storage-throughput",
        title=f"GPUs wait for storage: {where} reads all that it can",
        kind=BOTTLENECK,
        confidence=confidence(
            [
                strength(look.wait or 0.0, borders.WAIT, borders.WAIT_PLAIN),
                strength(share, borders.LIMIT, borders.LIMIT_PLAIN),
            ],
            [spread, metadata],
        ),
        evidence=tuple(evidence),
        next_step=step,
        **look.gain(look.wait),
    )


def _rate(name: str, value: float, limit: float | None) -> Evidence:
    return Evidence(name=name, observed=value, expected=limit, unit="MB/s", against="limit" if limit else "")


def _wanted(look: Look) -> str:
    demand = look.demand()
    gpus = look.expected.accelerators if look.expected else None
    if demand is None or not gpus:
        return "set `dataset.read_rate` in the workload file to what the job reads"
    return f"set `dataset.read_rate: {{per_accelerator: {plain_digits(demand / gpus)} MB/s}}` in the workload file"


def _node_step(look: Look) -> tuple[str, str]:
    expected = look.expected
    nodes = expected.instance_count if expected else None
    more = ""
    demand = look.demand()
    if expected and nodes and demand and expected.node_limit_mb_per_s:
        limit = expected.node_limit_mb_per_s
        more = f" (at {mb_per_s(limit)} a node it takes {_up(demand, limit)})"
    if expected and expected.hot == "lustre" and expected.efa is False:
        return "each node", f"{_wanted(look)}, add `lustre.efa: true`, and run `training-storage plan FILE`{more}"
    if expected and expected.hot == "none":
        return (
            "each node, from S3,",
            f"{_wanted(look)} and run `training-storage plan FILE`: it says whether `hot_tier: lustre` or more nodes "
            f"serve it{more}",
        )
    if expected and expected.hot == "express":
        return (
            "each node, from S3 Express,",
            f"raise `compute.instance_count`{more}, or read fewer bytes a sample (compressed or smaller samples)",
        )
    return "each node", f"raise `compute.instance_count` in the workload file{more}; the file system has more to give"


def _up(demand: float, limit: float) -> str:
    return f"{-int(-demand // limit):,} nodes"


def _system_step(look: Look) -> tuple[str, str]:
    if look.expected is not None and look.expected.hot == "express":
        return (
            "the fleet, from S3 Express,",
            f"{_wanted(look)} and run `training-storage plan FILE` for the number of directory buckets that serves it",
        )
    if not look.on_lustre:
        return (
            "the fleet, from one prefix of S3,",
            f"{_wanted(look)}, `hot_tier: lustre`, and run `training-storage plan FILE`",
        )
    facts: Mapping[str, Any] = look.seen.facts.get("file_system") or {}
    tier, demand = facts.get("per_unit_storage_throughput"), look.demand()
    where = "the file system as a whole"
    if tier in _TIERS and look.read_rate and demand:
        fits = next((each for each in _TIERS if each * look.read_rate >= tier * demand * 0.999), None)
        if fits is not None and fits > tier:
            return where, (
                f"set `lustre.per_unit_storage_throughput: {fits}` in the workload file (now {tier}; the job would "
                f"read {mb_per_s(demand)}, and gets {mb_per_s(look.read_rate)}) and deploy {look.seen.workload}-hot"
            )
    return where, f"{_wanted(look)}, and run `training-storage plan FILE` for the capacity and tier that give it"


def tcp_instead_of_efa(look: Look) -> Finding | None:
    """EFA was planned, and bytes go over TCP."""
    expected = look.expected
    efa, tcp = look.totals("EfaBytes", "Workload"), look.totals("TcpBytes", "Workload")
    if expected is None or not expected.efa or tcp is None or tcp <= 0:
        return None
    share = (efa or 0.0) / ((efa or 0.0) + tcp)
    if share >= borders.TCP:
        return None
    busy = tcp_share(look)
    slows = look.waits and busy is not None and busy >= borders.FAR
    evidence = [
        percent("bytes over EFA", share, 1.0, "planned"),
        Evidence(name="bytes over TCP", observed=tcp / 1e9, unit="GB"),
    ]
    if look.node_rate is not None:
        evidence.append(_rate("read by the median node", look.node_rate, tcp_limit(look)))
    evidence += look.waiting() if slows else []
    return Finding(
        id="tcp-instead-of-efa",
        title="Lustre clients speak TCP, where EFA was planned",
        kind=BOTTLENECK if slows else FAULT,
        confidence=confidence([strength(1 - share, 1 - borders.TCP, 1.0)], [efa is not None]),
        evidence=tuple(evidence),
        next_step="run `sudo jq '.transport, .warning, .efa_interfaces' /var/lib/training-storage/status.json` on a "
        "node: it says why EFA was not taken (driver, interfaces, security group); mend that, and replace the nodes",
        **look.gain(look.wait if slows else None),
    )


def tcp_limit(look: Look) -> float | None:
    """Return what a node reads at most over TCP, MB/s; None where the servers are not known."""
    servers = look.expected.servers if look.expected else None
    if not servers:
        return None
    limit = min(_TCP_CLIENT_MB_PER_S, _TCP_SERVER_MB_PER_S * servers)
    return min(limit, (look.expected and look.expected.node_limit_mb_per_s) or limit)


def tcp_share(look: Look) -> float | None:
    """Return what the median node reads of what it could over TCP, where EFA was planned and is not used."""
    if look.expected is None or not look.expected.efa or look.node_rate is None:
        return None
    efa, tcp = look.totals("EfaBytes", "Workload"), look.totals("TcpBytes", "Workload")
    limit = tcp_limit(look)
    if tcp is None or limit is None or (efa or 0.0) >= borders.TCP * ((efa or 0.0) + tcp):
        return None
    return look.node_rate / limit


def hot_storage_target(look: Look) -> Finding | None:
    """Many nodes read the same files, and one storage target has them."""
    ratio = look.hot_ratio
    if not look.waits or ratio is None or ratio < borders.HOT_TARGET:
        return None
    busiest = look.hot_share
    if busiest is not None and busiest < borders.FAR:
        return None
    evidence = [
        Evidence(
            name="busiest storage target, times the mean one",
            observed=ratio,
            expected=borders.HOT_TARGET,
            against="border",
        )
    ]
    strengths = [
        strength(ratio, borders.HOT_TARGET, borders.HOT_TARGET_PLAIN),
        strength(look.wait or 0.0, borders.WAIT, borders.WAIT_PLAIN),
    ]
    if busiest is not None:
        evidence.append(percent("busiest file server busy", busiest, 1.0))
        strengths.append(strength(busiest, borders.FAR, borders.LIMIT))
    if look.servers_share is not None:
        evidence.append(percent("mean file server busy", look.servers_share))
    folder = (look.expected.paths or {}).get("datasets", "/fsx/datasets") if look.expected else "/fsx/datasets"
    return Finding(
        id="hot-storage-target",
        title="many nodes read the same files, and one storage target holds them",
        kind=BOTTLENECK,
        confidence=confidence(strengths, [None if busiest is None else True]),
        evidence=tuple(evidence + look.waiting()),
        next_step="stripe the large shared files over all targets: "
        f"`find {folder} -type f -size +1G -print0 | xargs -0 -n 1 -P 8 lfs migrate -c -1 -S 16M`, and for new ones "
        f"`lfs setstripe -c -1 -S 16M {folder}`",
        **look.gain(look.wait),
    )


def s3_throttled_prefix(look: Look) -> Finding | None:
    """S3 answers requests with 503."""
    found = look.throttled
    if found is None or found[0] < borders.THROTTLED:
        return None
    share, who = found
    slows = look.waits
    evidence = [percent(f"requests that S3 refused for now, counted by {who}", share, borders.THROTTLED, "border")]
    if look.gets is not None:
        evidence.append(
            Evidence(
                name="GET requests on the lake",
                observed=look.gets,
                expected=borders.GETS_PER_PREFIX,
                unit="1/s",
                against="limit of a prefix",
            )
        )
    evidence += look.waiting() if slows else []
    excluded = [look.node_share is not None and look.node_share < borders.LIMIT]
    prefixes = max(2, -int(-(look.gets or 0.0) // (borders.GETS_PER_PREFIX * borders.FAR)))
    return Finding(
        id="s3-throttled-prefix",
        title="S3 throttles the prefix that the data lies under",
        kind=BOTTLENECK if slows else FAULT,
        confidence=confidence([strength(share, borders.THROTTLED, borders.THROTTLED_PLAIN)], excluded),
        evidence=tuple(evidence),
        next_step=f"spread the objects over {prefixes} prefixes that differ in their first characters (S3 gives "
        f"{borders.GETS_PER_PREFIX:,.0f} GET and {borders.PUTS_PER_PREFIX:,.0f} PUT a second to each), or pack samples "
        "into shards of 100 MB and more; until then S3 scales up by itself within some tens of minutes",
        **look.gain(look.wait if slows else None),
    )


RULES = (
    Rule(
        id="storage-throughput",
        kind=BOTTLENECK,
        condition="the median rank waits for data 5 % or more of its time, its loader's queue is empty for 10 % of the "
        "batches or more, and the median node reads 85 % or more of what one can, or the fleet of what the storage "
        "gives (85 % of `supply_mb_per_s`, or file servers 85 % busy in the mean)",
        step="more throughput of what is at its limit: node, file system, S3 or S3 Express",
        needs=("DataWaitTime", "ElapsedTime", "StorageReadBytes"),
        check=storage_throughput,
    ),
    Rule(
        id="tcp-instead-of-efa",
        kind=BOTTLENECK,
        condition="EFA is planned, and less than 10 % of the bytes go over it; a bottleneck where ranks wait and a "
        "node reads 60 % or more of what TCP gives, a fault otherwise",
        step="look on a node why EFA was not taken",
        needs=("EfaBytes", "TcpBytes"),
        check=tcp_instead_of_efa,
        explains=("storage-throughput", "read-latency", "preprocessing"),
    ),
    Rule(
        id="hot-storage-target",
        kind=BOTTLENECK,
        condition="ranks wait as above, one storage target reads 2.5 times the mean or more, and its file server is "
        "60 % busy or more",
        step="`lfs migrate` and `lfs setstripe`",
        needs=("DataWaitTime", "ElapsedTime", "AWS/FSx DataReadBytes"),
        check=hot_storage_target,
        explains=("storage-throughput", "read-latency", "preprocessing"),
    ),
    Rule(
        id="s3-throttled-prefix",
        kind=BOTTLENECK,
        condition="1 % of the requests or more are answered with 503; a bottleneck where ranks wait, a fault otherwise",
        step="more prefixes, or larger objects",
        needs=("AWS/S3 5xxErrors", "ThrottledRequests"),
        check=s3_throttled_prefix,
        explains=("storage-throughput", "read-latency", "preprocessing", "first-epoch-lazy-loading"),
    ),
)
