"""Rules of the data lake bucket, and the prefixes that give its contents their roles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from training_storage.errors import Problem
from training_storage.rules.base import Rule, rule

LAKE_PREFIXES: Final[Mapping[str, str]] = {
    "raw/": "data as it came in",
    "datasets/": "data as training reads it",
    "checkpoints/": "key versions of checkpoints",
    "models/": "finished models",
    "logs/": "logs of runs",
    "evaluations/": "results of evaluations",
    ".training-storage/": "what this library keeps: manifests, reports, proofs",
}
"""Top-level prefixes of the lake and what lies under each."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_RESERVED_STARTS: Final = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_ENDS: Final = ("-s3alias", "--ol-s3", "--x-s3", "--table-s3")
_INFREQUENT_ACCESS_DAYS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLakeSettings:
    """A data lake as it would be asked for. A field is None where it is not given or not known; rules pass over None.

    Attributes:
        existing: Whether the bucket exists already.
        bucket_name: Name of a new bucket.
        encryption: ``s3`` or ``kms``.
        encryption_key: Whether a key is given.
        encryption_key_is_alias: Whether the key is given by an alias.
        new_bucket_options: Options given that can shape a new bucket only.
        checkpoints_to_infrequent_access_after_days: Age at which checkpoints go to S3 Standard-IA.
        checkpoints_expire_after_days: Age at which checkpoints go; None: never.
        noncurrent_versions_expire_after_days: Age at which noncurrent versions go.
        logs_expire_after_days: Age at which logs go.
        abort_incomplete_multipart_upload_after_days: Age at which incomplete uploads go.
    """

    existing: bool | None = None
    bucket_name: str | None = None
    encryption: str | None = None
    encryption_key: bool | None = None
    encryption_key_is_alias: bool | None = None
    new_bucket_options: tuple[str, ...] = ()
    checkpoints_to_infrequent_access_after_days: float | None = None
    checkpoints_expire_after_days: float | None = None
    noncurrent_versions_expire_after_days: float | None = None
    logs_expire_after_days: float | None = None
    abort_incomplete_multipart_upload_after_days: float | None = None


_AGES: Final = (
    "checkpoints_to_infrequent_access_after",
    "checkpoints_expire_after",
    "noncurrent_versions_expire_after",
    "logs_expire_after",
    "abort_incomplete_multipart_upload_after",
)

DATA_LAKE_WORKLOAD_PATHS: Final[Mapping[str, str]] = {
    "bucket": "data_lake.bucket",
    "bucket_name": "data_lake.bucket_name",
    "encryption": "data_lake.encryption",
    "encryption_key": "data_lake.kms_key_arn",
    **{name: f"data_lake.{name}" for name in _AGES[:4]},
}
"""Field paths of ``DATA_LAKE_RULES`` as fields of a workload file; for ``base.relabel``."""

_NEW: Final = DataLakeSettings(existing=False, bucket_name="training-lake", encryption="kms", encryption_key=False)
_NAMING: Final = "Amazon S3 User Guide, general purpose bucket naming rules"
_LIFECYCLE: Final = "Amazon S3 User Guide, lifecycle transitions; CloudFormation schema of AWS::S3::Bucket"


@rule(
    id="data-lake.bucket-name",
    statement="The name of a new bucket has 3 to 63 lower-case letters, digits and hyphens; no dots, no reserved part.",
    reason="S3 refuses other names; with dots, TLS to the bucket's own host name fails.",
    source=_NAMING,
    passes=_NEW,
    fails=replace(_NEW, bucket_name="Training.Lake"),
)
def _bucket_name(settings: DataLakeSettings) -> Iterator[Problem]:
    name = settings.bucket_name
    if name is None:
        return
    if not _NAME.fullmatch(name) or name.startswith(_RESERVED_STARTS) or name.endswith(_RESERVED_ENDS):
        yield Problem(
            what="not a bucket name that can be used",
            path="bucket_name",
            value=name,
            allowed="3 to 63 lower-case letters, digits and hyphens, letter or digit at both ends; no dots, "
            f"no {', '.join(_RESERVED_STARTS)} in front, no {', '.join(_RESERVED_ENDS)} at the end",
        )


@rule(
    id="data-lake.encryption",
    statement="The encryption is s3 or kms, and a key goes with kms.",
    reason="A bucket has one default encryption; SSE-S3 has no key to give.",
    source="Amazon S3 User Guide, default bucket encryption",
    passes=replace(_NEW, encryption_key=True),
    fails=replace(_NEW, encryption="s3", encryption_key=True),
)
def _encryption(settings: DataLakeSettings) -> Iterator[Problem]:
    if settings.encryption not in {None, "s3", "kms"}:
        yield Problem(what="unknown encryption", path="encryption", value=settings.encryption, allowed="s3 or kms")
    if settings.encryption == "s3" and settings.encryption_key:
        yield Problem(
            what="a key is given, but the encryption is s3",
            path="encryption_key",
            allowed="a key with encryption kms",
            fix="leave the key out, or use kms",
        )


