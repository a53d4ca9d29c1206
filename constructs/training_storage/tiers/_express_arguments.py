"""Arguments of directory buckets: their kinds, and what of them rules look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from constructs import Construct

from training_storage._arguments import CATALOG, DURATION, FLAG, KEY, LISTED_TEXTS, REMOVAL, TEXT, Kind, optional
from training_storage._tokens import concrete
from training_storage.errors import Problem
from training_storage.tiers._kms import given_by_alias

DIRECTORY_BUCKET_KINDS: Final[Mapping[str, Kind]] = {
    "availability_zone_id": TEXT,
    "base_name": optional(TEXT),
    "encryption_key": optional(KEY),
    "expire_after": optional(DURATION),
    "expire_prefixes": LISTED_TEXTS,
    "abort_incomplete_multipart_upload_after": optional(DURATION),
    "removal_policy": optional(REMOVAL),
    "content_is_cache": FLAG,
    "request_metrics": FLAG,
    "catalog": optional(CATALOG),
}
"""Kind of each argument of ``DirectoryBucket``."""

IMPORTED_DIRECTORY_BUCKET_KINDS: Final[Mapping[str, Kind]] = {
    "bucket_name": TEXT,
    "encryption_key": optional(KEY),
    "account": optional(TEXT),
}
"""Kind of each argument of ``DirectoryBucket.from_bucket_name``."""


def region_of(scope: Construct) -> str | None:
    """Return the region of the stack, or None where it is only known at deploy."""
    return concrete(cdk.Stack.of(scope).region)


def key_facts(key: kms.IKey | None) -> tuple[str | None, bool | None]:
    """Return what is known of a key's ARN, and whether the key is given by an alias."""
    return (None if key is None else concrete(key.key_arn)), given_by_alias(key)


def known_switches(**switches: object) -> list[Problem]:
    """Return a problem for each switch that is a token: what it decides is in the template or is not.

    Args:
        switches: Values by name.
    """
    return [
        Problem(what="only known at deploy", path=name, allowed="True or False, known at synth")
        for name, value in switches.items()
        if not isinstance(value, bool)
    ]
