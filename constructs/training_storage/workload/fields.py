"""Readers of single values: each refuses a wrong one with what is wrong, what is allowed and what to change.

The upper bounds are not limits of any service. They lie far beyond every real cluster and keep the arithmetic of plans
finite. Patterns are compiled where they are first used: most files use few of them, and start-up counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from math import isfinite
from typing import Any, Final, Literal, TypeVar, get_args

from training_storage.units import DURATION_FORM, GIB, PB, RATE_FORM, SIZE_FORM, TB, Duration, Rate, Size
from training_storage.workload.section import QUOTE, Read, refuse

COUNT_MAX: Final = 1_000_000
FILES_MAX: Final = 10**15
NUMBER_MAX: Final = 1e15

Quantity = TypeVar("Quantity", Size, Rate, Duration)


def choice(literal: Any) -> Read[Any]:
    """One of the words of a ``Literal``."""
    known: tuple[str, ...] = get_args(literal)
    allowed = f"{', '.join(known[:-1])} or {known[-1]}"

    def read(value: object) -> str:
        if isinstance(value, str) and value in known:
            return value
        from difflib import get_close_matches

        lower = [each.lower() for each in known]
        near = get_close_matches(value[:100].lower(), lower, n=1) if isinstance(value, str) else []
        fix = f"did you mean {known[lower.index(near[0])]}?" if near else ""
        raise refuse("is not one of the known values", allowed=allowed, fix=fix)

    return read


def whole(low: int, high: int = COUNT_MAX) -> Read[int]:
    """A whole number from ``low`` to ``high``; ``1.2e6`` is one too."""
    allowed = f"a whole number from {low:,} to {high:,}"

    def read(value: object) -> int:
        if isinstance(value, float) and isfinite(value) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            fix = "write it without quotes" if isinstance(value, str) and value.strip().isdecimal() else ""
            raise refuse("is not a whole number", allowed=allowed, fix=fix)
        if not low <= value <= high:
            raise refuse("is out of range", allowed=allowed)
        return value

    return read


def number(low: float, high: float = NUMBER_MAX) -> Read[float]:
    """A number from ``low`` to ``high``."""
    allowed = f"a number from {low:g} to {high:g}"

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refuse("is not a plain number", allowed=allowed, fix=_number_fix(value))
        if not low <= value <= high:  # NaN too
            raise refuse("is out of range", allowed=allowed)
        return float(value)

    return read


def _number_fix(value: object) -> str:
    """Return what to change where text is a number in quotes or in percent."""
    match = (
        re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)\s*(%?)\s*", value)
        if isinstance(value, str)
        else None
    )
    if match is None:
        return ""
    return f"write {float(match[1]) / 100:g}" if match[2] else "write it without quotes"


def text(
    pattern: str, what: str, allowed: str, reason: Callable[[str], str | None] | None = None, fix: str = ""
) -> Read[str]:
    """Text of one form; ``reason`` may name a common mistake in place of ``what``."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            plain = isinstance(value, int | float)
            raise refuse("is read as a number" if plain else "is not text", allowed=allowed, fix=QUOTE if plain else "")
        said = reason(value) if reason else None
        if said or not re.fullmatch(pattern, value):
            raise refuse(said or what, allowed=allowed, fix=fix)
        return value

    return read


def aws_id(prefix: str, longest: int = 17) -> Read[str]:
    """An id such as EC2 gives; those of S3 Files have up to 40 digits."""
    return text(
        f"{prefix}-[0-9a-f]{{3,{longest}}}",
        f"is not an id of the form {prefix}-...",
        f"an id such as {prefix}-0123456789abcdef0",
    )


def age(low_days: int, high_days: int | None = None) -> Read[Duration]:
    """Whole days, which is all that lifecycle rules of S3 and the expiry of S3 Files know."""
    most = f"{low_days}d or more" if high_days is None else f"{low_days}d to {high_days}d"

    def read(value: object) -> Duration:
        found = duration(value)
        days, rest = divmod(found.seconds, 86400)
        if rest or days < low_days or (high_days is not None and days > high_days):
            raise refuse("is not an age that a lifecycle rule can have", allowed=f"whole days, {most}")
        return found

    return read


