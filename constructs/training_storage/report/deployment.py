"""What will be deployed: stacks with their parts, and the data that moves between them, without any drawing.

The stacks are those of the reference app: one that would hold nothing is not made. What is there already is shown as
such, outside of any stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from training_storage.planner.links import dataset_source
from training_storage.planner.model import LinkPlan, LustrePlan, MountPlan, Plan
from training_storage.planner.words import gib, listed, mb_per_s, number

Place = Literal["lake", "hot", "network", "compute", "monitoring"]
Style = Literal["plain", "name", "muted"]

_KEPT: Final = "kept for years"
_RUN: Final = "for one run"
_LINKS_SHOWN = 3
"""Links that are drawn with their names; a drawing of forty is none. The table below it has them all."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a part.

    Attributes:
        text: The text.
        style: ``name`` for what is typed as it stands (paths, ids), ``muted`` for what is less important.
    """

    text: str
    style: Style = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A thing in a stack.

    Attributes:
        title: What it is.
        lines: Its size and settings.
        is_there: Whether it is there already and only used.
    """

    title: str
    lines: tuple[Line, ...]
    is_there: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """What stands in one place.

    Attributes:
        place: Which of the five.
        name: Name of the stack; None where everything is there already and no stack is made.
        life: How long its contents live.
        parts: What is in it.
    """

    place: Place
    name: str | None
    life: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Data that moves.

    Attributes:
        source: Where from.
        target: Where to.
        lines: What, and how.
    """

    source: Place
    target: Place
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Stacks in the order in which data passes them, and what moves."""

    stacks: tuple[Stack, ...]
    flows: tuple[Flow, ...]

    def stack(self, place: Place) -> Stack | None:
        """Return what stands in a place, or None."""
        return next((stack for stack in self.stacks if stack.place == place), None)

    def between(self, source: Place, target: Place) -> tuple[Flow, ...]:
        """Return what moves from one place to another."""
        return tuple(flow for flow in self.flows if (flow.source, flow.target) == (source, target))


def deployment(plan: Plan) -> Deployment:
    """Return what a plan deploys.

    Args:
        plan: The plan.
    """
    stacks = [_lake(plan)]
    hot = tuple(_hot_parts(plan))
    if hot:
        made = any(not part.is_there for part in hot) or bool(plan.lustre is not None and plan.lustre.links)
        stacks.append(Stack(place="hot", name=f"{plan.name}-hot" if made else None, life=_RUN, parts=hot))
    stacks += [_network(plan), _compute(plan)]
    if plan.workload.monitoring.enabled:
        dashboard = Part(title="Dashboard", lines=(Line(f"{plan.name}-storage", "name"),))
        stacks.append(Stack(place="monitoring", name=f"{plan.name}-monitoring", life=_RUN, parts=(dashboard,)))
    return Deployment(stacks=tuple(stacks), flows=tuple(_flows(plan)))


def _lake(plan: Plan) -> Stack:
    lake = plan.workload.data_lake
    given = lake.bucket is not None
    if lake.bucket or lake.bucket_name:
        lines = [Line(str(lake.bucket or lake.bucket_name), "name")]
    else:
        lines = [Line("bucket named at the deploy", "muted")]
    if lake.kms_key_arn:
        lines.append(Line(f"AWS KMS key {lake.kms_key_arn.rsplit('/', 1)[-1]}"))
    elif not given:
        lines.append(Line("encrypted with a KMS key of its own" if lake.encryption == "kms" else "encrypted by S3"))
    if not given:
        lines.append(Line("versioned" if lake.versioned else "not versioned"))
        lines.append(Line("stays when its stack is deleted" if lake.removal == "retain" else "may be deleted if empty"))
    parts = [Part(title="Data lake, Amazon S3", lines=tuple(lines), is_there=given)]
    bucket, prefix = dataset_source(plan.workload)
    if bucket is not None:
        parts.append(Part(title="Data set", lines=(Line(f"s3://{bucket}/{prefix}", "name"),), is_there=True))
    proves = Line("proves that a run is in S3, and deletes it")
    parts.append(Part(title="Release", lines=(Line(f"{plan.name}-release", "name"), proves)))
    return Stack(place="lake", name=f"{plan.name}-lake", life=_KEPT, parts=tuple(parts))


