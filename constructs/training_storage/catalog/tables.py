"""From the rows of the data files to typed rows.

Nothing is checked here: tests check the data, ``overrides`` checks a user's rows before they come here, and every
command pays for this on each start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from training_storage.catalog.catalog import Catalog
from training_storage.catalog.efa import default_fsx_efa_interfaces, default_ip_gbps, efa_layout
from training_storage.catalog.lustre import LustreCatalog
from training_storage.catalog.model import (
    InstanceType,
    Price,
    PriceTier,
    ReferenceWorkload,
    Region,
    Source,
    StorageClass,
    StorageOption,
)
from training_storage.catalog.object_storage import ObjectStorageCatalog
from training_storage.catalog.prices import PriceBook
from training_storage.catalog.training import FailureRate, ReadLatency, StreamRate, TrainingCatalog

Row = dict[str, Any]
Tables = dict[str, dict[str, Any]]
"""Rows by table and key; tables of ``TWO_KEYS`` have two keys. The ``source`` of each row is a ``Source``."""

TWO_KEYS = frozenset({"reference_workloads", "prices", "lustre_options"})
PRICE_REGION_OF_INSTANCES = "us-east-1"


def build(tables: Tables) -> Catalog:
    """Return the catalog that the tables say."""
    prices = _prices(tables["prices"])
    mountpoint = {name: float(row["gbps"]) for name, row in tables["mountpoint_throughput"].items()}
    return Catalog(
        instance_types={
            name: _instance_type(name, row, mountpoint.get(name), prices)
            for name, row in tables["instance_types"].items()
        },
        image_parameters={
            (family, architecture): parameter
            for family, row in tables["image_families"].items()
            for architecture, parameter in row["parameters"].items()
        },
        regions={name: _region(name, row) for name, row in tables["regions"].items()},
        reference_workloads=tuple(
            ReferenceWorkload(model=model, accelerator=accelerator, **row)
            for model, rows in tables["reference_workloads"].items()
            for accelerator, row in rows.items()
        ),
        prices=prices,
        lustre=LustreCatalog(
            options={
                (deployment, storage): _storage_option(deployment, storage, row)
                for deployment, rows in tables["lustre_options"].items()
                for storage, row in rows.items()
            },
            **_constants(tables["lustre_limits"]),
        ),
        object_storage=ObjectStorageCatalog(
            mountpoint_gbps=mountpoint,
            storage_classes={name: StorageClass(name=name, **row) for name, row in tables["storage_classes"].items()},
            **_constants(tables["object_storage"]),
        ),
        training=TrainingCatalog(
            latencies={name: ReadLatency(**row) for name, row in tables["read_latencies"].items()},
            stream_rates={name: StreamRate(**row) for name, row in tables["stream_rates"].items()},
            failure_rates={name: FailureRate(**row) for name, row in tables["failure_rates"].items()},
        ),
    )


def _prices(table: Mapping[str, Mapping[str, Row]]) -> PriceBook:
    return PriceBook(
        {
            (region, item): Price(item=item, region=region, **_with_tiers(row))
            for region, rows in table.items()
            for item, row in rows.items()
        }
    )


def _with_tiers(row: Row) -> Row:
    tiers = row.get("tiers")
    return {**row, "tiers": tuple(PriceTier(float(tier["above"]), tier["usd"]) for tier in tiers)} if tiers else row


def _instance_type(name: str, row: Row, mountpoint_gbps: float | None, prices: PriceBook) -> InstanceType:
    given = dict(row)
    cards, efa = given["network_cards"], given["efa_interfaces"]
    for key in ("usage_classes", "placement_strategies"):
        given[key] = tuple(given[key])
    for key in ("accelerators", "network_gbps", "local_nvme_gb"):
        given[key] = float(given[key])
    ip_gbps, fsx_interfaces = given.pop("ip_gbps", None), given.pop("fsx_efa_interfaces", None)
    if fsx_interfaces is None:
        fsx_interfaces = default_fsx_efa_interfaces(cards, efa, given["fsx_efa_client"])
    return InstanceType(
        name=name,
        ip_gbps=float(default_ip_gbps(cards, given["network_gbps"]) if ip_gbps is None else ip_gbps),
        fsx_efa_interfaces=fsx_interfaces,
        efa_layout=efa_layout(cards, efa, given["primary_card_has_efa"], efa_cards=given.pop("efa_cards", None)),
        mountpoint_gbps=mountpoint_gbps,
        on_demand_usd_per_hour=prices.usd(f"ec2.{name}", PRICE_REGION_OF_INSTANCES),
        known=True,
        **given,
    )


def _region(name: str, row: Row) -> Region:
    given = dict(row)
    for key in ("zone_ids", "express_zone_ids"):
        given[key] = tuple(given[key])
    if given["lustre_tiers"] is not None:
        given["lustre_tiers"] = tuple(given["lustre_tiers"])
    return Region(name=name, **given)


def _storage_option(deployment: str, storage: str, row: Row) -> StorageOption:
    given = dict(row)
    for key in ("first_gib", "tiers", "versions"):
        given[key] = tuple(given[key])
    for key in ("step_gib", "efa_step_gib", "read_mb_per_s_per_tib", "write_mb_per_s_per_tib", "gib_per_server"):
        given[key] = {int(tier): number for tier, number in given[key].items()}
    return StorageOption(deployment_type=deployment, storage_type=storage, **given)


def _constants(table: Mapping[str, Row]) -> dict[str, Any]:
    """One argument a row, and ``sources`` that says where each is from."""
    return {
        **{name: _frozen(row["value"]) for name, row in table.items()},
        "sources": {name: row["source"] for name, row in table.items()},
    }


def _frozen(value: object) -> object:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def resolve_source(given: object, sources: Mapping[str, Source]) -> Source:
    """Return the source that a row names, or the one written in the row itself."""
    # The package's own data, whose shape a test holds; files of users are checked before.
    return sources[given] if isinstance(given, str) else Source(**given)  # type: ignore[arg-type]  # as above
