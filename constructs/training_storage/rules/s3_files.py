"""Rules of an S3 Files file system over a bucket or a prefix of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from training_storage.errors import Problem
from training_storage.rules.base import Rule, rule
from training_storage.rules.s3_files_settings import (
    DEFAULT_EXPIRE_DAYS,
    DEFAULT_IMPORT_BELOW_BYTES,
    EXPIRE_DAYS,
    IMPORT_TRIGGERS,
    MAX_IMPORT_BELOW_BYTES,
    MAX_IMPORT_RULES,
    MAX_SECURITY_GROUPS,
    ON_DIRECTORY_FIRST_ACCESS,
    ON_FILE_ACCESS,
    ImportSettings,
    S3FilesSettings,
)
from training_storage.rules.subject import catalog_of

_MAX_PREFIX_LENGTH: Final = 1024

_ENCRYPTIONS: Final = ("AES256", "aws:kms")
_FILE_SYSTEM_ID: Final = re.compile(r"fs-[0-9a-f]{17,40}")


_ROOT: Final = ImportSettings(
    prefix="", trigger=ON_DIRECTORY_FIRST_ACCESS, size_less_than_bytes=DEFAULT_IMPORT_BELOW_BYTES
)
_NEW: Final = S3FilesSettings(
    region="us-east-1",
    account="111111111111",
    bucket_region="us-east-1",
    bucket_account="111111111111",
    directory_bucket=False,
    versioned=True,
    bucket_encryption="aws:kms",
    prefix="datasets/",
    import_rules=(_ROOT,),
    expire_after_days=DEFAULT_EXPIRE_DAYS,
    subnet_count=1,
    security_group_count=1,
    file_system_id="fs-0123456789abcdef0",
)
_PREREQUISITES: Final = "Amazon S3 User Guide, prerequisites for S3 Files"
_SCHEMA: Final = "CloudFormation schema of AWS::S3Files::FileSystem"
_QUOTAS: Final = "Amazon S3 User Guide, S3 Files quotas"


@rule(
    id="s3-files.region",
    statement="The region has S3 Files.",
    reason="CloudFormation knows no such resource type elsewhere, and the stack fails.",
    source="region list of AWS::S3Files::FileSystem in the CloudFormation registry; catalog, regions",
    passes=_NEW,
    fails=replace(_NEW, region="me-central-1", bucket_region="me-central-1"),
)
def _region(settings: S3FilesSettings) -> Iterator[Problem]:
    row = catalog_of(settings).regions.get(settings.region or "")
    if row is not None and row.s3_files is False:
        yield Problem(
            what="there is no S3 Files in this region",
            path="region",
            value=settings.region,
            allowed="a region with S3 Files",
            fix="mount the bucket read-only with Mountpoint (MountpointMount), or use a LustreFileSystem for what "
            "writes, or take another region",
        )


@rule(
    id="s3-files.bucket-kind",
    statement="The bucket is a general purpose bucket.",
    reason="S3 Files does not take directory buckets.",
    source=_PREREQUISITES,
    passes=_NEW,
    fails=replace(_NEW, directory_bucket=True),
)
def _bucket_kind(settings: S3FilesSettings) -> Iterator[Problem]:
    if settings.directory_bucket:
        yield Problem(
            what="a directory bucket (S3 Express One Zone)",
            path="bucket",
            allowed="a general purpose bucket: a DataLake, or an s3.Bucket",
            fix="mount the directory bucket with Mountpoint",
        )


@rule(
    id="s3-files.bucket-versioning",
    statement="Versioning of the bucket is enabled.",
    reason="S3 Files synchronizes by versions and takes no other bucket.",
    source=f"{_PREREQUISITES}; field report 35",
    passes=_NEW,
    fails=replace(_NEW, versioned=False),
)
def _bucket_versioning(settings: S3FilesSettings) -> Iterator[Problem]:
    if settings.versioned is False:
        yield Problem(
            what="versioning of the bucket is off",
            path="bucket",
            allowed="a bucket with versioning enabled",
            fix="leave versioned=False out of the DataLake; for another bucket of this app give versioned=True, or set "
            "versioning_configuration of its CfnBucket",
        )


@rule(
    id="s3-files.bucket-encryption",
    statement="The bucket is encrypted with SSE-S3 or SSE-KMS.",
    reason="S3 Files takes no other encryption.",
    source=f"{_PREREQUISITES}; field report 35",
    passes=_NEW,
    fails=replace(_NEW, bucket_encryption="aws:kms:dsse"),
)
def _bucket_encryption(settings: S3FilesSettings) -> Iterator[Problem]:
    if settings.bucket_encryption is not None and settings.bucket_encryption not in _ENCRYPTIONS:
        yield Problem(
            what="S3 Files does not take this encryption of the bucket",
            path="bucket",
            value=settings.bucket_encryption,
            allowed="SSE-S3 (AES256) or SSE-KMS (aws:kms)",
        )


@rule(
    id="s3-files.bucket-key",
    statement="The key of the bucket is known by itself and not by an alias.",
    reason="The service role gets its rights on that ARN, and rights on an alias are rights on nothing: the file "
    "system would stay in creating for ever.",
    source=f"{_PREREQUISITES}; AWS KMS Developer Guide, specifying KMS keys in IAM policy statements",
    passes=replace(_NEW, bucket_key_is_alias=False),
    fails=replace(_NEW, bucket_key_is_alias=True),
)
def _bucket_key(settings: S3FilesSettings) -> Iterator[Problem]:
    if settings.bucket_key_is_alias:
        yield Problem(
            what="the key of the bucket is given by an alias, and rights cannot be given on one",
            path="bucket",
            allowed="a bucket with its key itself: a kms.Key of your app, or kms.Key.from_key_arn(...key/ID)",
        )


@rule(
    id="s3-files.encryption-key",
    statement="The key of the file system is one of its region.",
    reason="AWS KMS keys are used in their own region.",
    source="S3 Files API reference, CreateFileSystem",
    passes=replace(_NEW, encryption_key="arn:aws:kms:us-east-1:111111111111:key/0a1b"),
    fails=replace(_NEW, encryption_key="arn:aws:kms:eu-west-1:111111111111:key/0a1b"),
)
def _encryption_key(settings: S3FilesSettings) -> Iterator[Problem]:
    parts = (settings.encryption_key or "").split(":")
    if len(parts) == 6 and parts[3] and settings.region is not None and parts[3] != settings.region:
        yield Problem(
            what=f"a key of {parts[3]}, and the file system is in {settings.region}",
            path="encryption_key",
            value=settings.encryption_key,
            allowed=f"a key of {settings.region}",
        )


@rule(
    id="s3-files.bucket-place",
    statement="The bucket is in the region and the account of the file system.",
    reason="The service refuses a bucket of another region, and the file system lives in the bucket owner's account.",
    source=f"{_PREREQUISITES}; S3 Files API reference, CreateFileSystem",
    passes=_NEW,
    fails=replace(_NEW, bucket_region="eu-west-1"),
)
def _bucket_place(settings: S3FilesSettings) -> Iterator[Problem]:
    for noun, here, there in (
        ("region", settings.region, settings.bucket_region),
        ("account", settings.account, settings.bucket_account),
    ):
        if here is not None and there is not None and here != there:
            yield Problem(
                what=f"the bucket is in {noun} {there} and the file system in {here}",
                path="bucket",
                value=there,
                allowed=f"a bucket of {here}",
                fix=f"make the file system in the bucket's {noun}, or copy the data",
            )


@rule(
    id="s3-files.prefix",
    statement="The prefix is empty or ends in a slash; it has 1,024 characters at most and no slash in front.",
    reason="The schema refuses other forms; no key of the lake begins with a slash, so the file system would be empty.",
    source=f"{_SCHEMA}; S3 Files API reference, CreateFileSystem",
    passes=_NEW,
    fails=replace(_NEW, prefix="datasets"),
)
def _prefix(settings: S3FilesSettings) -> Iterator[Problem]:
    yield from _prefix_form(settings.prefix, "prefix")


def _prefix_form(prefix: str | None, path: str) -> Iterator[Problem]:
    if not prefix:
        return
    if not prefix.endswith("/") or prefix.startswith("/") or len(prefix) > _MAX_PREFIX_LENGTH:
        inner = prefix.strip("/")
        yield Problem(
            what="not a prefix of S3 Files",
            path=path,
            value=prefix,
            allowed=f"empty, or at most {_MAX_PREFIX_LENGTH:,} characters such as datasets/, ending in a slash and "
            "not beginning with one",
            fix=f"write {inner}/" if inner and len(inner) < _MAX_PREFIX_LENGTH else "leave it empty for all keys",
        )


@rule(
    id="s3-files.import-rules",
    statement=f"There are 1 to {MAX_IMPORT_RULES} import rules, one of them for all keys (prefix empty).",
    reason="The service refuses a configuration without a root rule, with two, or with more rules.",
    source=f"{_SCHEMA}; Amazon S3 User Guide, customizing synchronization for S3 Files",
    passes=replace(_NEW, import_rules=(_ROOT, replace(_ROOT, prefix="shards/"))),
    fails=replace(_NEW, import_rules=(replace(_ROOT, prefix="shards/"),)),
)
def _import_rules(settings: S3FilesSettings) -> Iterator[Problem]:
    rules = settings.import_rules
    if rules is None:
        return
    if not 1 <= len(rules) <= MAX_IMPORT_RULES:
        yield Problem(
            what="not a number of import rules that S3 Files takes",
            path="import_rules",
            value=len(rules),
            allowed=f"1 to {MAX_IMPORT_RULES}",
        )
        return
    roots = sum(each.prefix == "" for each in rules)
    unknown = any(each.prefix is None for each in rules)
    if roots > 1 or (roots == 0 and not unknown):
        yield Problem(
            what=f"{roots} import rules with an empty prefix",
            path="import_rules",
            value=roots,
            allowed="exactly 1: the rule for keys that no other rule is for",
            fix='add S3FilesImportRule(prefix="")' if roots == 0 else "give the others a prefix",
        )


@rule(
    id="s3-files.import-rule",
    statement=f"An import rule has a prefix of the same form, a trigger, and a size of 0 to {MAX_IMPORT_BELOW_BYTES:,} "
    "bytes.",
    reason="The schema refuses other values.",
    source=f"{_SCHEMA}; S3 Files API reference, ImportDataRule",
    passes=replace(_NEW, import_rules=(replace(_ROOT, trigger=ON_FILE_ACCESS),)),
    fails=replace(_NEW, import_rules=(replace(_ROOT, trigger="ON_OPEN"),)),
)
def _import_rule(settings: S3FilesSettings) -> Iterator[Problem]:
    for index, each in enumerate(settings.import_rules or ()):
        path = f"import_rules[{index}]"
        yield from _prefix_form(each.prefix, f"{path}.prefix")
        if each.trigger is not None and each.trigger not in IMPORT_TRIGGERS:
            yield Problem(
                what="unknown trigger", path=f"{path}.trigger", value=each.trigger, allowed=" or ".join(IMPORT_TRIGGERS)
            )
        if each.size_less_than_bytes is not None and not 0 <= each.size_less_than_bytes <= MAX_IMPORT_BELOW_BYTES:
            yield Problem(
                what="not a size that S3 Files takes",
                path=f"{path}.size_less_than_bytes",
                value=each.size_less_than_bytes,
                allowed=f"0 to {MAX_IMPORT_BELOW_BYTES:,} bytes; 0 imports no data",
            )


@rule(
    id="s3-files.expiration",
    statement=f"Data expires {EXPIRE_DAYS[0]} to {EXPIRE_DAYS[1]} whole days after its last access.",
    reason="The service takes one expiration rule, in days.",
    source=_SCHEMA,
    passes=_NEW,
    fails=replace(_NEW, expire_after_days=366),
)
def _expiration(settings: S3FilesSettings) -> Iterator[Problem]:
    days = settings.expire_after_days
    if days is not None and (not EXPIRE_DAYS[0] <= days <= EXPIRE_DAYS[1] or days != int(days)):
        yield Problem(
            what="not an expiration that S3 Files takes",
            path="expire_after",
            value=f"{days:g} days",
            allowed=f"{EXPIRE_DAYS[0]} to {EXPIRE_DAYS[1]} whole days; AWS advises 1 to 7 for training",
        )


@rule(
    id="s3-files.one-subnet",
    statement="The file system has one mount target, in the one subnet of the nodes.",
    reason="A zone takes one mount target, and training runs in one; elsewhere a mount finds no host name.",
    source=f"{_QUOTAS}; field reports 15 and 35",
    passes=_NEW,
    fails=replace(_NEW, subnet_count=2),
)
def _one_subnet(settings: S3FilesSettings) -> Iterator[Problem]:
    if settings.subnet_count is not None and settings.subnet_count != 1:
        yield Problem(
            what="not one subnet",
            path="subnet",
            value=settings.subnet_count,
            allowed="exactly one subnet, the one of the nodes",
        )


@rule(
    id="s3-files.security-groups",
    statement=f"A mount target has at most {MAX_SECURITY_GROUPS} security groups.",
    reason="A quota of the service; the schema lets more pass.",
    source=_QUOTAS,
    passes=_NEW,
    fails=replace(_NEW, security_group_count=6),
)
def _security_groups(settings: S3FilesSettings) -> Iterator[Problem]:
    if settings.security_group_count is not None and settings.security_group_count > MAX_SECURITY_GROUPS:
        yield Problem(
            what="too many security groups on one mount target",
            path="additional_security_groups",
            value=settings.security_group_count,
            allowed=f"at most {MAX_SECURITY_GROUPS} in all, the file system's own among them",
        )


@rule(
    id="s3-files.file-system-id",
    statement="The id of a file system is fs- and 17 to 40 hexadecimal digits.",
    reason="An ARN or another service's id makes grants that name nothing.",
    source="S3 Files API reference, FileSystemId",
    passes=_NEW,
    fails=replace(_NEW, file_system_id="fs-0abc"),
)
def _file_system_id(settings: S3FilesSettings) -> Iterator[Problem]:
    if settings.file_system_id is not None and not _FILE_SYSTEM_ID.fullmatch(settings.file_system_id):
        yield Problem(
            what="not the id of an S3 Files file system",
            path="file_system_id",
            value=settings.file_system_id,
            allowed="fs- and 17 to 40 hexadecimal digits, such as fs-0123456789abcdef0",
        )


S3_FILES_RULES: Final[tuple[Rule[S3FilesSettings], ...]] = (
    _region,
    _bucket_kind,
    _bucket_versioning,
    _bucket_encryption,
    _bucket_key,
    _encryption_key,
    _bucket_place,
    _prefix,
    _import_rules,
    _import_rule,
    _expiration,
    _one_subnet,
    _security_groups,
    _file_system_id,
)
"""Every rule of an S3 Files file system."""
