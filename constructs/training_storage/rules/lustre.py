"""Rules of an FSx for Lustre file system. The numbers are those of the catalog."""

from __future__ import annotations

from typing import Final

from training_storage.rules.base import Rule
from training_storage.rules.lustre_features import FEATURE_RULES
from training_storage.rules.lustre_region import REGION_RULES
from training_storage.rules.lustre_settings import (
    LUSTRE_CONSTRUCT_PATHS,
    LUSTRE_WORKLOAD_PATHS,
    NEW_CLIENTS,
    LustreSettings,
)
from training_storage.rules.lustre_size import SIZE_RULES
from training_storage.rules.lustre_storage_classes import STORAGE_CLASS_RULES

LUSTRE_RULES: Final[tuple[Rule[LustreSettings], ...]] = (
    *SIZE_RULES,
    *STORAGE_CLASS_RULES,
    *FEATURE_RULES,
    *REGION_RULES,
)
"""Every rule of one file system."""

__all__ = ["LUSTRE_CONSTRUCT_PATHS", "LUSTRE_RULES", "LUSTRE_WORKLOAD_PATHS", "NEW_CLIENTS", "LustreSettings"]
