"""Directory buckets and S3 Files of a workload file, held against the rules that their constructs go by.

What a plan takes is then what can be made: names, keys and ids are refused here and not at synthesis.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from training_storage.catalog import Catalog
from training_storage.errors import Problem
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.data_lake import DATA_LAKE_RULES, DATA_LAKE_WORKLOAD_PATHS, DataLakeSettings
from training_storage.rules.express import DIRECTORY_BUCKET_RULES, DirectoryBucketSettings
from training_storage.rules.s3_files import S3_FILES_RULES
from training_storage.rules.s3_files_settings import S3FilesSettings
from training_storage.workload.section import shorten
from training_storage.workload.storage import DataLakeSettings as LakeSection
from training_storage.workload.storage import Express, Mountpoint, S3Files

_EXPRESS: Final = {
    "base_name": "express.base_name",
    "encryption_key": "express.kms_key_arn",
    "expire_prefixes": "express.expire_prefixes",
}
# Where there is S3 Express matters only to a plan that uses it: the planner says so.
_OF_THE_ZONE: Final = ("directory-bucket.zone", "directory-bucket.zone-id", "directory-bucket.zone-region")
_RULES: Final = tuple(each for each in DIRECTORY_BUCKET_RULES if each.id not in _OF_THE_ZONE)


def object_storage_problems(
    *,
    express: Express,
    mountpoint: Mountpoint,
    s3_files: S3Files,
    lake: LakeSection,
    zone: str | None,
    catalog: Catalog,
) -> Iterator[Problem]:
    """Yield every problem of what is readable.

    Args:
        express: The section; a field that is None is passed over, here and below.
        mountpoint: The section.
        s3_files: The section.
        lake: The section ``data_lake``.
        zone: Zone of the fleet.
        catalog: Facts to hold it against.
    """
    new = DirectoryBucketSettings(
        catalog=catalog,
        availability_zone_id=zone,
        base_name=express.base_name,
        encryption_key=express.kms_key_arn,
        encryption_key_is_alias=_is_alias(express.kms_key_arn),
        expires=express.expire_after is not None,
        expire_prefixes=express.expire_prefixes or (),
    )
    yield from relabel(find_problems(_RULES, new), _EXPRESS)
    yield from _existing(express, mountpoint, zone, catalog)
    files = S3FilesSettings(catalog=catalog, file_system_id=s3_files.file_system_id)
    yield from relabel(find_problems(S3_FILES_RULES, files), {"file_system_id": "s3_files.file_system_id"})
    lake_key = DataLakeSettings(encryption_key_is_alias=_is_alias(lake.kms_key_arn))
    yield from relabel(find_problems(DATA_LAKE_RULES, lake_key), DATA_LAKE_WORKLOAD_PATHS)


def _is_alias(arn: str | None) -> bool | None:
    return None if arn is None else ":alias/" in arn


def _existing(express: Express, mountpoint: Mountpoint, zone: str | None, catalog: Catalog) -> Iterator[Problem]:
    """Directory buckets that are there already stand in the zone of the fleet, each for one thing."""
    named = [(f"express.bucket_names[{index}]", name) for index, name in enumerate(express.bucket_names or ())]
    for path, name in [*named, ("mountpoint.cache_bucket", mountpoint.cache_bucket)]:
        if name is None:
            continue
        taken = DirectoryBucketSettings(catalog=catalog, existing=True, bucket_name=name)
        yield from relabel(find_problems(_RULES, taken), {"bucket_name": path})
        if zone is not None and not name.endswith(f"--{zone}--x-s3"):
            yield Problem(
                what=f"is a directory bucket of another zone than {shorten(zone)}",
                path=path,
                value=shorten(name),
                allowed=f"a bucket whose name ends in --{shorten(zone)}--x-s3",
                fix="name a bucket of the fleet's zone: reads from another one are slow and charged",
            )
    for index, (path, name) in enumerate(named):
        if name is not None and name in express.bucket_names[:index]:
            yield Problem(what="is named twice", path=path, value=shorten(name), allowed="each bucket once")
    if mountpoint.cache_bucket is not None and mountpoint.cache_bucket in (express.bucket_names or ()):
        yield Problem(
            what="is a bucket of the hot tier, and a shared cache would lie among its objects",
            path="mountpoint.cache_bucket",
            value=shorten(mountpoint.cache_bucket),
            allowed="a directory bucket that holds nothing else: who writes there decides what others read",
            fix="name another one, or leave cache_bucket out",
        )
