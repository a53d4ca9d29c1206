"""Rules of a directory bucket (S3 Express One Zone): its zone, its name, its key, and when it may be emptied."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

from training_storage.catalog import Catalog
from training_storage.errors import Problem
from training_storage.rules.base import Rule, rule
from training_storage.rules.links import prefixes_overlap
from training_storage.rules.network import ZONE_ID, ZONE_NAME
from training_storage.rules.subject import Subject, catalog_of

_BASE = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_FULL_NAME = re.compile(rf"(?P<base>{_BASE.pattern})--(?P<zone>{ZONE_ID.pattern})--x-s3")
_ACCOUNT = re.compile(r"\d{12}")
_SUFFIX = re.compile(rf"--(?:{ZONE_ID.pattern}(?:--xa?-s3)?|xa?-s3)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryBucketSettings(Subject):
    """A directory bucket as it would be made or taken. A field is None where it is not given or not known.

    Attributes:
        region: Region of the stack.
        availability_zone_id: Zone ID of a new bucket, or that in the name of one that exists already.
        existing: Whether the bucket exists already.
        base_name: Name of a new bucket without its suffix.
        bucket_name: Whole name of a bucket that exists already.
        account: Account that owns a bucket that exists already.
        encryption_key: What is known of the ARN of the key.
        encryption_key_is_alias: Whether the key is given by an alias.
        expire_after_days: Age at which objects go.
        expire_prefixes: Prefixes that the age is for; empty for every object. None in it is not known.
        expires: Whether there is such an age, known or not.
        abort_incomplete_multipart_upload_after_days: Age at which incomplete uploads go.
        content_is_cache: Whether the content may be deleted with the bucket.
        deleted_with_stack: Whether the bucket is deleted with its stack.
    """

    region: str | None = None
    availability_zone_id: str | None = None
    existing: bool = False
    base_name: str | None = None
    bucket_name: str | None = None
    account: str | None = None
    encryption_key: str | None = None
    encryption_key_is_alias: bool | None = None
    expire_after_days: float | None = None
    expire_prefixes: tuple[str | None, ...] = ()
    expires: bool | None = None
    abort_incomplete_multipart_upload_after_days: float | None = None
    content_is_cache: bool | None = None
    deleted_with_stack: bool | None = None


def directory_bucket_suffix(availability_zone_id: str, catalog: Catalog) -> str:
    """Return what the name of every directory bucket of a zone ends in, such as ``--use1-az6--x-s3``."""
    return catalog.object_storage.directory_bucket_suffix.format(zone_id=availability_zone_id)


def zone_of_directory_bucket(bucket_name: str) -> str | None:
    """Return the zone ID in the name of a directory bucket, or None where there is none."""
    match = _FULL_NAME.fullmatch(bucket_name)
    return match["zone"] if match else None


_NEW: Final = DirectoryBucketSettings(
    region="us-east-1", availability_zone_id="use1-az6", base_name="hot", expire_after_days=3
)
_EXISTING: Final = DirectoryBucketSettings(
    region="us-east-1", availability_zone_id="use1-az6", existing=True, bucket_name="hot--use1-az6--x-s3"
)
_ZONES: Final = "Amazon S3 User Guide, directory bucket zones"
_NAMING: Final = "Amazon S3 User Guide, directory bucket naming rules; field report 16"
_LIFECYCLE: Final = "Amazon S3 User Guide, lifecycle of directory buckets"


@rule(
    id="directory-bucket.zone-id",
    statement="The zone is a zone ID such as use1-az6, not a zone name such as us-east-1a.",
    reason="S3 Express takes IDs only, and a zone name means another zone in another account.",
    source=f"{_ZONES}; field report 16",
    passes=_NEW,
    fails=replace(_NEW, availability_zone_id="us-east-1a"),
)
def _zone_id(settings: DirectoryBucketSettings) -> Iterator[Problem]:
    zone = settings.availability_zone_id
    if zone is None or ZONE_ID.fullmatch(zone):
        return
    region = catalog_of(settings).regions.get(settings.region or "")
    known = region.express_zone_ids if region else ()
    yield Problem(
        what="a zone name, which is another zone in another account" if ZONE_NAME.fullmatch(zone) else "not a zone ID",
        path="availability_zone_id",
        value=zone,
        allowed=f"a zone ID: {', '.join(known)}" if known else "a zone ID such as use1-az4",
        fix="take the ID from `aws ec2 describe-availability-zones`, column ZoneId",
    )


@rule(
    id="directory-bucket.zone-region",
    statement="The zone is one of the stack's region.",
    reason="A stack makes directory buckets in its own region only, and reads from another one are slow and charged.",
    source=f"{_ZONES}; field report 16",
    passes=_NEW,
    fails=replace(_NEW, availability_zone_id="usw2-az1"),
)
def _zone_region(settings: DirectoryBucketSettings) -> Iterator[Problem]:
    other = _region_of_zone(settings)
    if other is None or settings.region is None or other == settings.region:
        return
    region = catalog_of(settings).regions.get(settings.region)
    yield Problem(
        what=f"a zone of {other}, and the stack is in {settings.region}",
        path="bucket_name" if settings.existing else "availability_zone_id",
        value=settings.bucket_name if settings.existing else settings.availability_zone_id,
        allowed=f"a zone ID that begins with {region.zone_id_prefix}-" if region else f"a zone of {settings.region}",
        fix=f"give a zone of {settings.region}, or put the stack into {other}",
    )


def _region_of_zone(settings: DirectoryBucketSettings) -> str | None:
    """Return the region of a zone ID; None where the zone or its region is not known."""
    zone = settings.availability_zone_id
    if zone is None or not ZONE_ID.fullmatch(zone):
        return None
    prefix = zone.partition("-")[0]
    found = (name for name, region in catalog_of(settings).regions.items() if region.zone_id_prefix == prefix)
    return next(found, None)


@rule(
    id="directory-bucket.zone",
    statement="The zone is one that has S3 Express One Zone.",
    reason="S3 Express is offered in some zones of some regions; elsewhere the bucket cannot be made.",
    source=_ZONES,
    passes=_NEW,
    fails=replace(_NEW, availability_zone_id="use1-az1"),
)
def _zone(settings: DirectoryBucketSettings) -> Iterator[Problem]:
    zone = settings.availability_zone_id
    if settings.existing or zone is None or not ZONE_ID.fullmatch(zone):
        return
    home = _region_of_zone(settings)
    if settings.region is not None and home is not None and home != settings.region:
        return
    regions = catalog_of(settings).regions
    here = settings.region or home or "the region of this zone"
    offered = regions[here].express_zone_ids if here in regions else ()
    if zone in offered:
        return
    everywhere = {name: region.express_zone_ids for name, region in regions.items() if region.express_zone_ids}
    elsewhere = "; ".join(f"{name} ({', '.join(zones)})" for name, zones in everywhere.items())
    yield Problem(
        what="no zone with S3 Express One Zone",
        path="availability_zone_id",
        value=zone,
        allowed=f"{', '.join(offered)} in {here}" if offered else f"{here} has none; {elsewhere}",
        fix=("take one of these zones" if offered else "take one of these regions")
        + " for the whole fleet, or FSx for Lustre (LustreFileSystem) as the hot tier; a zone that AWS has opened "
        "since goes into express_zone_ids of a catalog file, and that into catalog=load_catalog(...)",
    )


@rule(
    id="directory-bucket.base-name",
    statement="The base name has lower-case letters, digits and hyphens, letter or digit at both ends, and no reserved "
    "part.",
    reason="S3 refuses other names: no dots, no capitals, and some beginnings and endings are AWS's own.",
    source=_NAMING,
    passes=_NEW,
    fails=replace(_NEW, base_name="Hot.Data"),
)
def _base_name(settings: DirectoryBucketSettings) -> Iterator[Problem]:
    base, objects = settings.base_name, catalog_of(settings).object_storage
    if base is None:
        return
    starts, ends = objects.directory_bucket_forbidden_prefixes, objects.directory_bucket_forbidden_suffixes
    if not _BASE.fullmatch(base) or base.startswith(starts) or base.endswith(ends):
        yield Problem(
            what="not a base name that can be used",
            path="base_name",
            value=base,
            allowed="lower-case letters, digits and hyphens, letter or digit at both ends; no dots, no "
            f"{', '.join(starts)} in front, no {', '.join(ends)} at the end",
        )


@rule(
    id="directory-bucket.suffix",
    statement="The base name does not carry the suffix --ZONE--x-s3, which is added.",
    reason="With the suffix twice it would be another bucket than the one that is meant.",
    source=_NAMING,
    passes=_NEW,
    fails=replace(_NEW, base_name="hot--use1-az6--x-s3"),
)
def _suffix(settings: DirectoryBucketSettings) -> Iterator[Problem]:
    base = settings.base_name
    carried = _SUFFIX.search(base) if base is not None else None
    if base is None or carried is None:
        return
    bare = base[: carried.start()]
    yield Problem(
        what=f"the base name carries {carried[0]} already, and the suffix is added",
        path="base_name",
        value=base,
        allowed="the name without its suffix",
        fix=(f"base_name={bare!r}" if bare else "give a name in front of it")
        + "; for a bucket that exists already use DirectoryBucket.from_bucket_name",
    )


@rule(
    id="directory-bucket.name-length",
    statement="The whole name, suffix included, has 3 to 63 characters.",
    reason="S3 refuses longer names.",
    source=_NAMING,
    passes=replace(_NEW, base_name="h" * 47),
    fails=replace(_NEW, base_name="h" * 48),
)
def _name_length(settings: DirectoryBucketSettings) -> Iterator[Problem]:
    base, zone = settings.base_name, settings.availability_zone_id
    if base is None or zone is None or not ZONE_ID.fullmatch(zone) or _SUFFIX.search(base):
        return
    catalog = catalog_of(settings)
    longest, suffix = catalog.object_storage.directory_bucket_name_max_length, directory_bucket_suffix(zone, catalog)
    if len(base) + len(suffix) > longest:
        yield Problem(
            what=f"with {suffix} the name has {len(base) + len(suffix)} characters",
            path="base_name",
            value=base,
            allowed=f"at most {longest - len(suffix)} characters, {longest} with the suffix",
        )


@rule(
    id="directory-bucket.existing-name",
    statement="The name of a directory bucket that exists already is BASE--ZONE--x-s3.",
    reason="Every directory bucket has such a name; another one is a general purpose bucket or a slip.",
    source=_NAMING,
    passes=_EXISTING,
    fails=replace(_EXISTING, bucket_name="hot"),
)
def _existing_name(settings: DirectoryBucketSettings) -> Iterator[Problem]:
    name = settings.bucket_name
    if name is None:
        return
    longest = catalog_of(settings).object_storage.directory_bucket_name_max_length
    if zone_of_directory_bucket(name) is None or len(name) > longest:
        yield Problem(
            what="not the name of a directory bucket",
            path="bucket_name",
            value=name,
            allowed=f"a name such as hot--use1-az6--x-s3, at most {longest} characters",
            fix="a general purpose bucket is taken with DataLake(bucket=...)",
        )


@rule(
    id="directory-bucket.account",
    statement="The owner of a directory bucket that exists already is an account id of 12 digits.",
    reason="It stands in the ARN that rights are given on; with another text the rights would be on nothing.",
    source="Service Authorization Reference, resource types of Amazon S3 Express",
    passes=replace(_EXISTING, account="111111111111"),
    fails=replace(_EXISTING, account="data-account"),
)
def _account(settings: DirectoryBucketSettings) -> Iterator[Problem]:
    if settings.account is not None and not _ACCOUNT.fullmatch(settings.account):
        yield Problem(what="not an account id", path="account", value=settings.account, allowed="12 digits, as text")


@rule(
    id="directory-bucket.encryption-key",
    statement="The key is a customer managed key of the bucket's region, given itself and not by an alias.",
    reason="S3 Express takes no alias and not the key aws/s3, and the key stays for the life of the bucket.",
    source="Amazon S3 User Guide, encryption of directory buckets",
    passes=replace(_NEW, encryption_key="arn:aws:kms:us-east-1:111111111111:key/0a1b", encryption_key_is_alias=False),
    fails=replace(_NEW, encryption_key="arn:aws:kms:us-east-1:111111111111:alias/hot", encryption_key_is_alias=True),
)
def _encryption_key(settings: DirectoryBucketSettings) -> Iterator[Problem]:
    key = settings.encryption_key
    if settings.encryption_key_is_alias:
        yield Problem(
            what="an alias, which a directory bucket does not take",
            path="encryption_key",
            value=key,
            allowed="the key itself: a kms.Key of your app, or kms.Key.from_key_arn(...key/ID)",
        )
        return
    parts = (key or "").split(":")
    if len(parts) == 6 and parts[3] and settings.region is not None and parts[3] != settings.region:
        yield Problem(
            what=f"a key of {parts[3]}, and the bucket is in {settings.region}",
            path="encryption_key",
            value=key,
            allowed=f"a key of {settings.region}",
        )


@rule(
    id="directory-bucket.ages",
    statement="Lifecycle ages are whole days, 1 or more.",
    reason="S3 counts in days and refuses 0; directory buckets know no dates.",
    source=_LIFECYCLE,
    passes=_NEW,
    fails=replace(_NEW, expire_after_days=0.5),
)
def _ages(settings: DirectoryBucketSettings) -> Iterator[Problem]:
    ages = {
        "expire_after": settings.expire_after_days,
        "abort_incomplete_multipart_upload_after": settings.abort_incomplete_multipart_upload_after_days,
    }
    for path, days in ages.items():
        if days is not None and (days < 1 or days != int(days)):
            yield Problem(
                what="not a lifecycle age", path=path, value=f"{days:g} days", allowed="whole days, 1 or more"
            )


@rule(
    id="directory-bucket.expire-prefixes",
    statement="Prefixes that expire go with an age, end in a slash, begin with none, and do not overlap.",
    reason="Without an age nothing expires; checkpoints would be checkpoints-best/ too, no key begins with a slash, "
    "and an empty prefix is every object.",
    source=f"{_LIFECYCLE}; differences of directory buckets",
    passes=replace(_NEW, expires=True, expire_prefixes=("checkpoints/", "tmp/")),
    fails=replace(_NEW, expires=True, expire_prefixes=("checkpoints",)),
)
def _expire_prefixes(settings: DirectoryBucketSettings) -> Iterator[Problem]:
    prefixes = settings.expire_prefixes
    if prefixes and settings.expires is False:
        yield Problem(
            what="prefixes that expire, and no age at which they do",
            path="expire_prefixes",
            value=", ".join(prefix or "..." for prefix in prefixes),
            allowed="expire_prefixes with expire_after",
            fix="give expire_after, or leave expire_prefixes out",
        )
    known = [prefix for prefix in prefixes if prefix is not None]
    wrong = [prefix for prefix in known if not prefix.endswith("/") or prefix.startswith("/")]
    for prefix in wrong:
        inner = prefix.strip("/")
        yield Problem(
            what="not a prefix that can expire",
            path="expire_prefixes",
            value=prefix,
            allowed="a prefix such as checkpoints/, ending in a slash and not beginning with one",
            fix=f"write {inner}/" if inner else "leave expire_prefixes out, and every object expires",
        )
    for one, other in combinations((prefix for prefix in known if prefix not in wrong), 2):
        if prefixes_overlap(one, other):
            yield Problem(
                what="one prefix lies in the other",
                path="expire_prefixes",
                value=f"{one}, {other}",
                allowed="prefixes beside each other",
                fix=f"keep {min(one, other, key=len)} alone",
            )


@rule(
    id="directory-bucket.cache-removal",
    statement="A bucket whose content is called a cache is one that is deleted with its stack.",
    reason="The flag lets the content be deleted with the bucket; on a bucket that is kept nothing would use it.",
    source="Amazon S3 User Guide, deleting a directory bucket: it must be empty, without uploads in progress",
    passes=replace(_NEW, content_is_cache=True, deleted_with_stack=True),
    fails=replace(_NEW, content_is_cache=True, deleted_with_stack=False),
)
def _cache_removal(settings: DirectoryBucketSettings) -> Iterator[Problem]:
    if settings.content_is_cache and settings.deleted_with_stack is False:
        yield Problem(
            what="the content may be deleted with the bucket, but the bucket is kept: nothing would use it",
            path="content_is_cache",
            value=True,
            allowed="True with removal_policy DESTROY",
            fix="give removal_policy=cdk.RemovalPolicy.DESTROY, or leave content_is_cache out",
        )


DIRECTORY_BUCKET_RULES: Final[tuple[Rule[DirectoryBucketSettings], ...]] = (
    _zone_id,
    _zone_region,
    _zone,
    _base_name,
    _suffix,
    _name_length,
    _existing_name,
    _account,
    _encryption_key,
    _ages,
    _expire_prefixes,
    _cache_removal,
)
"""Every rule of a directory bucket."""
