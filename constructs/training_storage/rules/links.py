"""Rules of data repository associations: the links between directories of a file system and prefixes of buckets.

Paths and prefixes are compared in one normal form, so that ``data``, ``/data/`` and ``/data`` are the same directory
and ``a`` and ``a/`` the same prefix; ``a/`` and ``ab/`` do not overlap. Planner and constructs write that form too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from training_storage.errors import Problem
from training_storage.rules.base import Rule
from training_storage.rules.subject import Subject, catalog_of

LINK_EVENTS: Final = ("new", "changed", "deleted")
"""What a link can import or export by itself; the FSx API writes them in capitals."""

MAX_PATH_LENGTH: Final = 4096
MAX_KEY_LENGTH: Final = 1024
CHUNK_SIZE_MIB: Final = (1, 512_000)

_LINE_BREAKS = re.compile(r"[\x00\x85\u2028\u2029\r\n]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings(Subject):
    """One link. Every field is None where it is not given or not known; rules pass over None.

    Attributes:
        path: Directory of the file system such as ``/datasets``; any form, see ``normalized_path``.
        bucket: Bucket name, or any label that is equal for equal buckets (a bucket of the same app has no name yet).
        prefix: Key prefix; any form, see ``normalized_prefix``; empty for the whole bucket.
        import_events: What FSx imports by itself: ``new``, ``changed``, ``deleted``.
        export_events: What FSx exports by itself.
        chunk_size_mib: Most data of an imported file on one disk, MiB.
        bucket_region: Region of the bucket.
        file_system_region: Region of the file system.
    """

    path: str | None = None
    bucket: str | None = None
    prefix: str | None = None
    import_events: tuple[str, ...] | None = None
    export_events: tuple[str, ...] | None = None
    chunk_size_mib: int | None = None
    bucket_region: str | None = None
    file_system_region: str | None = None


LINK_CONSTRUCT_PATHS: Final[Mapping[str, str]] = {
    "links[].path": "file_system_path",
    "links[].bucket": "bucket",
    "links[].prefix": "bucket_prefix",
    "links[].import_events": "import_events",
    "links[].export_events": "export_events",
    "links[].chunk_size_mib": "imported_file_chunk_size_mib",
}
"""Field paths of ``LINK_RULES`` as arguments of ``DataRepositoryAssociation``; for ``base.relabel``."""

LINK_WORKLOAD_PATHS: Final[Mapping[str, str]] = {
    "links": "lustre.links",
    "links[].path": "lustre.links[].path",
    "links[].bucket": "lustre.links[].source",
    "links[].prefix": "lustre.links[].source",
    "links[].import_events": "lustre.links[].import",
    "links[].export_events": "lustre.links[].export",
}
"""Field paths of ``LINK_RULES`` as fields of a workload file; for ``base.relabel``."""


def normalized_path(path: str) -> str:
    """Return a file system path with one leading and no trailing slash; ``/`` stays ``/``."""
    return "/" + "/".join(part for part in path.split("/") if part)


def normalized_prefix(prefix: str) -> str:
    """Return a key prefix with no leading and one trailing slash; empty (the whole bucket) stays empty.

    FSx adds the trailing slash by itself; written from the start, it makes no drift.
    """
    inner = prefix.strip("/")
    return f"{inner}/" if inner else ""


def paths_overlap(first: str, second: str) -> bool:
    """Whether two file system paths, in any form, are equal or one lies in the other."""
    one, two = (normalized_path(path).rstrip("/") + "/" for path in (first, second))
    return one.startswith(two) or two.startswith(one)


def prefixes_overlap(first: str, second: str) -> bool:
    """Whether two prefixes of one bucket, in any form, are equal or one lies in the other."""
    one, two = normalized_prefix(first), normalized_prefix(second)
    return one.startswith(two) or two.startswith(one)


Links = tuple[LinkSettings, ...]


def _count(links: Links) -> Iterator[Problem]:
    most = catalog_of(*links).lustre.max_links
    if len(links) > most:
        yield Problem(
            what="too many links on one file system",
            path="links",
            value=len(links),
            allowed=f"at most {most}",
            fix="link a common parent prefix, or use a second file system",
        )


def _path_form(links: Links) -> Iterator[Problem]:
    for index, link in enumerate(links):
        if link.path is None:
            continue
        parts = [part for part in link.path.split("/") if part]
        if not link.path.strip() or len(link.path) > MAX_PATH_LENGTH or _LINE_BREAKS.search(link.path):
            what = "not a directory path"
        elif "//" in link.path or any(part in {".", ".."} for part in parts):
            what = "the path is not in its plain form"
        else:
            continue
        yield Problem(
            what=what,
            path=f"links[{index}].path",
            value=link.path,
            allowed=f"1 to {MAX_PATH_LENGTH} characters such as /datasets, without //, ., .. and line breaks",
        )


def _prefix_form(links: Links) -> Iterator[Problem]:
    for index, link in enumerate(links):
        if link.prefix is None:
            continue
        inner = link.prefix.strip("/")
        if len(normalized_prefix(link.prefix).encode()) > MAX_KEY_LENGTH or _LINE_BREAKS.search(link.prefix):
            what = "not a key prefix"
        elif "//" in link.prefix or any(part in {".", ".."} for part in inner.split("/")):
            what = "FSx skips keys that are no POSIX paths"
        else:
            continue
        yield Problem(
            what=what,
            path=f"links[{index}].prefix",
            value=link.prefix,
            allowed=f"at most {MAX_KEY_LENGTH} bytes such as datasets/, without //, ., .. and line breaks",
        )


def _root_alone(links: Links) -> Iterator[Problem]:
    if len(links) < 2:
        return
    for index, link in enumerate(links):
        if link.path is not None and normalized_path(link.path) == "/":
            others = [other.path for place, other in enumerate(links) if place != index and other.path is not None]
            yield Problem(
                what=f"a link at / must be the only one, and there is also {', '.join(others) or 'another link'}",
                path=f"links[{index}].path",
                value=link.path,
                allowed="/ alone, or a directory of its own for each link",
            )


def _paths_apart(links: Links) -> Iterator[Problem]:
    for (_, first), (index, second) in combinations(enumerate(links), 2):
        if (
            first.path is None
            or second.path is None
            or "/" in {normalized_path(first.path), normalized_path(second.path)}
        ):
            continue  # a link at / has a rule of its own
        if paths_overlap(first.path, second.path):
            same = normalized_path(first.path) == normalized_path(second.path)
            yield Problem(
                what=f"{second.path} and {first.path} are "
                + ("the same directory" if same else "nested: one lies in the other"),
                path=f"links[{index}].path",
                value=second.path,
                allowed="a directory for each link, none inside another",
            )


def _s3_name(link: LinkSettings) -> str:
    return f"s3://{link.bucket}/{normalized_prefix(link.prefix or '')}"


def _prefixes_apart(links: Links) -> Iterator[Problem]:
    for (_, first), (index, second) in combinations(enumerate(links), 2):
        if None in {first.bucket, first.prefix, second.bucket, second.prefix} or first.bucket != second.bucket:
            continue
        if prefixes_overlap(first.prefix or "", second.prefix or ""):
            same = normalized_prefix(first.prefix or "") == normalized_prefix(second.prefix or "")
            yield Problem(
                what=f"{_s3_name(second)} and {_s3_name(first)} are "
                + ("the same prefix" if same else "nested: one lies in the other"),
                path=f"links[{index}].prefix",
                value=second.prefix,
                allowed="a prefix for each link, none inside another",
            )


def _events(links: Links) -> Iterator[Problem]:
    for index, link in enumerate(links):
        for field, events in (("import_events", link.import_events), ("export_events", link.export_events)):
            if events is None:
                continue
            if unknown := [event for event in events if event not in LINK_EVENTS]:
                what = f"unknown event {', '.join(map(repr, unknown))}"
            elif len(set(events)) != len(events):
                what = "an event is named twice"
            else:
                continue
            yield Problem(
                what=what,
                path=f"links[{index}].{field}",
                value=list(events),
                allowed=f"each of {', '.join(LINK_EVENTS)} at most once; none switches it off",
            )


def _chunk_size(links: Links) -> Iterator[Problem]:
    low, high = CHUNK_SIZE_MIB
    for index, link in enumerate(links):
        if link.chunk_size_mib is not None and not low <= link.chunk_size_mib <= high:
            yield Problem(
                what="chunk size out of range",
                path=f"links[{index}].chunk_size_mib",
                value=link.chunk_size_mib,
                allowed=f"{low} to {high} MiB; 1024 when left out",
            )


def _import_region(links: Links) -> Iterator[Problem]:
    for index, link in enumerate(links):
        if None in {link.bucket_region, link.file_system_region} or link.bucket_region == link.file_system_region:
            continue
        if link.import_events:
            yield Problem(
                what=f"the bucket is in {link.bucket_region} and the file system in {link.file_system_region}",
                path=f"links[{index}].import_events",
                value=list(link.import_events),
                allowed="automatic import from a bucket of the same region; export may cross regions",
            )


def _made(*paths: str, bucket: str = "lake") -> Links:
    return tuple(LinkSettings(path=path, bucket=bucket, prefix=path) for path in paths)


_GUIDE = "FSx for Lustre User Guide, linking to an S3 bucket"
_API = "FSx API reference, CreateDataRepositoryAssociation"

LINK_RULES: Final[tuple[Rule[Links], ...]] = (
    Rule(
        id="links.count",
        statement="A file system has at most eight links.",
        reason="FSx refuses the ninth data repository association.",
        source=_GUIDE,
        check=_count,
        passes=_made(*(f"/d{number}" for number in range(8))),
        fails=_made(*(f"/d{number}" for number in range(9))),
    ),
    Rule(
        id="links.path-form",
        statement="The path of a link is a plain directory path of 1 to 4096 characters.",
        reason="FSx takes the path as it stands; it can never be changed afterwards.",
        source=_API,
        check=_path_form,
        passes=_made("/datasets"),
        fails=_made("/datasets/../raw"),
    ),
    Rule(
        id="links.prefix-form",
        statement="The prefix of a link is a plain key prefix of at most 1024 bytes.",
        reason="Keys that are no POSIX paths are skipped on import, and longer keys cannot be exported.",
        source=_GUIDE,
        check=_prefix_form,
        passes=(LinkSettings(path="/datasets", bucket="lake", prefix="datasets/"),),
        fails=(LinkSettings(path="/datasets", bucket="lake", prefix="datasets//v3/"),),
    ),
    Rule(
        id="links.root-alone",
        statement="A link at / is the only link of its file system.",
        reason="Every other directory would lie inside it.",
        source=_API,
        check=_root_alone,
        passes=(LinkSettings(path="/", bucket="lake", prefix=""),),
        fails=(
            LinkSettings(path="/", bucket="lake", prefix="a/"),
            LinkSettings(path="/x", bucket="lake", prefix="b/"),
        ),
    ),
    Rule(
        id="links.paths-apart",
        statement="No two links share a directory, and none lies inside another.",
        reason="FSx refuses overlapping directories: it could not tell which bucket a file belongs to.",
        source=_API,
        check=_paths_apart,
        passes=_made("/data", "/database"),
        fails=_made("/data", "/data/train"),
    ),
    Rule(
        id="links.prefixes-apart",
        statement="No two links share a prefix of a bucket, and none lies inside another.",
        reason="FSx refuses overlapping prefixes: one object would be two files.",
        source=_API,
        check=_prefixes_apart,
        passes=(
            LinkSettings(path="/a", bucket="lake", prefix="a/"),
            LinkSettings(path="/b", bucket="lake", prefix="ab/"),
        ),
        fails=(
            LinkSettings(path="/a", bucket="lake", prefix="a/"),
            LinkSettings(path="/b", bucket="lake", prefix="a"),
        ),
    ),
    Rule(
        id="links.events",
        statement="Events are new, changed and deleted, each at most once in a direction.",
        reason="FSx refuses unknown and doubled events.",
        source=_API,
        check=_events,
        passes=(LinkSettings(import_events=("new", "changed"), export_events=()),),
        fails=(LinkSettings(import_events=("new", "new")),),
    ),
    Rule(
        id="links.import-region",
        statement="A link that imports by itself has its bucket in the region of the file system.",
        reason="FSx takes automatic import from the same region only.",
        source=_GUIDE,
        check=_import_region,
        passes=(
            LinkSettings(import_events=("new",), bucket_region="us-east-1", file_system_region="us-east-1"),
            LinkSettings(export_events=("new",), bucket_region="eu-west-1", file_system_region="us-east-1"),
        ),
        fails=(LinkSettings(import_events=("new",), bucket_region="eu-west-1", file_system_region="us-east-1"),),
    ),
    Rule(
        id="links.chunk-size",
        statement="The chunk size of imported files is 1 to 512,000 MiB.",
        reason="FSx refuses other values.",
        source=_API,
        check=_chunk_size,
        passes=(LinkSettings(chunk_size_mib=1024),),
        fails=(LinkSettings(chunk_size_mib=0),),
    ),
)
"""Every rule of links; the subject is all links of one file system, in order."""
