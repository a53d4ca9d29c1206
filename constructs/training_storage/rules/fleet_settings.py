"""A fleet as it would be launched: the subject of the rules in ``rules.fleet``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from training_storage.catalog.model import InstanceType
from training_storage.rules.subject import Subject

PURCHASES: Final = ("on-demand", "spot", "reservation", "capacity-block")
CAPACITY_BLOCK_INSTANCES: Final = 64
"""Instances in one Capacity Block (EC2 User Guide, ec2-capacity-blocks)."""
USER_DATA_BYTES: Final = 16_384
"""EC2's limit on user data, counted before base64 (EC2 User Guide, user data; field report 22)."""

SIGNAL_TIMEOUT_S: Final = 12 * 3600
"""The longest wait of a creation policy (CloudFormation User Guide, CreationPolicy attribute)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings(Subject):
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
        signal_timeout_s: How long creation waits for the signals of the nodes, seconds.
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
    signal_timeout_s: float | None = None


FLEET_WORKLOAD_PATHS: Final[Mapping[str, str]] = {
    name: f"compute.{name}"
    for name in (
        "instance_type", "instance_count", "purchase", "capacity_reservation_id", "start", "end", "placement_group",
        "efa", "image", "type_facts",
    )
} | {"subnet": "network.subnet_id", "user_commands": "compute.user_commands"}  # fmt: skip
"""Field paths of ``FLEET_RULES`` as fields of a workload file; for ``base.relabel``."""