def days(value: object) -> Duration:
    """Whole days: what a release task of FSx knows."""
    return _whole_units(value, 86400, "is not a number of whole days", "whole days, 1d to 3650d")


def hours(value: object) -> Duration:
    """Whole hours, up to thirty days."""
    return _whole_units(value, 3600, "is not a number of whole hours", "whole hours, 1h to 720h", 720)


def _whole_units(value: object, unit_s: int, what: str, allowed: str, most: int = 3650) -> Duration:
    found = duration(value)
    count, rest = divmod(found.seconds, unit_s)
    if rest or not 1 <= count <= most:
        raise refuse(what, allowed=allowed)
    return found


def _arn(service: str, resource: str, example: str) -> Read[str]:
    return text(
        rf"arn:aws[a-z0-9-]*:{service}:[a-z0-9-]+:[0-9]{{12}}:{resource}",
        f"is not an ARN of {service.upper()}",
        f"an ARN such as {example}",
    )


def _quantity(kind: type[Quantity], form: str, low: Quantity, high: Quantity, example: str) -> Read[Quantity]:
    fix = f"write it like {example}"

    def read(value: object) -> Quantity:
        if isinstance(value, str):
            try:
                value = kind.parse(value)
            except ValueError as error:
                said = str(error)
                hint = said.rpartition("; ")[2] if "did you mean" in said else fix
                what = said.partition(":")[0] if said.startswith("unknown unit") else "is not a quantity with its unit"
                raise refuse(what, allowed=form, fix=hint) from None
        if not isinstance(value, kind):
            bare = isinstance(value, int | float) and not isinstance(value, bool)
            raise refuse("has no unit" if bare else "is not a quantity with its unit", allowed=form, fix=fix)
        if not low <= value <= high:
            raise refuse("is out of range", allowed=f"{low} to {high}")
        return value

    return read