def _hot_parts(plan: Plan) -> Iterator[Part]:
    workload = plan.workload
    if plan.lustre is not None:
        yield _lustre(plan, plan.lustre)
    if plan.express is not None:
        names = workload.express.bucket_names
        count = plan.express.bucket_count
        lines = [Line(name, "name") for name in names] or [
            Line(f"{number(count)} directory bucket{'' if count == 1 else 's'}")
        ]
        lines.append(Line(f"in {plan.express.availability_zone_id}"))
        yield Part(title="S3 Express One Zone", lines=tuple(lines), is_there=bool(names))
    if plan.shared_cache is not None:
        bucket, days = workload.mountpoint.cache_bucket, plan.shared_cache.expire_after_days
        lines = [Line(bucket, "name")] if bucket else [Line("a directory bucket")]
        lines.append(Line(f"in {plan.shared_cache.availability_zone_id}"))
        if days is not None:
            lines.append(Line(f"objects leave after {number(days)} days"))
        yield Part(title="Shared cache, S3 Express One Zone", lines=tuple(lines), is_there=bucket is not None)
    if plan.s3_files is not None:
        there = workload.s3_files.file_system_id
        lines = [Line(there, "name")] if there else []
        lines.append(Line("read-only" if plan.s3_files.read_only else "read-write"))
        if not there:
            lines.append(Line(f"keeps data in reach for {workload.s3_files.expire_after}"))
        yield Part(title="S3 Files", lines=tuple(lines), is_there=there is not None)


def _lustre(plan: Plan, lustre: LustrePlan) -> Part:
    there = plan.workload.lustre.file_system_id
    lines = [Line(there, "name")] if there else []
    lines.append(Line(f"{lustre.deployment_type} {lustre.storage_type}"))
    if lustre.storage_capacity_gib is not None:
        tier = lustre.per_unit_storage_throughput
        lines.append(Line(gib(lustre.storage_capacity_gib) + (f", {tier} MB/s per TiB" if tier is not None else "")))
    lines.append(Line(f"{mb_per_s(lustre.throughput_mb_per_s)}, EFA {'on' if lustre.efa else 'off'}"))
    if lustre.metadata_iops is not None:
        lines.append(Line(f"{number(lustre.metadata_iops)} metadata IOPS"))
    if not there:
        lines.append(Line(f"{number(lustre.ip_addresses)} addresses in the subnet"))
    elif lustre.links:
        lines.append(Line(f"{len(lustre.links)} link{'' if len(lustre.links) == 1 else 's'} to S3 made anew"))
    return Part(title="FSx for Lustre", lines=tuple(lines), is_there=there is not None)


def _network(plan: Plan) -> Stack:
    given, zone = plan.workload.network, plan.workload.availability_zone_id
    endpoints = "S3 and S3 Express" if plan.express is not None or plan.shared_cache is not None else "S3"
    if given.vpc_id is not None:
        lines = [Line(given.vpc_id, "name"), Line(str(given.subnet_id), "name"), Line(f"in {zone}")]
        if given.route_table_ids:
            lines.append(Line(f"gateway endpoints for {endpoints} added to {listed(given.route_table_ids)}"))
        part = Part(title="VPC and private subnet", lines=tuple(lines), is_there=True)
        return Stack(place="network", name=None, life=_RUN, parts=(part,))
    out = "NAT gateway" if given.internet == "nat" else "interface endpoints, no way to the internet"
    part = Part(
        title="VPC with one private subnet",
        lines=(Line(f"in {zone}"), Line(f"gateway endpoints for {endpoints}"), Line(out)),
    )
    return Stack(place="network", name=f"{plan.name}-network", life="kept between runs", parts=(part,))


def _compute(plan: Plan) -> Stack:
    fleet, given = plan.compute, plan.workload.compute
    model = f" {fleet.facts.accelerator_model}" if fleet.facts.accelerator_model else ""
    lines = [
        Line(f"{number(plan.accelerators)}{model} accelerators, {fleet.purchase}"),
        Line(f"EFA {'on' if fleet.efa else 'off'}, placement group {fleet.placement_group}"),
    ]
    if given.start is not None and given.end is not None:
        lines.append(Line(f"from {given.start.isoformat()} to {given.end.isoformat()}", "muted"))
    count = number(fleet.instance_count)
    parts = [Part(title=f"{count} x {fleet.instance_type}", lines=tuple(lines))]
    mounts = [Line(f"{mount.path}: {mount_words(mount)}") for mount in plan.mounts]
    if mounts:
        parts.append(Part(title="Mounts on every node", lines=tuple(mounts)))
    paths = (("data", plan.paths.datasets), ("saves", plan.paths.checkpoints), ("scratch", plan.paths.scratch))
    known = [Line(f"{name}: {path}") for name, path in paths if path is not None]
    if known:
        parts.append(Part(title="Paths of training code", lines=tuple(known)))
    return Stack(place="compute", name=f"{plan.name}-compute", life=_RUN, parts=tuple(parts))


