"""How a fleet gets its instances: on demand, spot, from a reservation or from a capacity block."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Final, Literal

from aws_cdk import aws_ec2 as ec2

from training_storage.catalog.model import InstanceType

Purchase = Literal["on-demand", "spot", "reservation", "capacity-block"]

BLOCK_ENDS: Final = time(11, 30, tzinfo=UTC)
"""Every capacity block ends at 11:30 UTC (EC2 User Guide, ec2-capacity-blocks)."""
_TERMINATION_LEAD: Final = timedelta(minutes=30)
"""EC2 starts to terminate the instances of a block 30 minutes before its end, at 11:00 UTC (same page)."""
_TERMINATION_LEAD_ULTRASERVER: Final = timedelta(minutes=60)
"""60 minutes on P6e-GB200 (same page)."""
SCALE_DOWN_MARGIN: Final = timedelta(minutes=30)
"""How long before that termination our scheduled action scales down at the latest.

Ours, not AWS's: jobs then end at a time that the platform team chose and stands in the template, with time left for one
more look at the last checkpoint, in place of at EC2's.
"""


def market_options(purchase: Purchase) -> ec2.CfnLaunchTemplate.InstanceMarketOptionsProperty | None:
    """Return the market options of a launch template; None for on-demand capacity, reserved or not."""
    if purchase in ("spot", "capacity-block"):
        return ec2.CfnLaunchTemplate.InstanceMarketOptionsProperty(market_type=purchase)
    return None


def reservation(
    capacity_reservation_id: str | None, resource_group_arn: str | None
) -> ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty | None:
    """Return the reservation target, with no preference beside it (field report 29); None without a reservation."""
    if capacity_reservation_id is None and resource_group_arn is None:
        return None
    return ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty(
        capacity_reservation_target=ec2.CfnLaunchTemplate.CapacityReservationTargetProperty(
            capacity_reservation_id=capacity_reservation_id,
            capacity_reservation_resource_group_arn=resource_group_arn,
        )
    )


def scale_down_time(end: datetime, facts: InstanceType | None) -> datetime:
    """Return when the fleet of a capacity block scales down: at ``end``, or earlier where that would be too late.

    A block ends at 11:30 UTC and EC2 starts to terminate instances 30 minutes before (60 on P6e-GB200), so an ``end``
    later than 30 minutes before that termination is moved to there: 10:30 UTC, or 10:00 on P6e-GB200. An ``end`` at
    another time of day is not the end of a block, and stays.

    Args:
        end: End as given, with its time zone.
        facts: Row of the type; None counts as one that is terminated 30 minutes before.
    """
    at = end.astimezone(UTC)
    block_end = datetime.combine(at.date(), BLOCK_ENDS)
    ultraserver = facts is not None and facts.name.startswith("p6e-gb200")
    latest = block_end - (_TERMINATION_LEAD_ULTRASERVER if ultraserver else _TERMINATION_LEAD) - SCALE_DOWN_MARGIN
    return latest if latest < at <= block_end else at


def schedule_time(moment: datetime) -> str:
    """Return a moment as scheduled actions want it: ``2026-12-01T11:30:00Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
