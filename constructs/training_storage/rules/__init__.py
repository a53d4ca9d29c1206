"""What the services allow: one small object a rule, used by planner and constructs alike.

``ALL_RULES`` is the registry: every rule of every module, in the order of the page made from it (docs/rules.md).
"""

from __future__ import annotations

from typing import Any, Final

from training_storage.rules.base import Rule
from training_storage.rules.data_lake import DATA_LAKE_RULES
from training_storage.rules.express import DIRECTORY_BUCKET_RULES
from training_storage.rules.fleet import FLEET_RULES
from training_storage.rules.links import LINK_RULES
from training_storage.rules.lustre import LUSTRE_RULES
from training_storage.rules.lustre_existing import EXISTING_LUSTRE_RULES
from training_storage.rules.mounts import MOUNT_RULES
from training_storage.rules.network import NETWORK_RULES
from training_storage.rules.s3_files import S3_FILES_RULES

ALL_RULES: Final[tuple[Rule[Any], ...]] = (
    *DATA_LAKE_RULES,
    *LUSTRE_RULES,
    *EXISTING_LUSTRE_RULES,
    *LINK_RULES,
    *DIRECTORY_BUCKET_RULES,
    *S3_FILES_RULES,
    *FLEET_RULES,
    *NETWORK_RULES,
    *MOUNT_RULES,
)
"""Every rule; ids are unique."""

__all__ = ["ALL_RULES"]
