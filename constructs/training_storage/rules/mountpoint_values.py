"""Rules of what the options of a Mountpoint mount may say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from training_storage.errors import Problem
from training_storage.rules.base import Rule
from training_storage.rules.mount_settings import MountSettings, NodeSettings
from training_storage.rules.subject import catalog_of

_MODE = re.compile(r"0?[0-7]{3}")
_ACCOUNT = re.compile(r"[0-9]{12}")
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")
_URL = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?")
_PORT = re.compile(r"https?://[^/:]*:([0-9]+)")
_KEY_ARN = re.compile(r"arn:[a-z0-9-]+:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+")

MAX_PORT: Final = 65_535
PART_MIB: Final = (5, 5 * 1024)
"""Smallest and largest part of a multipart upload, MiB (Amazon S3 User Guide, multipart upload limits)."""
PARTS: Final = 10_000
"""Most parts of one object (Amazon S3 User Guide, multipart upload limits)."""
KEY_BYTES: Final = 1024
"""Longest key of an object in UTF-8 (Amazon S3 User Guide, object key names)."""
SSE: Final = ("aws:kms", "aws:kms:dsse", "AES256")
UPLOAD_CHECKSUMS: Final = ("crc32c", "crc64nvme", "off")
TTL_WORDS: Final = ("minimal", "indefinite")
TTL_MOST: Final = 100 * 365 * 24 * 3600
"""Longest time that Mountpoint takes for metadata, seconds (Mountpoint for Amazon S3, CONFIGURATION)."""

PART_FIELDS: Final = ("part_size_mib", "read_part_size_mib", "write_part_size_mib")


def _each(node: NodeSettings, *fields: str) -> Iterator[tuple[str, object]]:
    """Every value that is known, with its path."""
    for index, mount in enumerate(node.mounts):
        for field in fields:
            value = getattr(mount, field)
            if value is not None:
                yield f"mounts[{index}].{field}", value


def _least(node: NodeSettings, least: int, what: str, allowed: str, *fields: str) -> Iterator[Problem]:
    for path, value in _each(node, *fields):
        if isinstance(value, int | float) and value < least:
            yield Problem(what=what, path=path, value=value, allowed=allowed)


def _one_of(node: NodeSettings, allowed: tuple[str, ...], what: str, field: str) -> Iterator[Problem]:
    for path, value in _each(node, field):
        if value not in allowed:
            yield Problem(what=what, path=path, value=value, allowed=" or ".join(allowed))


def _matches(node: NodeSettings, form: re.Pattern[str], what: str, allowed: str, *fields: str) -> Iterator[Problem]:
    for path, value in _each(node, *fields):
        for text in value if isinstance(value, tuple) else (value,):
            if not form.fullmatch(str(text)):
                yield Problem(what=what, path=path, value=text, allowed=allowed)


def _prefix(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        prefix = mount.prefix
        if not prefix:
            continue
        if len(prefix.encode("utf-8", "surrogatepass")) >= KEY_BYTES:
            yield Problem(
                what="a key prefix that leaves no room for a name",
                path=f"mounts[{index}].prefix",
                value=f"{prefix[:40]}...",
                allowed=f"less than {KEY_BYTES:,} bytes, the length of a key",
            )
        if not prefix.endswith("/") or prefix.startswith("/") or not prefix.isprintable():
            yield Problem(
                what="not a key prefix that Mountpoint takes",
                path=f"mounts[{index}].prefix",
                value=prefix,
                allowed="empty, or printable characters that end in a slash and start with none, such as datasets/",
            )


def _throughput(node: NodeSettings) -> Iterator[Problem]:
    for path, rate in _each(node, "maximum_throughput_gbps"):
        if isinstance(rate, int | float) and rate <= 0:
            yield Problem(what="not a throughput", path=path, value=rate, allowed="Gbit/s above 0")


def _memory_target(node: NodeSettings) -> Iterator[Problem]:
    least = catalog_of(node).object_storage.mountpoint_memory_target_min_mib
    yield from _least(
        node, least, "a memory target that Mountpoint refuses", f"{least} MiB or more", "memory_target_mib"
    )


def _threads(node: NodeSettings) -> Iterator[Problem]:
    yield from _least(node, 1, "not a number of threads", "1 or more; Mountpoint's own number is 16", "max_threads")


def _modes(node: NodeSettings) -> Iterator[Problem]:
    yield from _matches(node, _MODE, "not a file mode", "octal, such as 0644", "file_mode", "dir_mode")


def _ttl(node: NodeSettings) -> Iterator[Problem]:
    for path, value in _each(node, "metadata_ttl", "negative_metadata_ttl"):
        if value not in TTL_WORDS and (
            isinstance(value, str) or not isinstance(value, int) or not 1 <= value <= TTL_MOST
        ):
            yield Problem(
                what="not a time that Mountpoint keeps metadata for",
                path=path,
                value=value,
                allowed=f"seconds, 1 to {TTL_MOST:,} (100 years), or minimal or indefinite",
            )


def _parts(node: NodeSettings) -> Iterator[Problem]:
    least, most = PART_MIB
    for path, value in _each(node, *PART_FIELDS):
        if isinstance(value, int | float) and not least <= value <= most:
            yield Problem(
                what="not a size of a part that Amazon S3 takes",
                path=path,
                value=value,
                allowed=f"{least} to {most} MiB (5 GiB); Mountpoint's own size is 8 MiB",
            )


def _encryption(node: NodeSettings) -> Iterator[Problem]:
    yield from _one_of(node, SSE, "not an encryption that Mountpoint asks for", "sse")
    yield from _matches(
        node,
        _KEY_ARN,
        "not the ARN of a key, the one form that Mountpoint takes",
        "arn:aws:kms:REGION:ACCOUNT:key/ID, and no alias",
        "sse_kms_key",
    )
    for index, mount in enumerate(node.mounts):
        if mount.sse == "AES256" and mount.gives("sse_kms_key"):
            yield Problem(
                what="sse_kms_key with sse AES256, which has no key of yours",
                path=f"mounts[{index}].sse_kms_key",
                value=mount.sse_kms_key,
                allowed="only with sse aws:kms or aws:kms:dsse",
            )


def _checksums(node: NodeSettings) -> Iterator[Problem]:
    yield from _one_of(node, UPLOAD_CHECKSUMS, "not a checksum of Mountpoint", "upload_checksums")


def _storage_class(node: NodeSettings) -> Iterator[Problem]:
    classes = catalog_of(node).object_storage.storage_classes
    readable = [name for name, row in classes.items() if row.readable]
    for path, value in _each(node, "storage_class"):
        if value in readable:
            continue
        archive = value in classes
        yield Problem(
            what="an archive class: what is written could not be read back" if archive else "not a storage class",
            path=path,
            value=value,
            allowed=", ".join(readable),
            fix="let a lifecycle rule of the bucket move old objects there" if archive else "",
        )


def _owner(node: NodeSettings) -> Iterator[Problem]:
    yield from _matches(node, _ACCOUNT, "not an account id", "12 digits", "expected_bucket_owner")


def _acceleration(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        if mount.transfer_acceleration and mount.bucket_name is not None and "." in mount.bucket_name:
            yield Problem(
                what=f"transfer acceleration of {mount.bucket_name}, whose name has a dot",
                path=f"mounts[{index}].transfer_acceleration",
                value=True,
                allowed="only for a bucket without dots in its name",
            )


def _interfaces(node: NodeSettings) -> Iterator[Problem]:
    yield from _matches(
        node, _INTERFACE, "not the name of a network interface", "names as ip link shows them, such as ens32", "bind"
    )
    for path, value in _each(node, "bind"):
        if isinstance(value, tuple) and len(set(value)) < len(value):
            yield Problem(what="a network interface twice", path=path, value=", ".join(value), allowed="each once")


def _urls(node: NodeSettings) -> Iterator[Problem]:
    yield from _matches(
        node,
        _URL,
        "not an address of an endpoint",
        "http or https, a host, and a port and a path where needed, such as http://localhost:4318",
        "endpoint_url",
        "otlp_endpoint",
    )
    for path, value in _each(node, "endpoint_url", "otlp_endpoint"):
        port = _PORT.match(str(value))
        if port and not 1 <= int(port[1]) <= MAX_PORT:
            yield Problem(what="not a port", path=path, value=value, allowed=f"1 to {MAX_PORT}")
    yield from _least(
        node, 1, "not an interval", "seconds, 1 or more; Mountpoint's own is 60", "otlp_export_interval_seconds"
    )


_LAKE = MountSettings(path="/lake", kind="mountpoint", read_only=True, directory_bucket=False)
_WRITABLE = replace(_LAKE, read_only=False)
_CONFIGURATION: Final = "Mountpoint for Amazon S3, CONFIGURATION"


def _node(mount: MountSettings) -> NodeSettings:
    return NodeSettings(mounts=(mount,))


VALUE_RULES: Final[tuple[Rule[NodeSettings], ...]] = (
    Rule(
        id="mounts.prefix",
        statement="a mounted prefix ends in a slash",
        reason="Mountpoint refuses others",
        source="Mountpoint for Amazon S3, CONFIGURATION, --prefix",
        check=_prefix,
        passes=_node(replace(_LAKE, prefix="datasets/")),
        fails=_node(replace(_LAKE, prefix="datasets")),
    ),
    Rule(
        id="mounts.throughput",
        statement="Mountpoint's throughput is above 0 Gbit/s",
        reason="the value sizes its memory and its connections",
        source="field report 33",
        check=_throughput,
        passes=_node(replace(_LAKE, maximum_throughput_gbps=100)),
        fails=_node(replace(_LAKE, maximum_throughput_gbps=0)),
    ),
    Rule(
        id="mounts.memory-target",
        statement="Mountpoint's memory target is 512 MiB or more",
        reason="Mountpoint refuses less",
        source="Mountpoint for Amazon S3 1.24, CONFIGURATION, --memory-target",
        check=_memory_target,
        passes=_node(replace(_LAKE, memory_target_mib=4096)),
        fails=_node(replace(_LAKE, memory_target_mib=511)),
    ),
    Rule(
        id="mounts.threads",
        statement="Mountpoint has at least one thread",
        reason="Mountpoint refuses less",
        source=f"{_CONFIGURATION}, --max-threads",
        check=_threads,
        passes=_node(replace(_LAKE, max_threads=64)),
        fails=_node(replace(_LAKE, max_threads=0)),
    ),
    Rule(
        id="mounts.mode",
        statement="modes of files and directories are octal",
        reason="they are passed to Mountpoint as they are",
        source="Mountpoint for Amazon S3, CONFIGURATION, --file-mode and --dir-mode",
        check=_modes,
        passes=_node(replace(_LAKE, file_mode="0644", dir_mode="755")),
        fails=_node(replace(_LAKE, file_mode="rw-r--r--")),
    ),
    Rule(
        id="mounts.metadata-ttl",
        statement="metadata is kept for whole seconds, minimal or indefinite",
        reason="Mountpoint refuses other words, and reads 0 as minimal",
        source=f"{_CONFIGURATION}, --metadata-ttl and --negative-metadata-ttl",
        check=_ttl,
        passes=_node(replace(_LAKE, metadata_ttl="indefinite", negative_metadata_ttl=60)),
        fails=_node(replace(_LAKE, metadata_ttl="forever")),
    ),
    Rule(
        id="mounts.part-size",
        statement="a part has 5 MiB to 5 GiB",
        reason="Amazon S3 refuses others",
        source=f"Amazon S3 User Guide, multipart upload limits; {_CONFIGURATION}, --write-part-size",
        check=_parts,
        passes=_node(replace(_WRITABLE, write_part_size_mib=64)),
        fails=_node(replace(_WRITABLE, write_part_size_mib=6 * 1024)),
    ),
    Rule(
        id="mounts.encryption",
        statement="Mountpoint asks for aws:kms, aws:kms:dsse or AES256, and names a key by its ARN",
        reason="Mountpoint refuses other words, key ids and aliases, and a key with AES256",
        source=f"{_CONFIGURATION}, --sse and --sse-kms-key-id; field report 12",
        check=_encryption,
        passes=_node(replace(_WRITABLE, sse="aws:kms", sse_kms_key="arn:aws:kms:us-east-1:111111111111:key/0abc")),
        fails=_node(replace(_WRITABLE, sse="aws:kms", sse_kms_key="arn:aws:kms:us-east-1:111111111111:alias/mine")),
    ),
    Rule(
        id="mounts.upload-checksums",
        statement="uploads have the checksum crc32c or crc64nvme, or none",
        reason="Mountpoint refuses others",
        source=f"{_CONFIGURATION}, --upload-checksums",
        check=_checksums,
        passes=_node(replace(_WRITABLE, upload_checksums="crc64nvme")),
        fails=_node(replace(_WRITABLE, upload_checksums="sha256")),
    ),
    Rule(
        id="mounts.storage-class",
        statement="new objects get a storage class that can be read as it lies",
        reason="objects in archive classes give an input/output error until they are restored",
        source="Mountpoint for Amazon S3, CONFIGURATION, --storage-class, and SEMANTICS",
        check=_storage_class,
        passes=_node(replace(_WRITABLE, storage_class="GLACIER_IR")),
        fails=_node(replace(_WRITABLE, storage_class="DEEP_ARCHIVE")),
    ),
    Rule(
        id="mounts.bucket-owner",
        statement="the expected owner is an account id",
        reason="S3 answers access denied to anything else",
        source=f"{_CONFIGURATION}, --expected-bucket-owner",
        check=_owner,
        passes=_node(replace(_LAKE, expected_bucket_owner="111111111111")),
        fails=_node(replace(_LAKE, expected_bucket_owner="1111-1111-1111")),
    ),
    Rule(
        id="mounts.acceleration",
        statement="only a bucket whose name has no dots is reached over the edge network",
        reason="its certificate covers one label in front of the host, and S3 refuses the others",
        source="Amazon S3 User Guide, transfer-acceleration",
        check=_acceleration,
        passes=_node(replace(_LAKE, transfer_acceleration=True, bucket_name="lake")),
        fails=_node(replace(_LAKE, transfer_acceleration=True, bucket_name="lake.example")),
    ),
    Rule(
        id="mounts.interfaces",
        statement="interfaces to bind are named as the kernel names them, each once",
        reason="a name that no node has fails the mount on every node",
        source=f"{_CONFIGURATION}, --bind; netdevice(7): at most 15 characters",
        check=_interfaces,
        passes=_node(replace(_LAKE, bind=("ens32", "ens65"))),
        fails=_node(replace(_LAKE, bind=("ens 32",))),
    ),
    Rule(
        id="mounts.endpoint",
        statement="an endpoint is a plain http or https address, and metrics are sent every second at most",
        reason="Mountpoint refuses others, and the address becomes a part of a systemd unit",
        source=f"{_CONFIGURATION}, --endpoint-url, --otlp-endpoint and --otlp-export-interval",
        check=_urls,
        passes=_node(replace(_LAKE, otlp_endpoint="http://localhost:4318", otlp_export_interval_seconds=60)),
        fails=_node(replace(_LAKE, otlp_endpoint="localhost:4318")),
    ),
)