def mount_words(mount: MountPlan) -> str:
    """Return what is mounted, and how: ``Mountpoint, read-only``.

    Args:
        mount: One mount.
    """
    kinds = {"lustre": "Lustre", "mountpoint": "Mountpoint", "s3-files": "S3 Files"}
    of = " of a directory bucket" if mount.options.get("directory_bucket") else ""
    cache = {"nvme": ", cache on local NVMe", "express": ", shared cache"}.get(str(mount.options.get("cache")), "")
    return f"{kinds[mount.kind]}{of}, {'read-only' if mount.read_only else 'read-write'}{cache}"


def link_source(link: LinkPlan) -> str:
    """Return the prefix behind a link: ``s3://bucket/prefix/``, or ``datasets/ of the data lake``.

    Args:
        link: One link.
    """
    return _behind(link) if link.bucket else f"{link.prefix or 'everything'} of the data lake"


def _behind(link: LinkPlan) -> str:
    return f"s3://{link.bucket}/{link.prefix}" if link.bucket else link.prefix or "the lake"


def _flows(plan: Plan) -> Iterator[Flow]:
    demand = plan.demand
    reads = "" if demand.read_mb_per_s is None else f" {mb_per_s(demand.read_mb_per_s)}"
    saves = "" if demand.checkpoint_write_mb_per_s is None else f" {mb_per_s(demand.checkpoint_write_mb_per_s)}"
    if plan.lustre is not None:
        yield from _link_flows(plan.lustre.links)
        yield Flow(source="hot", target="compute", lines=(Line(f"reads{reads}"),))
        if demand.checkpoint_gib is not None:
            yield Flow(source="compute", target="hot", lines=(Line(f"saves{saves}"),))
    elif plan.express is not None:
        yield Flow(source="lake", target="hot", lines=(Line("training-storage stage", "name"), Line("the data set")))
        yield Flow(source="hot", target="lake", lines=(Line("training-storage archive", "name"), Line("what to keep")))
        yield Flow(source="hot", target="compute", lines=(Line(f"reads{reads}"),))
        if demand.checkpoint_gib is not None:
            yield Flow(source="compute", target="hot", lines=(Line(f"saves{saves}"),))
    if plan.s3_files is not None:
        both = "" if plan.s3_files.read_only else ", both ways"
        yield Flow(source="lake", target="hot", lines=(Line(f"S3 Files keeps in step{both}"),))
        what = "/lake" if plan.tiers.hot != "none" else f"reads{reads} through /lake"
        yield Flow(source="hot", target="compute", lines=(Line(what),))
    if plan.shared_cache is not None:
        yield Flow(source="hot", target="compute", lines=(Line("files that a node has read before"),))
    yield from _direct_flows(plan, reads, saves)


def _direct_flows(plan: Plan, reads: str, saves: str) -> Iterator[Flow]:
    """What moves between the lake and the nodes without a tier between them."""
    alone = plan.tiers.hot == "none" and plan.s3_files is None
    down = [Line(f"{mount.path}: {mount_words(mount)}") for mount in plan.mounts if _is_lake(mount)]
    if alone:
        down.insert(0, Line(f"reads{reads}"))
    if down:
        yield Flow(source="lake", target="compute", lines=tuple(down))
    if plan.tiers.hot == "none" and plan.demand.checkpoint_gib is not None:
        way = "through local NVMe" if plan.workload.dataset.interface == "posix" else "by S3 clients"
        up = Flow(
            source="compute", target="lake", lines=(Line(f"saves{saves}, {way}"), Line("to checkpoints/", "muted"))
        )
        yield up


def _is_lake(mount: MountPlan) -> bool:
    return mount.kind == "mountpoint" and not mount.options.get("directory_bucket")


def _link_flows(links: tuple[LinkPlan, ...]) -> Iterator[Flow]:
    down = [Line(f"{link.path} from {_behind(link)}", "name") for link in links[:_LINKS_SHOWN]]
    if len(links) > _LINKS_SHOWN:
        down.append(Line(f"and {len(links) - _LINKS_SHOWN} more, in the table below", "muted"))
    if down:
        yield Flow(source="lake", target="hot", lines=tuple(down))
    up = [link.path for link in links if link.export_events]
    if up:
        yield Flow(source="hot", target="lake", lines=(Line(f"exports {listed(up[:_LINKS_SHOWN])}"),))
