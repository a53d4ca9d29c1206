"""Rules of a GPU fleet: what EC2 takes for purchase, capacity, EFA and placement.

The subject is ``FleetSettings``; the catalog row, or the row made from ``type_facts``, comes with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from training_storage.catalog import default_catalog
from training_storage.catalog.model import InstanceType, NetworkInterface, Source
from training_storage.errors import Problem
from training_storage.rules.base import Rule

PURCHASES: Final = ("on-demand", "spot", "reservation", "capacity-block")
PLACEMENTS: Final = ("cluster", "none")
CAPACITY_BLOCK_INSTANCES: Final = 64
"""Instances in one Capacity Block (EC2 User Guide, ec2-capacity-blocks)."""
USER_DATA_BYTES: Final = 16_384
"""EC2's limit on user data, counted before base64 (EC2 User Guide, user data; field report 22)."""

_RESERVATION_ID = re.compile(r"cr-[0-9a-zA-Z]+")
_IMAGE = re.compile(r"auto|ami-[0-9a-zA-Z]+|ssm:/[A-Za-z0-9_.\-/]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """A fleet as it would be launched.

    Every field is None where it is not given or not known at synth, and rules pass over None.

    Attributes:
        instance_type: EC2 name such as ``p5en.48xlarge``.
        facts: Its catalog row, or the row made from ``type_facts``.
        facts_missing: True when neither the catalog nor the caller knows the type.
        instance_count: Number of instances.
        max_instance_count: Largest size that the group may reach.
        purchase: One of ``PURCHASES``.
        has_reservation_id: Whether a capacity reservation id is given, known at synth or not.
        has_reservation_group: Whether a resource group ARN of capacity reservations is given.
        capacity_reservation_id: The id, where known.
        start: When a capacity block's fleet scales up.
        end: When it scales down at the latest.
        placement_group: ``cluster``, ``none`` or another name of a group that exists.
        efa: Whether the fleet gets EFA interfaces.
        public_subnet: Name of the subnet where it is a public one.
        image: ``auto``, ``ami-...`` or ``ssm:/parameter/name``.
        user_data_bytes: Size of the user data with the worst case for every value that is not known yet.
        root_volume_gib: Size of the root volume.
    """

    instance_type: str | None = None
    facts: InstanceType | None = None
    facts_missing: bool = False
    instance_count: int | None = None
    max_instance_count: int | None = None
    purchase: str | None = None
    has_reservation_id: bool = False
    has_reservation_group: bool = False
    capacity_reservation_id: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    placement_group: str | None = None
    efa: bool | None = None
    public_subnet: str | None = None
    image: str | None = None
    user_data_bytes: int | None = None
    root_volume_gib: int | None = None


FLEET_WORKLOAD_PATHS: Final[Mapping[str, str]] = {
    name: f"compute.{name}"
    for name in (
        "instance_type", "instance_count", "purchase", "capacity_reservation_id", "start", "end", "placement_group",
        "efa", "image", "type_facts",
    )
} | {"subnet": "network.subnet_id", "user_commands": "compute.user_commands"}  # fmt: skip
"""Field paths of ``FLEET_RULES`` as fields of a workload file; for ``base.relabel``."""


def _count(fleet: FleetSettings) -> Iterator[Problem]:
    count, largest = fleet.instance_count, fleet.max_instance_count
    if count is not None and count < 1:
        yield Problem(what="a fleet needs an instance", path="instance_count", value=count, allowed="1 or more")
    if count is not None and largest is not None and largest < count:
        yield Problem(
            what=f"the largest size is below instance_count {count}",
            path="max_instance_count",
            value=largest,
            allowed=f"{count} or more",
        )


def _purchase(fleet: FleetSettings) -> Iterator[Problem]:
    if fleet.purchase is not None and fleet.purchase not in PURCHASES:
        yield Problem(
            what="unknown way to buy instances", path="purchase", value=fleet.purchase, allowed=", ".join(PURCHASES)
        )


def _purchase_offered(fleet: FleetSettings) -> Iterator[Problem]:
    facts = fleet.facts
    if facts is None or not facts.known or fleet.purchase not in PURCHASES:
        return
    offered = set(facts.usage_classes)
    if facts.capacity_block:
        offered.add("capacity-block")
    # A reservation is on-demand capacity that is held; EC2 has no usage class of its own for it.
    wanted = "on-demand" if fleet.purchase == "reservation" else fleet.purchase
    if offered and wanted not in offered:
        yield Problem(
            what=f"{facts.name} is not sold as {fleet.purchase}",
            path="purchase",
            value=fleet.purchase,
            allowed=", ".join(sorted(offered)),
            fix="choose one of those, or another instance type",
        )


def _reservation_target(fleet: FleetSettings) -> Iterator[Problem]:
    given = fleet.has_reservation_id or fleet.has_reservation_group
    if fleet.purchase in ("reservation", "capacity-block") and not given:
        yield Problem(
            what=f"purchase {fleet.purchase} has no reservation to launch into",
            path="capacity_reservation_id",
            allowed="an id such as cr-0123456789abcdef0",
            fix="give capacity_reservation_id",
        )
    if fleet.purchase in ("on-demand", "spot") and given:
        yield Problem(
            what=f"a capacity reservation together with purchase {fleet.purchase}",
            path="capacity_reservation_id",
            value=fleet.capacity_reservation_id,
            allowed="only with purchase reservation or capacity-block",
            fix="set purchase to reservation or capacity-block, or take the reservation away",
        )
    if fleet.has_reservation_id and fleet.has_reservation_group:
        yield Problem(
            what="a reservation id and a resource group of reservations are both given",
            path="capacity_reservation_resource_group_arn",
            allowed="one of the two",
            fix="keep capacity_reservation_id or capacity_reservation_resource_group_arn",
        )
    if fleet.capacity_reservation_id is not None and not _RESERVATION_ID.fullmatch(fleet.capacity_reservation_id):
        yield Problem(
            what="not the id of a capacity reservation",
            path="capacity_reservation_id",
            value=fleet.capacity_reservation_id,
            allowed="cr- and letters and digits",
        )


def _block_placement(fleet: FleetSettings) -> Iterator[Problem]:
    if fleet.purchase == "capacity-block" and fleet.placement_group not in (None, "none"):
        yield Problem(
            what=f"purchase capacity-block together with placement group {fleet.placement_group}",
            path="placement_group",
            value=fleet.placement_group,
            allowed="none: a capacity block brings its own placement",
            fix="set placement_group to none",
        )


def _block_size(fleet: FleetSettings) -> Iterator[Problem]:
    if (
        fleet.purchase == "capacity-block"
        and fleet.has_reservation_id
        and fleet.instance_count is not None
        and fleet.instance_count > CAPACITY_BLOCK_INSTANCES
    ):
        yield Problem(
            what="more instances than one capacity block holds",
            path="instance_count",
            value=fleet.instance_count,
            allowed=f"at most {CAPACITY_BLOCK_INSTANCES}",
            fix="make one fleet a block",
        )


def _schedule(fleet: FleetSettings) -> Iterator[Problem]:
    for name in ("start", "end"):
        moment = getattr(fleet, name)
        if moment is None:
            continue
        if fleet.purchase is not None and fleet.purchase != "capacity-block":
            yield Problem(
                what=f"{name} together with purchase {fleet.purchase}",
                path=name,
                value=moment.isoformat(),
                allowed="only with purchase capacity-block",
                fix=f"take {name} away",
            )
        if moment.tzinfo is None:
            yield Problem(
                what="a time without a time zone",
                path=name,
                value=moment.isoformat(),
                allowed="a time with its zone, such as 2026-12-01T11:30:00Z",
            )
    start, end = fleet.start, fleet.end
    if start and end and start.tzinfo and end.tzinfo and end <= start:
        yield Problem(
            what="the block ends before it starts",
            path="end",
            value=end.isoformat(),
            allowed=f"after start, {start.isoformat()}",
        )


def _placement(fleet: FleetSettings) -> Iterator[Problem]:
    strategies = fleet.facts.placement_strategies if fleet.facts is not None else ()
    if fleet.placement_group == "cluster" and fleet.facts is not None and strategies and "cluster" not in strategies:
        yield Problem(
            what=f"{fleet.facts.name} takes no cluster placement group",
            path="placement_group",
            value="cluster",
            allowed="none",
        )


def _type_known(fleet: FleetSettings) -> Iterator[Problem]:
    if fleet.facts_missing:
        yield Problem(
            what="the catalog does not know this instance type",
            path="instance_type",
            value=fleet.instance_type,
            allowed="a type of the catalog, or one described by type_facts",
            fix="give type_facts with network_cards, efa_interfaces and primary_card_has_efa of the type",
        )


def _efa_supported(fleet: FleetSettings) -> Iterator[Problem]:
    if fleet.efa and fleet.facts is not None and not fleet.facts.has_efa:
        yield Problem(
            what=f"{fleet.facts.name} has no EFA interface",
            path="efa",
            value=True,
            allowed="false for this type",
            fix="turn EFA off, or choose a larger size of the family",
        )


def _efa_layout(fleet: FleetSettings) -> Iterator[Problem]:
    if not fleet.efa or fleet.facts is None or not fleet.facts.has_efa:
        return
    layout = fleet.facts.efa_layout
    pairs = [(interface.network_card_index, interface.device_index) for interface in layout]
    name = fleet.facts.name
    if not layout or pairs[0] != (0, 0) or layout[0].interface_type == "efa-only":
        yield Problem(
            what=f"the EFA layout of {name} has no primary interface that carries IP",
            path="type_facts",
            allowed="card 0 device 0 of type interface or efa, first in the list",
        )
    if len(set(pairs)) != len(pairs) or any(device not in (0, 1) for _, device in pairs):
        yield Problem(
            what=f"the EFA layout of {name} uses a card and device twice, or a device index above 1",
            path="type_facts",
            allowed="each card has its own devices 0 and 1",
        )


def _efa_private(fleet: FleetSettings) -> Iterator[Problem]:
    if fleet.efa and fleet.public_subnet is not None:
        yield Problem(
            what="EFA in a public subnet: instances with several interfaces get no public address and have no way out",
            path="subnet",
            value=fleet.public_subnet,
            allowed="a private subnet",
            fix="take a private subnet with a NAT gateway or with VPC endpoints, or turn EFA off",
        )


def _image(fleet: FleetSettings) -> Iterator[Problem]:
    if fleet.image is None:
        return
    if not _IMAGE.fullmatch(fleet.image):
        yield Problem(
            what="not an image",
            path="image",
            value=fleet.image,
            allowed="auto, ami-..., or ssm:/parameter/name",
        )
    elif fleet.image == "auto" and fleet.facts is not None and default_catalog().image_parameter(fleet.facts) is None:
        yield Problem(
            what=f"no public image is known for {fleet.facts.name}",
            path="image",
            value="auto",
            allowed="ami-... or ssm:/parameter/name",
            fix="name an image that has the drivers of this accelerator",
        )


def _user_data(fleet: FleetSettings) -> Iterator[Problem]:
    size = fleet.user_data_bytes
    if size is not None and size > USER_DATA_BYTES:
        yield Problem(
            what="user data is too large, counting the longest value of everything that is not known yet",
            path="user_commands",
            value=size,
            allowed=f"at most {USER_DATA_BYTES} bytes",
            fix="put long scripts in S3 and fetch them with one command",
        )


def _root_volume(fleet: FleetSettings) -> Iterator[Problem]:
    size = fleet.root_volume_gib
    # gp3 sizes, EBS User Guide: 1 GiB to 64 TiB.
    if size is not None and not 1 <= size <= 65_536:
        yield Problem(what="not a gp3 size", path="root_volume_gib", value=size, allowed="1 to 65536 GiB")


_SOURCE = Source(text="example of a rule", date="2026-11-30", trust="user")
_P5EN = InstanceType(
    name="p5en.48xlarge",
    accelerators=8.0,
    accelerator_model="H200",
    accelerator_manufacturer="NVIDIA",
    accelerator_memory_gib=141.0,
    vcpus=192,
    memory_gib=2048.0,
    architecture="x86_64",
    network_gbps=3200.0,
    ip_gbps=100.0,
    network_cards=2,
    efa_interfaces=2,
    primary_card_has_efa=True,
    efa_layout=(
        NetworkInterface(0, 0, "interface"),
        NetworkInterface(0, 1, "efa-only"),
        NetworkInterface(1, 0, "efa-only"),
    ),
    local_nvme_gb=30_400.0,
    local_nvme_disks=8,
    fsx_efa_client=True,
    fsx_efa_interfaces=8,
    gds=True,
    mountpoint_gbps=None,
    image_family="dl-base-gpu",
    usage_classes=("capacity-block", "on-demand", "spot"),
    placement_strategies=("cluster", "partition", "spread"),
    capacity_block=True,
    on_demand_usd_per_hour=None,
    known=True,
    source=_SOURCE,
)
"""A row for the examples below; the catalog itself is not read here."""
_SMALL = replace(
    _P5EN, name="g5.xlarge", efa_interfaces=0, efa_layout=(), capacity_block=False, usage_classes=("spot",)
)
_BLOCK = FleetSettings(
    instance_type="p5en.48xlarge",
    facts=_P5EN,
    instance_count=16,
    purchase="capacity-block",
    has_reservation_id=True,
    capacity_reservation_id="cr-0123",
    start=datetime(2026, 12, 1, 11, 30, tzinfo=UTC),
    end=datetime(2026, 12, 8, 10, 30, tzinfo=UTC),
    placement_group="none",
    efa=True,
)
_FLEET = FleetSettings(
    instance_type="p5en.48xlarge",
    facts=_P5EN,
    instance_count=2,
    purchase="on-demand",
    placement_group="cluster",
    efa=True,
)
_BLOCKS_GUIDE = "EC2 User Guide, ec2-capacity-blocks"
_EFA_GUIDE = "EC2 User Guide, efa-acc-inst-types"

FLEET_RULES: Final[tuple[Rule[FleetSettings], ...]] = (
    Rule(
        id="fleet.instance-count",
        statement="a fleet has one instance or more, and its largest size is no smaller",
        reason="an Auto Scaling group whose maximum is below its desired capacity is refused",
        source="Auto Scaling API reference, CreateAutoScalingGroup",
        check=_count,
        passes=_FLEET,
        fails=replace(_FLEET, instance_count=0),
    ),
    Rule(
        id="fleet.purchase",
        statement="instances are bought on demand, as spot, from a reservation or from a capacity block",
        reason="each way needs its own fields in the launch template",
        source="contract of the workload file, compute.purchase",
        check=_purchase,
        passes=_FLEET,
        fails=replace(_FLEET, purchase="savings"),
    ),
    Rule(
        id="fleet.purchase-offered",
        statement="the instance type is sold in the way asked for",
        reason="EC2 refuses the launch, long after the stack was made",
        source="EC2 DescribeInstanceTypes, SupportedUsageClasses; " + _BLOCKS_GUIDE,
        check=_purchase_offered,
        passes=_BLOCK,
        fails=replace(_BLOCK, facts=_SMALL, efa=False),
    ),
    Rule(
        id="fleet.reservation-target",
        statement="a reservation or capacity block is named by exactly one of id and resource group",
        reason="EC2 takes an id or a preference, not both, and a block that is not targeted stays empty",
        source="field reports 28 and 29; " + _BLOCKS_GUIDE,
        check=_reservation_target,
        passes=_BLOCK,
        fails=replace(_BLOCK, has_reservation_id=False, capacity_reservation_id=None),
    ),
    Rule(
        id="fleet.capacity-block-placement",
        statement="a capacity block has no placement group",
        reason="the block brings its own placement; a launch with both fails",
        source="field report 28",
        check=_block_placement,
        passes=_BLOCK,
        fails=replace(_BLOCK, placement_group="cluster"),
    ),
    Rule(
        id="fleet.capacity-block-size",
        statement=f"one capacity block holds at most {CAPACITY_BLOCK_INSTANCES} instances",
        reason="the rest of the fleet would never start",
        source=_BLOCKS_GUIDE,
        check=_block_size,
        passes=_BLOCK,
        fails=replace(_BLOCK, instance_count=65),
    ),
    Rule(
        id="fleet.capacity-block-schedule",
        statement="start and end belong to a capacity block, carry a time zone, and start comes first",
        reason="the fleet is scaled up and down at these times",
        source="contract of the workload file, compute.start and compute.end",
        check=_schedule,
        passes=_BLOCK,
        fails=replace(_BLOCK, end=_BLOCK.start),
    ),
    Rule(
        id="fleet.placement-strategy",
        statement="a cluster placement group is asked for only where the type takes one",
        reason="EC2 refuses the launch",
        source="EC2 DescribeInstanceTypes, PlacementGroupInfo",
        check=_placement,
        passes=_FLEET,
        fails=replace(_FLEET, facts=replace(_P5EN, placement_strategies=("spread",))),
    ),
    Rule(
        id="fleet.known-type",
        statement="a type that the catalog does not know comes with type_facts",
        reason="card and EFA counts can't be guessed; a wrong guess launches nothing",
        source="field report 27",
        check=_type_known,
        passes=_FLEET,
        fails=replace(_FLEET, instance_type="p9.48xlarge", facts=None, facts_missing=True),
    ),
    Rule(
        id="fleet.efa-supported",
        statement="EFA is asked for only on a type that has it",
        reason="the launch template is accepted, and no instance ever starts",
        source="field report 27; EC2 DescribeInstanceTypes, EfaSupported",
        check=_efa_supported,
        passes=_FLEET,
        fails=replace(_FLEET, facts=_SMALL),
    ),
    Rule(
        id="fleet.efa-layout",
        statement="the primary interface carries IP, and every card and device pair is used once, device 0 or 1",
        reason="EC2 refuses the launch: device indexes count from 0 on each card",
        source="field report 24; " + _EFA_GUIDE,
        check=_efa_layout,
        passes=_FLEET,
        fails=replace(_FLEET, facts=replace(_P5EN, efa_layout=(NetworkInterface(0, 0, "efa-only"),))),
    ),
    Rule(
        id="fleet.efa-private-subnet",
        statement="a fleet with EFA stands in a private subnet",
        reason="an instance with several interfaces gets no public address, so a public subnet gives it no way out",
        source="field report 25; " + _EFA_GUIDE,
        check=_efa_private,
        passes=_FLEET,
        fails=replace(_FLEET, public_subnet="Vpc/PublicSubnet1"),
    ),
    Rule(
        id="fleet.image",
        statement="the image is auto, an AMI id or an SSM parameter, and auto only where a public image is known",
        reason="an image without the accelerator's drivers starts and trains nothing",
        source="field report 23; catalog, image_family",
        check=_image,
        passes=replace(_FLEET, image="ssm:/images/training"),
        fails=replace(_FLEET, image="latest"),
    ),
    Rule(
        id="fleet.user-data-size",
        statement=f"user data has at most {USER_DATA_BYTES} bytes before base64",
        reason="EC2 refuses the launch template when the stack is deployed",
        source="field report 22; EC2 User Guide, user data",
        check=_user_data,
        passes=replace(_FLEET, user_data_bytes=16_384),
        fails=replace(_FLEET, user_data_bytes=16_385),
    ),
    Rule(
        id="fleet.root-volume-size",
        statement="the gp3 root volume has 1 to 65536 GiB",
        reason="EBS refuses other sizes",
        source="EBS User Guide, general purpose volumes",
        check=_root_volume,
        passes=replace(_FLEET, root_volume_gib=200),
        fails=replace(_FLEET, root_volume_gib=0),
    ),
)