def _flag_fix(value: object) -> str:
    words = {"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}
    meant = words.get(value.lower()) if isinstance(value, str) else None
    return f"write {meant} without quotes; YAML 1.2 reads this as text" if meant else ""


def flag(value: object) -> bool:
    """``true`` or ``false``."""
    if isinstance(value, bool):
        return value
    raise refuse("is neither true nor false", allowed="true or false", fix=_flag_fix(value))


def auto_or_flag(value: object) -> Any:
    """``auto``, ``true`` or ``false``."""
    if isinstance(value, bool) or value == "auto":
        return value
    raise refuse("is neither auto, true nor false", allowed="auto, true or false", fix=_flag_fix(value))


def auto_or_duration(value: object) -> Duration | Literal["auto"]:
    """``auto`` or a length of time."""
    return "auto" if value == "auto" else duration(value)


def automatic_or_iops(value: object) -> int | Literal["automatic"]:
    """``automatic`` or a number of metadata IOPS; which numbers are legal is a rule of the service."""
    if value == "automatic":
        return "automatic"
    if isinstance(value, bool) or not isinstance(value, int | float) or value % 1 != 0:
        fix = _number_fix(value)
        raise refuse(
            "is neither automatic nor a whole number", allowed="automatic, or a number of metadata IOPS", fix=fix
        )
    if not 1 <= value <= COUNT_MAX:
        raise refuse("is out of range", allowed=f"automatic, or 1 to {COUNT_MAX:,}")
    return int(value)


def moment(value: object) -> datetime:
    """A date and a time with its zone."""
    form = "a date and a time with its zone, such as 2026-12-01T11:30:00Z"
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise refuse("is not a date and a time", allowed=form) from None
    if not isinstance(value, datetime):
        raise refuse("is not a date and a time", allowed=form)
    if value.tzinfo is None:
        raise refuse("has no time zone", allowed=form, fix="add Z for UTC, or an offset such as +02:00")
    return value


def whole_gib(value: object) -> Size:
    """A size in whole GiB."""
    found = size(value)
    if found.bytes % GIB or found.bytes < GIB:
        raise refuse("is not a whole number of GiB", allowed="whole GiB", fix="write it like 4800 GiB")
    return found


def read_cache(value: object) -> Size | Literal["none", "proportional"]:
    """``none``, ``proportional`` or a size in whole GiB; which sizes are legal is a rule of the service."""
    if value == "none" or value == "proportional":
        return value
    if isinstance(value, str) and not any(letter.isdigit() for letter in value):
        raise refuse("is neither none, proportional nor a size", allowed="none, proportional, or whole GiB")
    return whole_gib(value)


_NAME = r"[a-z][a-z0-9-]{0,39}"
_BUCKET = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
_SOURCE = r"s3://(?P<bucket>[^/\s]+)/(?P<prefix>(?:[^\x00-\x1f\x7f]*/)?)"
# Names that S3 keeps for itself: directory buckets, access points and their aliases, table buckets, examples.
_RESERVED_STARTS = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_ENDS = ("--x-s3", "--ol-s3", "-s3alias", ".mrap", "--table-s3")
_BUCKET_FORM = "3 to 63 lower-case letters, digits and hyphens, a letter or digit at both ends"
_SOURCE_FORM = "s3://BUCKET/PREFIX/ with a slash at the end, or s3://BUCKET/ for the whole bucket"


def _name_reason(value: str) -> str | None:
    return f"is too long: {len(value)} characters" if len(value) > 40 and re.match(_NAME, value) else None


def _zone_reason(value: str) -> str | None:
    if not re.fullmatch(r"[a-z]{2,4}(?:-[a-z]+)+-[0-9]+[a-z]", value):
        return None
    return "is the name of a zone, which stands for another zone in each account; an id like use1-az6 is wanted"


def _bucket_reason(value: str) -> str | None:
    if value.startswith(_RESERVED_STARTS) or value.endswith(_RESERVED_ENDS):
        return "is a name that general purpose buckets cannot have"
    return None


def _directory_reason(value: str) -> str | None:
    return None if value.endswith("--x-s3") else "is not the name of a directory bucket"


def _dotless_reason(value: str) -> str | None:
    if "." in value and re.fullmatch(_BUCKET, value):
        return "has a full stop: the TLS certificates of S3 do not cover such bucket names"
    return _bucket_reason(value)


def source(value: object) -> str:
    """The address of a prefix in S3."""
    if not isinstance(value, str):
        raise refuse("is not text", allowed=_SOURCE_FORM)
    match = re.fullmatch(_SOURCE, value)
    if match is None:
        fixed = f"{value if value.startswith('s3://') else 's3://' + value}/"
        fix = f"write {fixed}" if len(fixed) < 100 and re.fullmatch(_SOURCE, fixed) else ""
        raise refuse("is not the address of a prefix in S3", allowed=_SOURCE_FORM, fix=fix)
    name, prefix = match["bucket"], match["prefix"]
    if not re.fullmatch(_BUCKET, name) or ".." in name or re.fullmatch(r"[0-9.]+", name) or _bucket_reason(name):
        raise refuse(
            f"names a bucket that cannot be: {name[:80]!r}", allowed=f"{_BUCKET_FORM}; full stops between them"
        )
    if any(part in {"", ".", ".."} for part in prefix.split("/")[:-1]) or len(prefix.encode(errors="replace")) > 1024:
        raise refuse("has a prefix that is no plain path", allowed="at most 1024 bytes, without //, . and ..")
    return value


size = _quantity(Size, SIZE_FORM, Size(1), Size(1000 * PB), "60 TB")
room = _quantity(Size, SIZE_FORM, Size(0), Size(1000 * PB), "5 TB")
rate = _quantity(Rate, RATE_FORM, Rate(1), Rate(1000 * TB), "2.86 GB/s")
duration = _quantity(Duration, DURATION_FORM, Duration(0.001), Duration(3650 * 86400), "30m")
# Shorter, and a save that is only slow would be taken for one that has ended half way.
unfinished = _quantity(Duration, DURATION_FORM, Duration(600), Duration(3650 * 86400), "1d")
pause = _quantity(Duration, DURATION_FORM, Duration(0), Duration(3650 * 86400), "5m")
mttf = _quantity(Duration, DURATION_FORM, Duration(3600), Duration(100_000_000 * 3600), "50000h")

name = text(
    _NAME, "is not a usable name", "1 to 40 lower-case letters, digits and hyphens, a letter first", _name_reason
)
region = text(r"[a-z]{2,4}(?:-[a-z]+)+-[0-9]+", "is not a region", "a region such as us-east-1")
zone_id = text(
    r"[a-z0-9]+(?:-[a-z0-9]+)?-az[0-9]+",
    "is not the id of a zone",
    "a zone id such as use1-az6",
    _zone_reason,
    "take the ID from `aws ec2 describe-availability-zones`, column ZoneId",
)
instance_type = text(r"[a-z0-9-]+\.[a-z0-9-]+", "is not an instance type", "an EC2 type such as p5en.48xlarge")
account = text(r"[0-9]{12}", "is not an account id", "12 digits in quotes")
image = text(
    r"auto|ami-[0-9a-f]{3,17}|ssm:/[A-Za-z0-9_.\-/]{1,1000}",
    "is not an image",
    "auto, an id such as ami-0123456789abcdef0, or ssm: and the path of a parameter such as ssm:/my/image",
)
version = text(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}",
    "is not usable as a folder name",
    "1 to 128 letters, digits, full stops, hyphens and underscores, a letter or digit first",
)
lustre_version = text(r"[0-9]\.[0-9]{1,3}", "is not a Lustre version", '2.10, 2.12 or 2.15, in quotes: "2.15"')
reference_model = text(r"[^\x00-\x1f]{1,100}", "is not a reference workload", "a name such as unet3d")
command = text(r"(?s:[^\x00]*[^\x00\s][^\x00]*)", "is not a shell command", "one or more lines of shell")
metric = text(r"[^\x00-\x1f\x7f]{1,256}", "is not the name of a metric", "a name such as eval_loss")
key_prefix = text(r"[^\x00-\x1f\x7f]{1,1024}", "is not a key prefix", "a prefix such as checkpoints/")
link_path = text(r"/[^\x00-\x1f\x7f]{0,4095}", "is not an absolute directory path", "a path such as /datasets")
bucket = text(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", "is not a bucket name", _BUCKET_FORM, _dotless_reason)
base_name = text(
    r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?",
    "is not the base of a bucket name",
    "1 to 40 lower-case letters, digits and hyphens, a letter or digit at both ends; the zone and --x-s3 are added",
    _bucket_reason,
)
directory_bucket = text(
    r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?--[a-z0-9]+(?:-[a-z0-9]+)?-az[0-9]+--x-s3",
    "is not the name of a directory bucket",
    "a name such as hot--use1-az6--x-s3: base, zone id and --x-s3",
    _directory_reason,
)
role = text(
    r"arn:aws[a-z0-9-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]{1,576}",
    "is not the ARN of a role",
    "an ARN such as arn:aws:iam::111111111111:role/training-nodes",
)
lustre_mount_name = text(
    r"[A-Za-z0-9_-]{1,8}", "is not the mount name of a file system", "a name such as abcdefgh, or fsx"
)
kms_key = _arn("kms", r"(?:key|alias)/[A-Za-z0-9/_-]{1,256}", "arn:aws:kms:us-east-1:111111111111:key/0123abcd")
topic = _arn("sns", r"[A-Za-z0-9_-]{1,256}(?:\.fifo)?", "arn:aws:sns:us-east-1:111111111111:training-alarms")
email = text(r"[^@\s]{1,64}@[^@\s.]+(?:\.[^@\s.]+)+", "is not an e-mail address", "an address such as ops@example.com")
