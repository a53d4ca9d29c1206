"""The network on the bill: what a VPC of ours costs, and why nothing is paid for traffic between zones."""

from __future__ import annotations

from collections.abc import Iterator

from training_storage.planner.cost.lines import Item, gigabytes
from training_storage.planner.cost.usage import Parts
from training_storage.planner.draft import Draft
from training_storage.rules.network import INTERFACE_ENDPOINTS


def network_items(draft: Draft, parts: Parts) -> Iterator[Item]:
    """Yield what the network costs.

    Args:
        draft: The plan while it is written; takes assumptions.
        parts: The parts of the plan.
    """
    network = draft.workload.network
    if parts.tiers.hot != "none" or parts.s3_files is not None or parts.shared_cache is not None:
        zone = draft.workload.availability_zone_id
        label = f"traffic between zones: storage and GPUs share {zone}"
        yield gigabytes("data_transfer.cross_zone", label, per_hour=0.0)
    if network.vpc_id is not None:
        unknown = "" if network.route_table_ids else "; whether S3 traffic passes a NAT gateway is not known"
        draft.assume(f"{network.vpc_id} is yours: its NAT gateways and endpoints are not in the bill{unknown}")
        return
    if network.internet == "none":
        count = len(INTERFACE_ENDPOINTS)
        label = f"{count} interface endpoints in one zone"
        yield _hours("vpc.interface_endpoint", label, float(count))
        draft.assume(
            "S3 takes the gateway endpoint, which is free; the few GB of the interface endpoints are not counted"
        )
        return
    yield _hours("nat.gateway", "NAT gateway", 1.0)
    yield _hours("vpc.public_ipv4", "public address of the NAT gateway", 1.0)
    draft.assume(
        "S3 takes the gateway endpoint, which is free; what nodes fetch from the internet through the NAT gateway "
        "is paid by the GB, not known and not counted"
    )


def _hours(item: str, label: str, count: float) -> Item:
    return Item(item=item, label=label, kind="network", unit="hour", per_hour=count)
