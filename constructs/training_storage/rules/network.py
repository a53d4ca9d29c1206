"""Rules of the network: own VPC or a given one, and what the one private subnet holds."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from training_storage.errors import Problem
from training_storage.rules.base import Rule

PRIVATE_PREFIX_LENGTH: Final = 18
PUBLIC_PREFIX_LENGTH: Final = 24
RESERVED_ADDRESSES: Final = 5
"""Addresses that AWS keeps in every subnet (VPC User Guide, subnet sizing)."""
INTERFACE_ENDPOINTS: Final = ("ssm", "ssmmessages", "ec2messages", "logs", "monitoring", "cloudformation", "kms", "sts")
"""Interface endpoints of an own VPC with ``internet: none``."""

ZONE_ID: Final = re.compile(r"[a-z]{2,4}\d+(?:-[a-z]{3}\d+)?-az\d+")
"""Form of a zone ID such as ``use1-az6``, and ``usw2-lax1-az1`` for a Local Zone."""
ZONE_NAME: Final = re.compile(r"[a-z]{2,4}(?:-[a-z]+)+-\d+(?:-[a-z]{3}-\d+)?[a-z]")
"""Form of a zone name such as ``us-east-1a``, and ``us-west-2-lax-1a`` for a Local Zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings:
    """A network as it would be made or taken.

    Every field is None where it is not given or not known at synth, and rules pass over None.

    Attributes:
        own: True where the VPC is made, False where it is given.
        availability_zone_id: Zone ID such as ``use1-az6``.
        cidr: Address range of an own VPC.
        internet: ``nat`` or ``none``.
        has_vpc_id: Whether a VPC is given.
        has_subnet_id: Whether a subnet is given.
        addresses: Addresses that instances and file servers take in the private subnet.
        efa_file_system: Whether clients reach Lustre over EFA.
        image: Image of the nodes, as in the workload file.
    """

    own: bool | None = None
    availability_zone_id: str | None = None
    cidr: str | None = None
    internet: str | None = None
    has_vpc_id: bool | None = None
    has_subnet_id: bool | None = None
    addresses: int | None = None
    efa_file_system: bool | None = None
    image: str | None = None


NETWORK_WORKLOAD_PATHS: Final[Mapping[str, str]] = {
    "availability_zone_id": "availability_zone_id",
    "internet": "network.internet",
    "vpc_id": "network.vpc_id",
    "subnet_id": "network.subnet_id",
    "addresses": "network.vpc_id",
    "image": "compute.image",
}
"""Field paths of ``NETWORK_RULES`` as fields of a workload file; for ``base.relabel``."""


def private_addresses(internet: str | None) -> int:
    """Return the addresses of an own private subnet that are left for instances and file servers."""
    own = (1 << (32 - PRIVATE_PREFIX_LENGTH)) - RESERVED_ADDRESSES
    return own - len(INTERFACE_ENDPOINTS) if internet == "none" else own


def _zone_id(network: NetworkSettings) -> Iterator[Problem]:
    zone = network.availability_zone_id
    if zone is None or ZONE_ID.fullmatch(zone):
        return
    hint = "a zone name is not the same zone in every account" if ZONE_NAME.fullmatch(zone) else ""
    yield Problem(
        what=f"not a zone ID; {hint}" if hint else "not a zone ID",
        path="availability_zone_id",
        value=zone,
        allowed="an ID such as use1-az6",
        fix="take the ID from `aws ec2 describe-availability-zones`",
    )


def _both_ids(network: NetworkSettings) -> Iterator[Problem]:
    if network.has_vpc_id is None or network.has_subnet_id is None or network.has_vpc_id == network.has_subnet_id:
        return
    missing = "subnet_id" if network.has_vpc_id else "vpc_id"
    yield Problem(
        what="a VPC and its subnet are given together or not at all",
        path=missing,
        allowed="both vpc_id and subnet_id, or neither",
        fix=f"give {missing} too",
    )


