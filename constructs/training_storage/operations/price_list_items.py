"""What the AWS Price List has to be asked for each item of the price book: one table.

An item takes the products of one question whose attributes fit, each of them fully. A name that AWS writes otherwise
than here fits nothing, and the item stays unknown: nothing is guessed from a name that is only alike. Where the names
come from stands in docs/prices.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

REGION: Final = "{region}"
"""Stands for the region in a filter."""


@dataclass(frozen=True, slots=True)
class Question:
    """One request of GetProducts, asked once for all the items that need it.

    Attributes:
        service: Service code of the price list.
        filters: Field and value, all of which a product must match exactly.
    """

    service: str
    filters: tuple[tuple[str, str], ...]

    def filters_in(self, region: str) -> list[dict[str, str]]:
        """Return the filters as the API takes them."""
        return [
            {"Type": "TERM_MATCH", "Field": field, "Value": region if value == REGION else value}
            for field, value in self.filters
        ]


@dataclass(frozen=True, slots=True)
class Item:
    """How one item of the price book is found among the products of an answer.

    Attributes:
        name: Name in the price book.
        unit: Unit of the price book.
        question: What is asked.
        attributes: Ways to find the product: in each, patterns that its attributes match in full. The product family is
            the attribute ``productFamily``.
        sold_by: Pattern of the unit of the price list.
        times: Units of the price list in one unit of the price book.
    """

    name: str
    unit: str
    question: Question
    attributes: tuple[Mapping[str, str], ...]
    sold_by: str
    times: int = 1


_LUSTRE: Final = Question("AmazonFSx", (("regionCode", REGION), ("fileSystemType", "Lustre")))
_S3: Final = Question("AmazonS3", (("regionCode", REGION),))
_NAT: Final = Question("AmazonEC2", (("regionCode", REGION), ("productFamily", "NAT Gateway")))
_ENDPOINT: Final = Question("AmazonVPC", (("regionCode", REGION), ("productFamily", "VpcEndpoint")))
_VPC: Final = Question("AmazonVPC", (("regionCode", REGION),))
"""Public addresses have no product family."""
_KMS: Final = Question("awskms", (("regionCode", REGION),))
_TRANSFER: Final = Question("AWSDataTransfer", (("fromRegionCode", REGION), ("transferType", "IntraRegion")))

_PREFIX: Final = "(?:[A-Z0-9]+-)?"
"""What stands before a usage type, such as USW2-; us-east-1 has none for most of them."""


def _usage(name: str, **more: str) -> dict[str, str]:
    return {"usagetype": _PREFIX + name, **more}


def _lustre_storage(deployment: str, storage: str, tier: int) -> Item:
    """Return a tier, found by its usage type such as USW2-Storage.SSD.200 or by the attributes of the same meaning."""
    return Item(
        f"lustre.{deployment}.{storage}.{tier}",
        "GiB-month",
        _LUSTRE,
        (
            _usage(rf"Storage\.{storage}\.{tier}", productFamily="Storage"),
            {"productFamily": "Storage", "storageType": storage, "throughputCapacity": rf"{tier}(?: ?MB/s/TiB)?"},
        ),
        "GB-Mo",
    )


def _s3_requests(name: str, usage: str) -> Item:
    return Item(name, "1000 requests", _S3, (_usage(usage),), "Requests", times=1000)


ITEMS: Final[tuple[Item, ...]] = (
    Item("lustre.SCRATCH_2.SSD", "GiB-month", _LUSTRE, (_usage("Storage", productFamily="Storage"),), "GB-Mo"),
    *(_lustre_storage("PERSISTENT_1", "SSD", tier) for tier in (50, 100, 200)),
    *(_lustre_storage("PERSISTENT_1", "HDD", tier) for tier in (12, 40)),
    *(_lustre_storage("PERSISTENT_2", "SSD", tier) for tier in (125, 250, 500, 1000)),
    # Lustre has no other IOPS and no other throughput that is sold by itself.
    Item("lustre.metadata_iops", "IOPS-month", _LUSTRE, ({"productFamily": "Provisioned IOPS"},), "IOPS-Mo"),
    Item(
        "lustre.PERSISTENT_2.INTELLIGENT_TIERING.throughput",
        "MB/s-month",
        _LUSTRE,
        ({"productFamily": "Provisioned Throughput"},),
        "Mi?[Bb]ps-Mo",
    ),
    Item("lustre.backup", "GB-month", _LUSTRE, (_usage("BackupUsage"),), "GB-Mo"),
    Item("data_transfer.cross_zone", "GB", _TRANSFER, (_usage("DataTransfer-Regional-Bytes"),), "GB"),
    Item("nat.gateway", "hour", _NAT, (_usage("NatGateway-Hours"),), "Hrs"),
    Item("nat.data_processed", "GB", _NAT, (_usage("NatGateway-Bytes"),), "GB"),
    Item("vpc.public_ipv4", "hour", _VPC, (_usage("PublicIPv4:InUseAddress"),), "Hrs"),
    Item("vpc.interface_endpoint", "hour", _ENDPOINT, (_usage("VpcEndpoint-Hours"),), "Hrs"),
    Item("vpc.interface_endpoint_data", "GB", _ENDPOINT, (_usage("VpcEndpoint-Bytes"),), "GB"),
    Item("kms.key", "month", _KMS, ({"usagetype": "[a-z0-9-]+-KMS-Keys"},), "Keys?"),
    Item("s3.standard.storage", "GB-month", _S3, (_usage("TimedStorage-ByteHrs"),), "GB-Mo"),
    _s3_requests("s3.get_requests", "Requests-Tier2"),
    _s3_requests("s3.put_requests", "Requests-Tier1"),
    Item("s3_express.storage", "GB-month", _S3, (_usage("TimedStorage-XZ-ByteHrs"),), "GB-Mo"),
    _s3_requests("s3_express.put_requests", "Requests-XZ-Tier1"),
    _s3_requests("s3_express.get_requests", "Requests-XZ-Tier2"),
    Item("s3_express.upload", "GB", _S3, (_usage("Upload-XZ(?:-Bytes)?"),), "GB"),
    Item("s3_express.retrieval", "GB", _S3, (_usage("Retrieval-XZ(?:-Bytes)?"),), "GB"),
)
"""Every item but those of EC2, which depend on the types of the catalog."""

_NO_NAME: Final = "its name in the price list is not known to this program"

NOT_ASKED: Final[Mapping[str, tuple[str, str]]] = {
    **{
        f"lustre.PERSISTENT_2.INTELLIGENT_TIERING.{part}": (unit, _NO_NAME)
        for part, unit in (
            ("frequent", "GB-month"),
            ("infrequent", "GB-month"),
            ("archive_instant", "GB-month"),
            ("read_cache", "GiB-month"),
            ("requests", "1000 requests"),
        )
    },
    "s3_files.storage": ("GB-month", _NO_NAME),
    "s3_files.read": ("GB", _NO_NAME),
    "s3_files.write": ("GB", _NO_NAME),
}
"""Unit and reason of the items of the price book that are not asked for."""


def instance_items(types: Iterable[str]) -> tuple[Item, ...]:
    """Return the items of EC2 types: Linux, On-Demand, shared hardware, no software that is paid for."""
    return tuple(
        Item(
            f"ec2.{name}",
            "hour",
            Question(
                "AmazonEC2",
                (
                    ("regionCode", REGION),
                    ("instanceType", name),
                    ("operatingSystem", "Linux"),
                    ("tenancy", "Shared"),
                    ("preInstalledSw", "NA"),
                    ("capacitystatus", "Used"),
                ),
            ),
            ({"productFamily": "Compute Instance.*", "operation": "RunInstances", "marketoption": "|OnDemand"},),
            "Hrs",
        )
        for name in types
    )
