"""Rules of a Lustre file system that exists already: how it is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from training_storage.errors import Problem
from training_storage.rules.base import Rule, rule
from training_storage.rules.lustre_settings import API
from training_storage.rules.subject import Subject

_FILE_SYSTEM_ID = re.compile(r"fs-[0-9a-f]{8,18}")
_MOUNT_NAME = re.compile(r"[A-Za-z0-9_-]{1,8}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,273}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingLustreSettings(Subject):
    """How a file system is named that exists already. Every field is None where it is not given or not known.

    Attributes:
        file_system_id: Id such as ``fs-0123456789abcdef0``.
        mount_name: Name that FSx gave for mounting, such as ``abcdefgh``.
        dns_name: DNS name, or an address of a network interface.
    """

    file_system_id: str | None = None
    mount_name: str | None = None
    dns_name: str | None = None


_THERE: Final = ExistingLustreSettings(
    file_system_id="fs-0123456789abcdef0",
    mount_name="abcdefgh",
    dns_name="fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
)


@rule(
    id="lustre.existing-id",
    statement="The id of a file system is fs- and 8 to 18 hexadecimal digits.",
    reason="Every client and every link names the file system by it.",
    source=API,
    passes=_THERE,
    fails=replace(_THERE, file_system_id="fsx-data"),
)
def _id_form(settings: ExistingLustreSettings) -> Iterator[Problem]:
    if settings.file_system_id is not None and not _FILE_SYSTEM_ID.fullmatch(settings.file_system_id):
        yield Problem(
            what="not the id of a file system",
            path="file_system_id",
            value=settings.file_system_id,
            allowed="an id such as fs-0123456789abcdef0",
        )


@rule(
    id="lustre.existing-mount-name",
    statement="A mount name is 1 to 8 letters, digits, hyphens and underscores.",
    reason="FSx gives it when it makes the file system; it is no directory, and mounting another name fails.",
    source=API,
    passes=_THERE,
    fails=replace(_THERE, mount_name="/fsx"),
)
def _mount_name_form(settings: ExistingLustreSettings) -> Iterator[Problem]:
    if settings.mount_name is not None and not _MOUNT_NAME.fullmatch(settings.mount_name):
        yield Problem(
            what="not the mount name of a file system",
            path="mount_name",
            value=settings.mount_name,
            allowed="1 to 8 letters, digits, hyphens and underscores, such as abcdefgh",
            fix="take MountName of aws fsx describe-file-systems",
        )


@rule(
    id="lustre.existing-dns-name",
    statement="The DNS name of a file system is a host name or an address, without protocol, port and path.",
    reason="@tcp and the mount name are added where it is mounted.",
    source="FSx for Lustre User Guide, mounting",
    passes=_THERE,
    fails=replace(_THERE, dns_name="fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh"),
)
def _dns_name_form(settings: ExistingLustreSettings) -> Iterator[Problem]:
    if settings.dns_name is not None and not _HOST.fullmatch(settings.dns_name):
        yield Problem(
            what="not a host name",
            path="dns_name",
            value=settings.dns_name,
            allowed="a name such as fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com, or an IPv4 address",
            fix="leave it out, or give what stands before @tcp",
        )


EXISTING_LUSTRE_RULES: Final[tuple[Rule[ExistingLustreSettings], ...]] = (_id_form, _mount_name_form, _dns_name_form)
"""Every rule of the names of a file system that exists already."""