def _cidr(network: NetworkSettings) -> Iterator[Problem]:
    if network.cidr is None:
        return
    allowed = "a private IPv4 /16 such as 10.0.0.0/16"
    try:
        parsed = ipaddress.IPv4Network(network.cidr)
    except ValueError:
        yield Problem(what="not an IPv4 range", path="cidr", value=network.cidr, allowed=allowed)
        return
    if parsed.prefixlen != 16 or not parsed.is_private:
        yield Problem(what="not a range for an own VPC", path="cidr", value=network.cidr, allowed=allowed)


def _internet(network: NetworkSettings) -> Iterator[Problem]:
    if network.internet is not None and network.internet not in ("nat", "none"):
        yield Problem(what="unknown way out", path="internet", value=network.internet, allowed="nat or none")


def _address_count(network: NetworkSettings) -> Iterator[Problem]:
    if not network.own or network.addresses is None:
        return
    room = private_addresses(network.internet)
    if network.addresses > room:
        yield Problem(
            what="more addresses for instances and file servers than the private subnet of an own VPC has",
            path="addresses",
            value=network.addresses,
            allowed=f"at most {room} in the /{PRIVATE_PREFIX_LENGTH}",
            fix="bring a VPC with a larger subnet: network.vpc_id and network.subnet_id",
        )


def _offline_efa(network: NetworkSettings) -> Iterator[Problem]:
    if network.own and network.internet == "none" and network.efa_file_system and network.image == "auto":
        yield Problem(
            what="Lustre over EFA without a way to the internet needs an image that holds the FSx EFA client set-up",
            path="image",
            value="auto",
            allowed="ami-... or ssm:/parameter/name of such an image",
            fix="prepare an image with the FSx EFA client set-up, or use internet nat",
        )


_OWN = NetworkSettings(own=True, availability_zone_id="use1-az6", cidr="10.0.0.0/16", internet="nat", addresses=100)
_GIVEN = NetworkSettings(own=False, availability_zone_id="use1-az6", has_vpc_id=True, has_subnet_id=True)

NETWORK_RULES: Final[tuple[Rule[NetworkSettings], ...]] = (
    Rule(
        id="network.zone-id",
        statement="the zone is given by its ID",
        reason="a zone name means another zone in each account, and it can't be looked up at synth",
        source="field reports 15 and 16",
        check=_zone_id,
        passes=_OWN,
        fails=replace(_OWN, availability_zone_id="us-east-1a"),
    ),
    Rule(
        id="network.vpc-and-subnet",
        statement="a given VPC comes with its one subnet",
        reason="Lustre, EFA and placement groups each live in one subnet, and none is chosen from a list",
        source="field report 15; contract of the workload file, network",
        check=_both_ids,
        passes=_GIVEN,
        fails=replace(_GIVEN, has_subnet_id=False),
    ),
    Rule(
        id="network.cidr",
        statement="an own VPC has a private /16",
        reason="FSx wants EFA clients in the same /16 as the file system",
        source="FSx for Lustre User Guide, EFA file systems",
        check=_cidr,
        passes=_OWN,
        fails=replace(_OWN, cidr="10.0.0.0/20"),
    ),
    Rule(
        id="network.internet",
        statement="an own VPC reaches the internet through NAT or not at all",
        reason="instances with EFA get no public address",
        source="contract of the workload file, network.internet",
        check=_internet,
        passes=_OWN,
        fails=replace(_OWN, internet="public"),
    ),
    Rule(
        id="network.address-count",
        statement="instances and file servers fit in the private /18 of an own VPC",
        reason="FSx and Auto Scaling stop half way when the subnet is full",
        source="VPC User Guide, subnet sizing; contract, the deployed shape",
        check=_address_count,
        passes=_OWN,
        fails=replace(_OWN, addresses=16_380),
    ),
    Rule(
        id="network.offline-efa-image",
        statement="without internet, Lustre over EFA needs an image with the FSx EFA client set-up",
        reason="the set-up comes from docs.aws.amazon.com, which no VPC endpoint reaches",
        source="contract, the deployed shape; FSx for Lustre User Guide, configure EFA clients",
        check=_offline_efa,
        passes=replace(_OWN, internet="none", efa_file_system=True, image="ami-0123"),
        fails=replace(_OWN, internet="none", efa_file_system=True, image="auto"),
    ),
)
