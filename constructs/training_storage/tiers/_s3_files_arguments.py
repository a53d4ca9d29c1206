"""Arguments of an S3 Files file system: their kinds, and import rules as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from aws_cdk import aws_s3files as s3files

from training_storage._arguments import (
    CATALOG,
    DURATION,
    FLAG,
    KEY,
    REMOVAL,
    ROLE,
    SECURITY_GROUP,
    SUBNET_OR_SEVERAL,
    TEXT,
    VPC,
    WHOLE,
    Kind,
    has,
    misfits,
    optional,
)
from training_storage.errors import Problem
from training_storage.rules.s3_files_settings import (
    DEFAULT_IMPORT_BELOW_BYTES,
    ON_DIRECTORY_FIRST_ACCESS,
    ImportSettings,
)
from training_storage.tiers._s3_files_bucket import BUCKET_OR_LAKE
from training_storage.tiers._tokens import concrete


@dataclass(frozen=True, slots=True, kw_only=True)
class S3FilesImportRule:
    """What S3 Files copies into its own storage, and when; everything else is read from the bucket each time.

    Attributes:
        prefix: Keys that the rule is for, ending in a slash. Left out, all that no other rule is for.
        size_less_than_bytes: Objects below this size are copied, 0 to 52,673,613,135,872 bytes; 0 copies none. Left
            out, 131,072 (128 KiB).
        trigger: ``ON_DIRECTORY_FIRST_ACCESS`` copies when their directory is first opened, ``ON_FILE_ACCESS`` when a
            file is. Left out, the first.
    """

    prefix: str = ""
    size_less_than_bytes: float = DEFAULT_IMPORT_BELOW_BYTES
    trigger: Literal["ON_DIRECTORY_FIRST_ACCESS", "ON_FILE_ACCESS"] = ON_DIRECTORY_FIRST_ACCESS

    def as_property(self) -> s3files.CfnFileSystem.ImportDataRuleProperty:
        """Return the rule as CloudFormation takes it."""
        return s3files.CfnFileSystem.ImportDataRuleProperty(
            prefix=self.prefix, size_less_than=self.size_less_than_bytes, trigger=self.trigger
        )


DEFAULT_IMPORT_RULES: Final = (S3FilesImportRule(),)
"""What the service does where nothing is said."""

_SECURITY_GROUPS: Final = Kind(
    allowed="a list of security groups of the CDK",
    fits=lambda value: isinstance(value, list | tuple) and all(has(each, "security_group_id") for each in value),
    fix="put each group in a list",
)

_IMPORT_RULES: Final = Kind(
    allowed="a list of S3FilesImportRule",
    fits=lambda value: isinstance(value, list | tuple) and all(isinstance(each, S3FilesImportRule) for each in value),
    fix="put each rule in a list",
)

S3_FILES_KINDS: Final[Mapping[str, Kind]] = {
    "bucket": BUCKET_OR_LAKE,
    "vpc": VPC,
    "subnet": SUBNET_OR_SEVERAL,
    "prefix": TEXT,
    "expire_after": optional(DURATION),
    "import_rules": optional(_IMPORT_RULES),
    "security_group": optional(SECURITY_GROUP),
    "additional_security_groups": _SECURITY_GROUPS,
    "manage_security_group_rules": FLAG,
    "role": optional(ROLE),
    "encryption_key": optional(KEY),
    "accept_bucket_warning": FLAG,
    "removal_policy": optional(REMOVAL),
    "catalog": optional(CATALOG),
}
"""Kind of each argument of ``S3FileSystem``."""


def misfits_of_rules(rules: Sequence[S3FilesImportRule] | None) -> list[Problem]:
    """Return a problem for each field of an import rule that is of another kind."""
    return [
        problem
        for index, each in enumerate(rules or ())
        for problem in misfits(
            {
                f"import_rules[{index}].prefix": (each.prefix, TEXT),
                f"import_rules[{index}].size_less_than_bytes": (each.size_less_than_bytes, WHOLE),
                f"import_rules[{index}].trigger": (each.trigger, TEXT),
            }
        )
    ]


def import_settings(rules: Iterable[S3FilesImportRule]) -> tuple[ImportSettings, ...]:
    """Return import rules as the rules look at them."""
    return tuple(
        ImportSettings(
            prefix=concrete(each.prefix),
            trigger=concrete(each.trigger),
            size_less_than_bytes=_whole(each.size_less_than_bytes),
        )
        for each in rules
    )


def _whole(value: float) -> int | None:
    known = concrete(value)
    return None if known is None else int(known)
