"""A plan as a person reads it in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from training_storage.cli.render_cost import cost_lines, cost_notes
from training_storage.cli.render_prediction import HEADING, prediction_notes
from training_storage.cli.render_whatif import STEPS_HEADING, steps_lines
from training_storage.planner.draft import RANKING_REGION
from training_storage.planner.words import counted, number

if TYPE_CHECKING:
    from training_storage.planner.model import Demand, LinkPlan, LustrePlan, MountPlan, Plan
    from training_storage.whatif.model import Step

_TIERS: Final = {
    "none": "S3 alone, no hot tier",
    "lustre": "FSx for Lustre in front of S3",
    "express": "S3 Express One Zone in front of S3",
}
_ACCESS: Final = {
    "none": "training code reads objects itself",
    "mountpoint": "Mountpoint for Amazon S3",
    "s3-files": "S3 Files",
}
_BOLD: Final = "1"
_YELLOW: Final = "1;33"


def render_plan(plan: Plan, *, width: int = 100, color: bool = False, steps: Sequence[Step] = ()) -> str:
    """Return the plan as text.

    Args:
        plan: The plan.
        width: Columns to write for.
        color: Whether to mark headings and warnings with terminal colours.
        steps: Configurations one step away (``whatif.steps``). Left out: the text has no such part.
    """
    page = _Page(width, color)
    page.paragraph(_headline(plan), style=_BOLD)
    fleet = plan.compute
    page.paragraph(
        f"{fleet.instance_count} x {fleet.instance_type}, {counted(plan.accelerators, 'accelerator')}, "
        f"{fleet.purchase}, in {plan.workload.availability_zone_id}; EFA {_on(fleet.efa)}, "
        f"placement group {fleet.placement_group}; the data lake as files: {_ACCESS[plan.tiers.file_access]}"
    )
    page.warnings(plan)
    page.demand(plan)
    page.prediction(plan)
    if plan.lustre is not None:
        page.lustre(plan.lustre, plan)
    page.object_storage(plan)
    page.cost(plan)
    page.steps(plan, steps)
    page.decisions(plan)
    page.places(plan)
    if plan.lustre is not None and plan.lustre.links:
        page.heading("Links to S3")
        for link in plan.lustre.links:
            page.item(link.path, _link(link, plan))
    if plan.assumptions:
        page.heading("Assumptions")
        for assumption in plan.assumptions:
            page.bullet(assumption)
    return page.text()


def _headline(plan: Plan) -> str:
    reason = next((each.because for each in plan.decisions if each.rule == "hot-tier" and each.verdict == "chosen"), "")
    size = ""
    if plan.lustre is not None:
        capacity = (
            "" if plan.lustre.storage_capacity_gib is None else f"{number(plan.lustre.storage_capacity_gib)} GiB, "
        )
        size = f" ({capacity}{number(plan.lustre.throughput_mb_per_s)} MB/s)"
    return f"{plan.name}: {_TIERS[plan.tiers.hot]}{size}{': ' if reason else ''}{reason}"


class _Page:
    """Lines of one width."""

    def __init__(self, width: int, color: bool) -> None:
        self._width = width
        self._color = color
        self._lines: list[str] = []

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._color and style else text

    def _wrap(self, text: str, first: str, rest: str, style: str = "") -> None:
        wrapped = textwrap.wrap(
            " ".join(text.split()),
            self._width,
            initial_indent=first,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
        self._lines.extend(self._styled(line, style) for line in wrapped or [first.rstrip()])

    def paragraph(self, text: str, style: str = "") -> None:
        self._wrap(text, "", "  ", style)

    def heading(self, text: str, style: str = _BOLD) -> None:
        self._lines.extend(("", self._styled(text, style)))

    def item(self, name: str, text: str) -> None:
        self._wrap(text, f"  {name:<18} ", " " * 21)

    def bullet(self, text: str, mark: str = "-") -> None:
        self._wrap(text, f"  {mark} ", "    ")

    def table(self, rows: Sequence[tuple[str, str, str]]) -> None:
        needed = max(len(row[1]) for row in rows)
        for name, asked, planned in rows:
            # Both columns stand where they fit below one another, for every row alike.
            if not planned or max(len(name), 18) + needed + len(planned) + 5 <= self._width:
                self._lines.append(f"  {name:<18} {asked:<{needed}}  {planned}".rstrip())
            else:
                self._lines.append(f"  {name:<18} {asked}".rstrip())
                self._wrap(planned, " " * 21, " " * 21)

    def warnings(self, plan: Plan) -> None:
        if not plan.warnings:
            return
        count = len(plan.warnings)
        self.heading(f"{count} warning{'' if count == 1 else 's'}", _YELLOW)
        for warning in plan.warnings:
            self.bullet(f"{warning.id}: {warning.message}", mark="!")

    def demand(self, plan: Plan) -> None:
        self.heading("Demand and plan")
        self.table((("", "needed", "planned"), *_demand_rows(plan.demand, plan)))

    def prediction(self, plan: Plan) -> None:
        self.heading(HEADING)
        for name, text in prediction_notes(plan):
            self.item(name, text)

    def object_storage(self, plan: Plan) -> None:
        workload = plan.workload
        if plan.express is not None:
            self.heading("S3 Express One Zone")
            names = ", ".join(workload.express.bucket_names)
            count = f"{plan.express.bucket_count}, in {plan.express.availability_zone_id}"
            self.item("directory buckets", f"{count}; there already: {names}" if names else count)
            self.item("on nodes", "TRAINING_STORAGE_DATASETS_URI and TRAINING_STORAGE_CHECKPOINTS_URI of the env file")
        if plan.shared_cache is not None:
            self.heading("Shared cache")
            there, days = workload.mountpoint.cache_bucket, plan.shared_cache.expire_after_days
            made = f"made in {plan.shared_cache.availability_zone_id}; objects expire after {counted(days or 0, 'day')}"
            self.item("directory bucket", f"there already: {there}" if there else made)
        if plan.s3_files is not None:
            self.heading("S3 Files")
            if workload.s3_files.file_system_id:
                self.item("file system", f"there already: {workload.s3_files.file_system_id}")
            root = "with" if plan.s3_files.root_access else "no"
            self.item("access", f"{_read_only(plan.s3_files.read_only)}, {root} root")

    def lustre(self, lustre: LustrePlan, plan: Plan) -> None:
        given = plan.workload.lustre
        self.heading("File system")
        if given.file_system_id:
            self.item("there already", f"{given.file_system_id}; the plan is held against what the file says of it")
        tier = f", {lustre.per_unit_storage_throughput} MB/s per TiB" if lustre.per_unit_storage_throughput else ""
        self.item(
            "type", f"{lustre.deployment_type} {lustre.storage_type}{tier}, Lustre {lustre.file_system_type_version}"
        )
        if lustre.storage_capacity_gib is not None:
            self.item("capacity", _capacity(lustre, given=given.storage_capacity is not None))
        if lustre.throughput_capacity_mb_per_s is not None:
            self.item("throughput given", f"{number(lustre.throughput_capacity_mb_per_s)} MB/s")
        self.item("EFA", _efa(lustre))
        if lustre.metadata_mode is not None and lustre.metadata_iops is not None:
            self.item("metadata", f"{number(lustre.metadata_iops)} IOPS, {lustre.metadata_mode}")
        self.item("servers", f"{number(lustre.servers)}, {number(lustre.ip_addresses)} addresses in the subnet")
        region = plan.workload.region
        if lustre.ranking_usd_per_month is not None and region != RANKING_REGION:
            price = f"{lustre.ranking_usd_per_month:,.0f} USD a month for storage and metadata"
            self.item(
                "ranked at", f"{price}, by the prices of {RANKING_REGION}; the bill counts those of {region} alone"
            )

    def cost(self, plan: Plan) -> None:
        self.heading(f"What it costs, USD by the prices of {plan.cost.region}")
        self._lines.extend(cost_lines(plan.cost, width=self._width))
        for name, text in cost_notes(plan.cost):
            self.item(name, text)

    def steps(self, plan: Plan, steps: Sequence[Step]) -> None:
        if steps:
            self.heading(STEPS_HEADING)
            self._lines.extend(steps_lines(plan, steps, width=self._width))
            self._wrap("--what-if says what to write for a step, and from which reads on it pays", "  ", "    ")

    def decisions(self, plan: Plan) -> None:
        for verdict, title in (("chosen", "Chosen, and why"), ("rejected", "Rejected, and why")):
            found = [each for each in plan.decisions if each.verdict == verdict]
            if found:
                self.heading(title)
            for each in found:
                self.bullet(f"{each.rule}: {each.option}: {each.because}")

    def places(self, plan: Plan) -> None:
        if plan.mounts:
            self.heading("Mounts on every node")
        for mount in plan.mounts:
            self.item(mount.path, _mount(mount))
        named = (
            ("datasets", plan.paths.datasets),
            ("checkpoints", plan.paths.checkpoints),
            ("scratch", plan.paths.scratch),
        )
        if any(path for _, path in named):
            self.heading("Paths for training code")
        for name, path in named:
            if path:
                self.item(name, path)


def _demand_rows(demand: Demand, plan: Plan) -> Iterator[tuple[str, str, str]]:
    lustre, count = plan.lustre, plan.compute.instance_count
    yield "reads", _rate(demand.read_mb_per_s), ""
    if demand.read_mb_per_s is not None:
        yield "  an instance", _rate(demand.read_mb_per_s_per_instance), ""
        yield "  an accelerator", _rate(demand.read_mb_per_s_per_accelerator), ""
    opens = "" if lustre is None or lustre.metadata_iops is None else f"{number(2 * lustre.metadata_iops)} a second"
    yield "file opens", _known(demand.file_opens_per_s, " a second"), opens
    if demand.checkpoint_gib is not None:
        yield "one checkpoint", _known(demand.checkpoint_gib, " GiB"), ""
        yield "save", _rate(demand.checkpoint_write_mb_per_s), ""
        yield "restore", _rate(demand.restore_read_mb_per_s), ""
    yield _required(demand), _rate(demand.required_mb_per_s), "" if lustre is None else _baseline(lustre)
    if lustre is not None and demand.required_mb_per_s is not None:
        share = demand.required_mb_per_s / count
        yield "  an instance", _rate(share), f"{number(lustre.client_limit_mb_per_s)} MB/s at most"
    granted = (
        "" if lustre is None or lustre.storage_capacity_gib is None else f"{number(lustre.storage_capacity_gib)} GiB"
    )
    if plan.tiers.hot != "none":
        yield "hot capacity", f"{number(demand.hot_capacity_gib)} GiB", granted


def _required(demand: Demand) -> str:
    """How the required throughput follows from the lines above it."""
    parts = (demand.read_mb_per_s, demand.checkpoint_write_mb_per_s, demand.restore_read_mb_per_s)
    known = [part for part in parts if part is not None]
    if len(known) < 2 or demand.required_mb_per_s is None:
        return "required"
    return "reads + save" if demand.required_mb_per_s > max(known) else "largest of these"


def _baseline(lustre: LustrePlan) -> str:
    reads, writes = lustre.throughput_mb_per_s, lustre.write_throughput_mb_per_s
    if reads == writes:
        return f"{number(reads)} MB/s baseline of the disks"
    return f"{number(reads)} MB/s baseline of the disks, {number(writes)} MB/s for writes"


def _capacity(lustre: LustrePlan, *, given: bool) -> str:
    granted = lustre.storage_capacity_gib or 0
    if given:
        return (
            f"{number(granted)} GiB as given, {number(lustre.throughput_mb_per_s)} MB/s; the demand asks for "
            f"{number(lustre.asked_capacity_gib)} GiB at this tier"
        )
    return (
        f"{number(granted)} GiB granted for {number(lustre.asked_capacity_gib)} GiB asked; "
        f"{number(lustre.throughput_mb_per_s)} MB/s"
    )


def _efa(lustre: LustrePlan) -> str:
    if not lustre.efa:
        return "off: clients use TCP"
    step = ""
    if lustre.storage_capacity_gib is not None and lustre.servers:
        size = number(lustre.storage_capacity_gib / lustre.servers)
        step = (
            f"; it can only be sized in steps of {size} GiB at this tier, and neither EFA nor the tier can change later"
        )
    if lustre.efa_interfaces_per_client is None:
        return f"on, but these clients use TCP{step}"
    return f"on, {counted(lustre.efa_interfaces_per_client, 'connection')} a client{step}"


def _mount(mount: MountPlan) -> str:
    options = [
        f"{name} {number(value) if isinstance(value, float) else value}"
        for name, value in mount.options.items()
        if value not in (None, "") and name != "directory_bucket"
    ]
    of = " of a directory bucket" if mount.options.get("directory_bucket") else ""
    return ", ".join((f"{mount.kind}{of}", _read_only(mount.read_only), *options))


def _link(link: LinkPlan, plan: Plan) -> str:
    source = f"s3://{link.bucket or '(data lake)'}/{link.prefix}"
    imports = " and ".join(link.import_events) or "nothing"
    exports = " and ".join(link.export_events) or "nothing"
    if link.import_metadata_on_create:
        listing = "its listing is imported at creation"
    else:
        listing = f"its listing is imported by `training-storage preload {plan.name} --metadata`"
    return f"{source}; imports {imports} by itself, exports {exports}; {listing}"


def _on(value: bool) -> str:
    return "on" if value else "off"


def _read_only(value: bool) -> str:
    return "read-only" if value else "read-write"


def _known(value: float | None, unit: str) -> str:
    return "not known" if value is None else f"{number(value)}{unit}"


def _rate(value: float | None) -> str:
    return _known(value, " MB/s")