@rule(
    id="data-lake.encryption-key",
    statement="The key is given itself and not by an alias.",
    reason="IAM and key policies name keys by their ARN: rights on an alias are rights on nothing, and nobody could "
    "read or write the lake.",
    source="AWS KMS Developer Guide, specifying KMS keys in IAM policy statements",
    passes=replace(_NEW, encryption_key=True, encryption_key_is_alias=False),
    fails=replace(_NEW, encryption_key=True, encryption_key_is_alias=True),
)
def _encryption_key(settings: DataLakeSettings) -> Iterator[Problem]:
    if settings.encryption_key_is_alias:
        yield Problem(
            what="an alias, and rights cannot be given on one",
            path="encryption_key",
            allowed="the key itself, by an ARN that ends in key/ID",
            fix="take the ARN from `aws kms describe-key --key-id ALIAS`, or a kms.Key of your app",
        )


@rule(
    id="data-lake.existing-bucket",
    statement="An existing bucket is taken as it is: options of a new bucket do not go with it.",
    reason="Its owner sets its name, encryption, versioning and lifecycle; the options would silently do nothing.",
    source="AWS Solutions Constructs, which check the same pair",
    passes=DataLakeSettings(existing=True),
    fails=DataLakeSettings(existing=True, new_bucket_options=("bucket_name",)),
)
def _existing_bucket(settings: DataLakeSettings) -> Iterator[Problem]:
    if settings.existing and settings.new_bucket_options:
        for name in settings.new_bucket_options:
            yield Problem(
                what="an option of a new bucket, but an existing bucket is given",
                path=name,
                allowed="bucket, or the options of a new one",
                fix=f"leave {name} out, or leave bucket out",
            )


@rule(
    id="data-lake.ages",
    statement="Lifecycle ages are whole days, 1 or more.",
    reason="S3 counts in days and refuses 0.",
    source=_LIFECYCLE,
    passes=replace(_NEW, logs_expire_after_days=180),
    fails=replace(_NEW, logs_expire_after_days=0.5),
)
def _ages(settings: DataLakeSettings) -> Iterator[Problem]:
    for name in _AGES:
        days = getattr(settings, f"{name}_days")
        if days is not None and (days < 1 or days != int(days)):
            yield Problem(
                what="not a lifecycle age", path=name, value=f"{days:g} days", allowed="whole days, 1 or more"
            )


@rule(
    id="data-lake.infrequent-access-age",
    statement="Checkpoints go to S3 Standard-IA after 30 days or more.",
    reason="S3 refuses an earlier transition, and the class bills at least 30 days.",
    source=_LIFECYCLE,
    passes=replace(_NEW, checkpoints_to_infrequent_access_after_days=30),
    fails=replace(_NEW, checkpoints_to_infrequent_access_after_days=7),
)
def _infrequent_access_age(settings: DataLakeSettings) -> Iterator[Problem]:
    days = settings.checkpoints_to_infrequent_access_after_days
    if days is not None and 1 <= days < _INFREQUENT_ACCESS_DAYS and days == int(days):
        yield Problem(
            what="too early for S3 Standard-IA",
            path="checkpoints_to_infrequent_access_after",
            value=f"{days:g} days",
            allowed=f"{_INFREQUENT_ACCESS_DAYS} days or more",
        )


@rule(
    id="data-lake.checkpoints-expiry",
    statement="Checkpoints expire no earlier than they go to S3 Standard-IA.",
    reason="An object that is gone cannot move: one of the two ages is a mistake.",
    source=_LIFECYCLE,
    passes=replace(_NEW, checkpoints_to_infrequent_access_after_days=30, checkpoints_expire_after_days=90),
    fails=replace(_NEW, checkpoints_to_infrequent_access_after_days=90, checkpoints_expire_after_days=30),
)
def _checkpoints_expiry(settings: DataLakeSettings) -> Iterator[Problem]:
    moves, goes = settings.checkpoints_to_infrequent_access_after_days, settings.checkpoints_expire_after_days
    if moves is not None and goes is not None and 1 <= goes < moves:
        yield Problem(
            what=f"less than the {moves:g} days after which checkpoints go to S3 Standard-IA",
            path="checkpoints_expire_after",
            value=f"{goes:g} days",
            allowed=f"{moves:g} days or more",
        )


DATA_LAKE_RULES: Final[tuple[Rule[DataLakeSettings], ...]] = (
    _bucket_name,
    _encryption,
    _encryption_key,
    _existing_bucket,
    _ages,
    _infrequent_access_age,
    _checkpoints_expiry,
)
"""Every rule of the data lake bucket."""
