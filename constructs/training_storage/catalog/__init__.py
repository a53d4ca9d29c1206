"""Facts about AWS that plans and checks rest on: data with source, date and trust, and typed readers."""

from __future__ import annotations

from training_storage.catalog.catalog import Catalog
from training_storage.catalog.efa import efa_layout, instance_type_from_facts
from training_storage.catalog.loading import default_catalog, load_catalog
from training_storage.catalog.lustre import LustreCatalog
from training_storage.catalog.model import (
    InstanceType,
    NetworkInterface,
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

__all__ = [
    "Catalog",
    "InstanceType",
    "LustreCatalog",
    "NetworkInterface",
    "ObjectStorageCatalog",
    "Price",
    "PriceBook",
    "PriceTier",
    "ReferenceWorkload",
    "Region",
    "Source",
    "StorageClass",
    "StorageOption",
    "default_catalog",
    "efa_layout",
    "instance_type_from_facts",
    "load_catalog",
]
