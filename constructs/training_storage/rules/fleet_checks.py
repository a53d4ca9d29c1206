"""What the rules of a fleet look at; each passes over what is None. The rules themselves stand in ``rules.fleet``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from training_storage.errors import Problem
from training_storage.rules.fleet_settings import (
    CAPACITY_BLOCK_INSTANCES,
    PURCHASES,
    SIGNAL_TIMEOUT_S,
    USER_DATA_BYTES,
    FleetSettings,
)
from training_storage.rules.subject import catalog_of

_RESERVATION_ID = re.compile(r"cr-[0-9a-zA-Z]+")
_IMAGE = re.compile(r"auto|ami-[0-9a-zA-Z]+|ssm:/[A-Za-z0-9_.\-/]+")


def count(fleet: FleetSettings) -> Iterator[Problem]:
    """Look at the sizes of the group."""
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


def purchase(fleet: FleetSettings) -> Iterator[Problem]:
    """Look at the way of buying."""
    if fleet.purchase is not None and fleet.purchase not in PURCHASES:
        yield Problem(
            what="unknown way to buy instances", path="purchase", value=fleet.purchase, allowed=", ".join(PURCHASES)
        )


def purchase_offered(fleet: FleetSettings) -> Iterator[Problem]:
    """Look at what the type is sold as."""
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


def reservation_target(fleet: FleetSettings) -> Iterator[Problem]:
    """Look at id and resource group of a reservation."""
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


def block_placement(fleet: FleetSettings) -> Iterator[Problem]:
    """Look for a placement group beside a capacity block."""
    if fleet.purchase == "capacity-block" and fleet.placement_group not in (None, "none"):
        yield Problem(
            what=f"purchase capacity-block together with placement group {fleet.placement_group}",
            path="placement_group",
            value=fleet.placement_group,
            allowed="none: a capacity block brings its own placement",
            fix="set placement_group to none",
        )


def block_size(fleet: FleetSettings) -> Iterator[Problem]:
    """Look at the size of a capacity block."""
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


def schedule(fleet: FleetSettings) -> Iterator[Problem]:
    """Look at start and end."""
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


def placement(fleet: FleetSettings) -> Iterator[Problem]:
    """Look at what placement the type takes."""
    strategies = fleet.facts.placement_strategies if fleet.facts is not None else ()
    if fleet.placement_group == "cluster" and fleet.facts is not None and strategies and "cluster" not in strategies:
        yield Problem(
            what=f"{fleet.facts.name} takes no cluster placement group",
            path="placement_group",
            value="cluster",
            allowed="none",
        )


def type_known(fleet: FleetSettings) -> Iterator[Problem]:
    """Look for facts about the type."""
    if fleet.facts_missing:
        yield Problem(
            what="the catalog does not know this instance type",
            path="instance_type",
            value=fleet.instance_type,
            allowed="a type of the catalog, or one described by type_facts",
            fix="give type_facts with network_cards, efa_interfaces and primary_card_has_efa of the type",
        )


def efa_supported(fleet: FleetSettings) -> Iterator[Problem]:
    """Look for EFA on the type."""
    if fleet.efa and fleet.facts is not None and not fleet.facts.has_efa:
        yield Problem(
            what=f"{fleet.facts.name} has no EFA interface",
            path="efa",
            value=True,
            allowed="false for this type",
            fix="turn EFA off, or choose a larger size of the family",
        )


def efa_layout(fleet: FleetSettings) -> Iterator[Problem]:
    """Look at cards and devices of the layout."""
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


def efa_private(fleet: FleetSettings) -> Iterator[Problem]:
    """Look for EFA in a public subnet."""
    if fleet.efa and fleet.public_subnet is not None:
        yield Problem(
            what="EFA in a public subnet: instances with several interfaces get no public address and have no way out",
            path="subnet",
            value=fleet.public_subnet,
            allowed="a private subnet",
            fix="take a private subnet with a NAT gateway or with VPC endpoints, or turn EFA off",
        )


def image(fleet: FleetSettings) -> Iterator[Problem]:
    """Look at the form of the image, and for a public one."""
    if fleet.image is None:
        return
    if not _IMAGE.fullmatch(fleet.image):
        yield Problem(
            what="not an image",
            path="image",
            value=fleet.image,
            allowed="auto, ami-..., or ssm:/parameter/name",
        )
    elif fleet.image == "auto" and fleet.facts is not None and catalog_of(fleet).image_parameter(fleet.facts) is None:
        yield Problem(
            what=f"no public image is known for {fleet.facts.name}",
            path="image",
            value="auto",
            allowed="ami-... or ssm:/parameter/name",
            fix="name an image that has the drivers of this accelerator",
        )


def user_data(fleet: FleetSettings) -> Iterator[Problem]:
    """Look at the size of user data."""
    size = fleet.user_data_bytes
    if size is not None and size > USER_DATA_BYTES:
        yield Problem(
            what="user data is too large, counting the longest value of everything that is not known yet",
            path="user_commands",
            value=size,
            allowed=f"at most {USER_DATA_BYTES} bytes",
            fix="put long scripts in S3 and fetch them with one command; each mount and each name of a directory "
            "bucket takes room, too",
        )


def root_volume(fleet: FleetSettings) -> Iterator[Problem]:
    """Look at the size of the root volume."""
    size = fleet.root_volume_gib
    # gp3 sizes, EBS User Guide: 1 GiB to 64 TiB.
    if size is not None and not 1 <= size <= 65_536:
        yield Problem(what="not a gp3 size", path="root_volume_gib", value=size, allowed="1 to 65536 GiB")


def signal_timeout(fleet: FleetSettings) -> Iterator[Problem]:
    """Look at how long creation waits for signals."""
    seconds = fleet.signal_timeout_s
    if seconds is not None and not 1 <= seconds <= SIGNAL_TIMEOUT_S:
        yield Problem(
            what="CloudFormation does not wait that long for signals",
            path="signal_timeout",
            value=f"{seconds:g} s",
            allowed=f"1 second to {SIGNAL_TIMEOUT_S // 3600} hours",
            fix="leave long work of user_commands in the background",
        )
