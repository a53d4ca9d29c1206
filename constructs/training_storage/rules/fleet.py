"""Rules of a GPU fleet: what EC2 takes for purchase, capacity, EFA and placement.

The subject is ``FleetSettings``; the catalog row, or the row made from ``type_facts``, comes with it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from training_storage.catalog.model import InstanceType, NetworkInterface, Source
from training_storage.rules import fleet_checks
from training_storage.rules.base import Rule
from training_storage.rules.fleet_settings import (
    CAPACITY_BLOCK_INSTANCES,
    FLEET_WORKLOAD_PATHS,
    PURCHASES,
    USER_DATA_BYTES,
    FleetSettings,
)

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
        check=fleet_checks.count,
        passes=_FLEET,
        fails=replace(_FLEET, instance_count=0),
    ),
    Rule(
        id="fleet.purchase",
        statement="instances are bought on demand, as spot, from a reservation or from a capacity block",
        reason="each way needs its own fields in the launch template",
        source="contract of the workload file, compute.purchase",
        check=fleet_checks.purchase,
        passes=_FLEET,
        fails=replace(_FLEET, purchase="savings"),
    ),
    Rule(
        id="fleet.purchase-offered",
        statement="the instance type is sold in the way asked for",
        reason="EC2 refuses the launch, long after the stack was made",
        source="EC2 DescribeInstanceTypes, SupportedUsageClasses; " + _BLOCKS_GUIDE,
        check=fleet_checks.purchase_offered,
        passes=_BLOCK,
        fails=replace(_BLOCK, facts=_SMALL, efa=False),
    ),
    Rule(
        id="fleet.reservation-target",
        statement="a reservation or capacity block is named by exactly one of id and resource group",
        reason="EC2 takes an id or a preference, not both, and a block that is not targeted stays empty",
        source="field reports 28 and 29; " + _BLOCKS_GUIDE,
        check=fleet_checks.reservation_target,
        passes=_BLOCK,
        fails=replace(_BLOCK, has_reservation_id=False, capacity_reservation_id=None),
    ),
    Rule(
        id="fleet.capacity-block-placement",
        statement="a capacity block has no placement group",
        reason="the block brings its own placement; a launch with both fails",
        source="field report 28",
        check=fleet_checks.block_placement,
        passes=_BLOCK,
        fails=replace(_BLOCK, placement_group="cluster"),
    ),
    Rule(
        id="fleet.capacity-block-size",
        statement=f"one capacity block holds at most {CAPACITY_BLOCK_INSTANCES} instances",
        reason="the rest of the fleet would never start",
        source=_BLOCKS_GUIDE,
        check=fleet_checks.block_size,
        passes=_BLOCK,
        fails=replace(_BLOCK, instance_count=65),
    ),
    Rule(
        id="fleet.capacity-block-schedule",
        statement="start and end belong to a capacity block, carry a time zone, and start comes first",
        reason="the fleet is scaled up and down at these times",
        source="contract of the workload file, compute.start and compute.end",
        check=fleet_checks.schedule,
        passes=_BLOCK,
        fails=replace(_BLOCK, end=_BLOCK.start),
    ),
    Rule(
        id="fleet.placement-strategy",
        statement="a cluster placement group is asked for only where the type takes one",
        reason="EC2 refuses the launch",
        source="EC2 DescribeInstanceTypes, PlacementGroupInfo",
        check=fleet_checks.placement,
        passes=_FLEET,
        fails=replace(_FLEET, facts=replace(_P5EN, placement_strategies=("spread",))),
    ),
    Rule(
        id="fleet.known-type",
        statement="a type that the catalog does not know comes with type_facts",
        reason="card and EFA counts can't be guessed; a wrong guess launches nothing",
        source="field report 27",
        check=fleet_checks.type_known,
        passes=_FLEET,
        fails=replace(_FLEET, instance_type="p9.48xlarge", facts=None, facts_missing=True),
    ),
    Rule(
        id="fleet.efa-supported",
        statement="EFA is asked for only on a type that has it",
        reason="the launch template is accepted, and no instance ever starts",
        source="field report 27; EC2 DescribeInstanceTypes, EfaSupported",
        check=fleet_checks.efa_supported,
        passes=_FLEET,
        fails=replace(_FLEET, facts=_SMALL),
    ),
    Rule(
        id="fleet.efa-layout",
        statement="the primary interface carries IP, and every card and device pair is used once, device 0 or 1",
        reason="EC2 refuses the launch: device indexes count from 0 on each card",
        source="field report 24; " + _EFA_GUIDE,
        check=fleet_checks.efa_layout,
        passes=_FLEET,
        fails=replace(_FLEET, facts=replace(_P5EN, efa_layout=(NetworkInterface(0, 0, "efa-only"),))),
    ),
    Rule(
        id="fleet.efa-private-subnet",
        statement="a fleet with EFA stands in a private subnet",
        reason="an instance with several interfaces gets no public address, so a public subnet gives it no way out",
        source="field report 25; " + _EFA_GUIDE,
        check=fleet_checks.efa_private,
        passes=_FLEET,
        fails=replace(_FLEET, public_subnet="Vpc/PublicSubnet1"),
    ),
    Rule(
        id="fleet.image",
        statement="the image is auto, an AMI id or an SSM parameter, and auto only where a public image is known",
        reason="an image without the accelerator's drivers starts and trains nothing",
        source="field report 23; catalog, image_family",
        check=fleet_checks.image,
        passes=replace(_FLEET, image="ssm:/images/training"),
        fails=replace(_FLEET, image="latest"),
    ),
    Rule(
        id="fleet.user-data-size",
        statement=f"user data has at most {USER_DATA_BYTES} bytes before base64",
        reason="EC2 refuses the launch template when the stack is deployed",
        source="field report 22; EC2 User Guide, user data",
        check=fleet_checks.user_data,
        passes=replace(_FLEET, user_data_bytes=16_384),
        fails=replace(_FLEET, user_data_bytes=16_385),
    ),
    Rule(
        id="fleet.root-volume-size",
        statement="the gp3 root volume has 1 to 65536 GiB",
        reason="EBS refuses other sizes",
        source="EBS User Guide, general purpose volumes",
        check=fleet_checks.root_volume,
        passes=replace(_FLEET, root_volume_gib=200),
        fails=replace(_FLEET, root_volume_gib=0),
    ),
    Rule(
        id="fleet.signal-timeout",
        statement="creation waits for the signals of the nodes for 1 second to 12 hours",
        reason="CloudFormation refuses a longer creation policy",
        source="CloudFormation User Guide, CreationPolicy attribute",
        check=fleet_checks.signal_timeout,
        passes=replace(_FLEET, signal_timeout_s=12 * 3600),
        fails=replace(_FLEET, signal_timeout_s=13 * 3600),
    ),
)

__all__ = [
    "CAPACITY_BLOCK_INSTANCES",
    "FLEET_RULES",
    "FLEET_WORKLOAD_PATHS",
    "PURCHASES",
    "USER_DATA_BYTES",
    "FleetSettings",
]
