"""What people pass by mistake, named before anything is made: a name in place of a resource, text in place of a number.

Python checks no types when a program runs, and what reaches the CDK so comes back as an error of another language. Each
construct looks at the kinds of its arguments first. A value that is only known at deploy passes where it has the form
that the CDK has for it there: text for text, a number for a number, an ``IResolvable`` for True or False. Nothing else
does: an ARN or an id that is a token is no more a role or a security group than one that is written out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf, isfinite
from typing import Final, TypeGuard

import aws_cdk as cdk

from training_storage._tokens import is_concrete, is_list_token
from training_storage.catalog import Catalog
from training_storage.errors import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What an argument must be.

    Attributes:
        allowed: In words, for the message.
        fits: Whether a value is one; tokens in the form of text, of a number or of a list are asked like other values.
        fix: What to write in its place.
        optional: Whether it can be left out.
        resolvable: Whether an ``IResolvable`` of the CDK will do as well.
    """

    allowed: str
    fits: Callable[[object], bool]
    fix: str = ""
    optional: bool = False
    resolvable: bool = False


def optional(kind: Kind) -> Kind:
    """Return the kind of an argument that can be left out."""
    return replace(kind, optional=True)


def misfits(arguments: Mapping[str, tuple[object, Kind]]) -> list[Problem]:
    """Return a problem for each argument of another kind.

    Args:
        arguments: Value and kind by the name of the argument.
    """
    return [
        Problem(
            what="no value" if value is None else f"not what this argument takes, but {_described(value)}",
            path=path,
            value=value if isinstance(value, str | int | float) and is_concrete(value) else None,
            allowed=kind.allowed,
            fix=kind.fix,
        )
        for path, (value, kind) in arguments.items()
        if not _fits(value, kind)
    ]


def misfits_among(kinds: Mapping[str, Kind], values: Mapping[str, object]) -> list[Problem]:
    """Return a problem for each argument of another kind.

    Args:
        kinds: Kind by the name of the argument.
        values: Values by name; others are passed over, so that a constructor can give its ``locals()``.
    """
    return misfits({name: (values[name], kind) for name, kind in kinds.items()})


def _fits(value: object, kind: Kind) -> bool:
    if value is None:
        return kind.optional
    return kind.fits(value) or (kind.resolvable and has(value, "resolve", "creation_stack"))


def _described(value: object) -> str:
    name = type(value).__name__
    what = f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
    later = isinstance(value, str | int | float | list | tuple) and not is_concrete(value)
    return f"{what} that is only known at deploy" if later else what


def _whole(value: object) -> bool:
    return _number(value) and float(value).is_integer()


def _number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def between(value: object, low: float, high: float = inf) -> bool:
    """Whether a number lies between two, both included; one that is only known at deploy passes."""
    return _number(value) and (not is_concrete(value) or low <= value <= high)


def _texts(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(isinstance(x, str) for x in value)


def resource(noun: str, attribute: str, fix: str) -> Kind:
    """Return the kind of a CDK object, known by an attribute: any class that implements the interface will do."""
    return Kind(allowed=f"{noun} of the CDK", fits=lambda value: has(value, attribute), fix=fix)


def has(value: object, *attributes: str) -> bool:
    """Whether an object has attributes, without reading them: each would be a round trip to Node, and some raise."""
    own = getattr(value, "__dict__", {})
    # What comes back from the CDK as a bare interface hands every attribute on to objects behind it.
    faces = (value, *own.get("_delegates", ()))
    return all(name in own or any(hasattr(type(face), name) for face in faces) for name in attributes)


def _is_directory_bucket(value: object) -> bool:
    return has(value, "availability_zone_id") or str(getattr(value, "bucket_name", "")).endswith("--x-s3")


def sequence_of(allowed: str, *types: type) -> Kind:
    """Return the kind of a list of our own values."""

    def fits(value: object) -> bool:
        return (
            isinstance(value, Iterable)
            and not isinstance(value, str | bytes)
            and all(isinstance(each, types) for each in value)
        )

    return Kind(allowed=allowed, fits=fits, fix="put it in a list")


TEXT: Final = Kind(allowed="text", fits=lambda value: isinstance(value, str))
TEXTS: Final = Kind(allowed="a list of texts", fits=_texts, fix="put each text in a list")
LISTED_TEXTS: Final = replace(
    TEXTS,
    allowed="a list of texts, as many as are known at synth",
    fits=lambda value: _texts(value) and not is_list_token(value),
)
"""Texts that are put one by one into something else; those of a list token have no number."""
FLAG: Final = Kind(allowed="True or False", fits=lambda value: isinstance(value, bool), resolvable=True)
WHOLE: Final = Kind(allowed="a whole number", fits=_whole)
NUMBER: Final = Kind(allowed="a number", fits=_number)
CATALOG: Final = Kind(
    allowed="a Catalog", fits=lambda value: isinstance(value, Catalog), fix='load_catalog(Path("my-facts.yaml"))'
)
MOMENT: Final = Kind(
    allowed="a datetime with its time zone",
    fits=lambda value: isinstance(value, datetime),
    fix='for example datetime.fromisoformat("2026-12-01T11:30:00+00:00")',
)
DURATION: Final = Kind(
    allowed="a Duration of the CDK", fits=lambda value: isinstance(value, cdk.Duration), fix="cdk.Duration.days(30)"
)
REMOVAL: Final = Kind(
    allowed="RemovalPolicy.RETAIN or RemovalPolicy.DESTROY",
    fits=lambda value: isinstance(value, cdk.RemovalPolicy),
    fix="cdk.RemovalPolicy.RETAIN",
)
VPC: Final = resource("a VPC", "vpc_id", "ec2.Vpc.from_vpc_attributes, or a VPC of your app")
SUBNET: Final = resource("a subnet", "subnet_id", "ec2.Subnet.from_subnet_attributes, or a subnet of your VPC")
SECURITY_GROUP: Final = resource(
    "a security group", "security_group_id", "ec2.SecurityGroup.from_security_group_id, or a group of your app"
)
ROLE: Final = resource("a role", "role_arn", "iam.Role.from_role_arn, or a role of your app")
KEY: Final = resource("a KMS key", "key_arn", "kms.Key.from_key_arn, or a key of your app")
BUCKET: Final = resource("a bucket", "bucket_arn", "s3.Bucket.from_bucket_name, or a bucket of your app")
GENERAL_PURPOSE_BUCKET: Final = replace(
    BUCKET,
    allowed="a general purpose bucket of the CDK, not a directory bucket",
    fits=lambda value: BUCKET.fits(value) and not _is_directory_bucket(value),
)
LOG_GROUP: Final = resource(
    "a log group", "log_group_name", "logs.LogGroup.from_log_group_name, or a log group of your app"
)
USER_DATA: Final = resource("user data", "render", "ec2.UserData.for_linux")
SUBNET_OR_SEVERAL: Final = replace(
    SUBNET, fits=lambda value: (isinstance(value, list | tuple) and len(value) != 1) or SUBNET.fits(value)
)
"""Several subnets, or none, are a rule's to refuse, which says why there is only one; one in a list is another kind."""
CLIENT: Final = resource("a client with connections", "connections", "a fleet, an instance or a security group")
GRANTEE: Final = resource("a principal", "grant_principal", "a role, or what carries one")
