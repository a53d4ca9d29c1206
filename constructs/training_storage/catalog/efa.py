"""EFA interface layouts, and instance types that the user describes in place of the catalog.

The layout is the current one of the EC2 User Guide (efa-acc-inst-types): the primary is an ENA interface on card 0,
device 0; EFA goes on ``efa-only`` interfaces, which take no IP address, on card 0, device 1 where card 0 has EFA, and
on device 0 of each further card. Each card counts its devices from 0: EC2 refuses one that goes on counting.
"""

from __future__ import annotations

from collections.abc import Iterable

from training_storage.catalog.model import InstanceType, NetworkInterface, Source
from training_storage.errors import CatalogError, Problem

SEVERAL_CARDS_IP_GBPS = 100.0
"""IP bandwidth of our layout on a type with several network cards: one ENA interface, on card 0."""


def efa_layout(
    network_cards: int,
    efa_interfaces: int,
    primary_card_has_efa: bool,
    *,
    efa_cards: Iterable[int] | None = None,
) -> tuple[NetworkInterface, ...]:
    """Return the interfaces of a launch template with EFA on, primary first.

    Args:
        network_cards: Network cards of the type.
        efa_interfaces: EFA interfaces wanted, at most one a card.
        primary_card_has_efa: Whether card 0 takes an EFA interface.
        efa_cards: The cards that get one. Left out: card 0 where it has EFA, then 1, 2, 3 and so on.

    Returns:
        The interfaces; empty where ``efa_interfaces`` is 0.

    Raises:
        CatalogError: There are fewer cards that take EFA than interfaces asked for.
    """
    if efa_interfaces <= 0:
        return ()
    available = network_cards if primary_card_has_efa else network_cards - 1
    if efa_interfaces > available:
        raise CatalogError(
            Problem(
                what="more EFA interfaces than network cards that take one",
                path="efa_interfaces",
                value=efa_interfaces,
                allowed=f"at most {max(0, available)}: one a card"
                + ("" if primary_card_has_efa else ", and none on the primary card"),
                fix="check network_cards, efa_interfaces and primary_card_has_efa against DescribeInstanceTypes",
            )
        )
    first = 0 if primary_card_has_efa else 1
    cards = tuple(efa_cards) if efa_cards is not None else tuple(range(first, first + efa_interfaces))
    return (
        NetworkInterface(0, 0, "interface"),
        *(NetworkInterface(card, 0 if card else 1, "efa-only") for card in cards),
    )


def default_ip_gbps(network_cards: int, network_gbps: float) -> float:
    """Return the IP bandwidth of our layout in Gbit/s: 100 for a type with several network cards, else its network."""
    return SEVERAL_CARDS_IP_GBPS if network_cards > 1 else network_gbps


def default_fsx_efa_interfaces(network_cards: int, efa_interfaces: int, fsx_efa_client: bool | None) -> int:
    """Return the EFA connections that one client opens to FSx where no type of its own is named.

    2 with several network cards, else 1, as the FSx client set-up does (FSx for Lustre User Guide,
    configure-efa-clients); never more than the type has, and 0 where it is no EFA client of FSx.
    """
    if not fsx_efa_client:
        return 0
    return min(2 if network_cards > 1 else 1, efa_interfaces)


def instance_type_from_facts(
    name: str,
    *,
    accelerators: float,
    network_cards: int,
    efa_interfaces: int,
    primary_card_has_efa: bool,
    network_gbps: float,
    architecture: str,
    local_nvme_gb: float = 0.0,
    fsx_efa_client: bool = False,
) -> InstanceType:
    """Make the row of a type that the catalog does not know, from ``compute.type_facts``.

    What the facts do not give counts as follows: GPUDirect Storage, prices and Mountpoint throughput are unknown; no
    image is known, so that one must be given; a cluster placement group and every way of buying are taken as possible.

    Args:
        name: EC2 name such as ``p9.48xlarge``.
        accelerators: Accelerators in one instance.
        network_cards: Network cards.
        efa_interfaces: EFA interfaces, 0 without EFA.
        primary_card_has_efa: Whether card 0 takes one.
        network_gbps: Network bandwidth of all cards together, Gbit/s.
        architecture: ``x86_64`` or ``arm64``.
        local_nvme_gb: Instance store in GB, all disks together. Left out: none.
        fsx_efa_client: Whether FSx for Lustre serves the type over EFA. Left out: no.

    Raises:
        CatalogError: There are fewer cards that take EFA than interfaces.
    """
    return InstanceType(
        name=name,
        accelerators=accelerators,
        accelerator_model=None,
        accelerator_manufacturer=None,
        accelerator_memory_gib=None,
        vcpus=None,
        memory_gib=None,
        architecture=architecture,
        network_gbps=network_gbps,
        ip_gbps=default_ip_gbps(network_cards, network_gbps),
        network_cards=network_cards,
        efa_interfaces=efa_interfaces,
        primary_card_has_efa=primary_card_has_efa,
        efa_layout=efa_layout(network_cards, efa_interfaces, primary_card_has_efa),
        local_nvme_gb=local_nvme_gb,
        local_nvme_disks=1 if local_nvme_gb else 0,
        fsx_efa_client=fsx_efa_client,
        fsx_efa_interfaces=default_fsx_efa_interfaces(network_cards, efa_interfaces, fsx_efa_client),
        gds=None,
        mountpoint_gbps=None,
        image_family=None,
        usage_classes=("on-demand", "spot", "capacity-block"),
        placement_strategies=("cluster",),
        capacity_block=True,
        on_demand_usd_per_hour=None,
        known=False,
        source=Source(text="type_facts of the workload file", date="", trust="user"),
    )
