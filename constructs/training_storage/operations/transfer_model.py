"""What a transfer is about: where objects lie, where they go, and how each of them ended."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from json import dumps
from typing import Final, Literal, NamedTuple

from training_storage.errors import Problem, ValidationError
from training_storage.node.sharding import bucket_index

OWN_PREFIX: Final = ".training-storage/"
"""What this product keeps in the lake for itself; no transfer copies or removes it."""

MIB: Final = 2**20
MAX_PARTS: Final = 10_000
MAX_PART_BYTES: Final = 5 * 2**30
"""Parts of a multipart upload, and what one CopyObject or UploadPartCopy takes: the limits of S3."""

Verify = Literal["auto", "server", "read"]
VERIFY: Final[tuple[Verify, ...]] = ("auto", "server", "read")

FAILURES_KEPT: Final = 100_000
"""Failures that are named; millions of archived objects must not fill the memory."""

PROCESSES: Final = 8
THREADS_A_PROCESS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes at which objects are copied in parts.

    Attributes:
        single_copy_bytes: The largest object that one CopyObject copies. S3 allows 5 GiB; a single request of that size
            runs for a minute, and parts run beside each other, so the default is 1 GiB.
        part_bytes: Size of a part; larger where 10,000 parts would not do.
    """

    single_copy_bytes: int = 2**30
    part_bytes: int = 256 * MIB

    def part_size(self, size: int) -> int:
        """Return the size of the parts of an object of ``size`` bytes: whole MiB, the last part may be smaller."""
        least = -(-size // MAX_PARTS)
        return max(self.part_bytes, -(-least // MIB) * MIB)


LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to transfer.

    Attributes:
        verify: ``auto``: by the servers' checksums, and by reading both sides where there are none to compare;
            ``server``: never by reading; ``read``: always by reading.
        remove: Remove each verified object from the source.
        concurrency: Objects copied at once; 32 a processor, at most 256, when left out.
        processes: Processes that copy small objects; one a processor, at most 8, when left out. Fewer than 2: threads
            of this process.
        dry_run: Look, and change nothing.
        limits: Sizes at which objects are copied in parts.
    """

    verify: Verify = "auto"
    remove: bool = False
    concurrency: int | None = None
    processes: int | None = None
    dry_run: bool = False
    limits: Limits = LIMITS

    def spread(self) -> tuple[int, int]:
        """Return the number of processes, 1 or more, and of threads in each."""
        processes = min(os.cpu_count() or 1, PROCESSES) if self.processes is None else max(self.processes, 1)
        if self.concurrency is not None:
            processes = min(processes, self.concurrency)
        return processes, -(-(self.concurrency or THREADS_A_PROCESS * processes) // processes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A prefix of a bucket.

    Attributes:
        bucket: Name of the bucket.
        prefix: Empty, or ends with ``/``.
    """

    bucket: str
    prefix: str = ""

    @classmethod
    def parse(cls, uri: str, argument: str) -> Location:
        """Read ``s3://bucket/prefix/``.

        Args:
            uri: What was given; a missing ``/`` at the end is added.
            argument: Name of the argument, for the error.

        Raises:
            ValidationError: It is no such URI.
        """
        match = re.fullmatch(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?", uri, re.DOTALL)
        if match is None:
            raise ValidationError(
                Problem(
                    what="is no prefix of a bucket",
                    path=argument,
                    value=uri,
                    allowed="s3://bucket/ or s3://bucket/prefix/, the bucket 3 to 63 of a-z, 0-9, dots and hyphens",
                )
            )
        return cls(bucket=match[1], prefix=as_prefix(match[2] or ""))

    @property
    def uri(self) -> str:
        """``s3://bucket/prefix/``."""
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def is_directory_bucket(self) -> bool:
        """Whether the bucket is one of S3 Express One Zone, by its name."""
        return self.bucket.endswith("--x-s3")


def as_prefix(path: str) -> str:
    """Return a prefix that ends with ``/``: directory buckets list no other, and ``v1`` must not take ``v10`` along."""
    return path if not path or path.endswith("/") else f"{path}/"


@dataclass(frozen=True, slots=True)
class Route:
    """From where to where.

    Attributes:
        sources: Where objects are read; several directory buckets stand for one place.
        destinations: Where they go; of several the key decides (``node.sharding``).
    """

    sources: tuple[Location, ...]
    destinations: tuple[Location, ...]

    def __post_init__(self) -> None:
        problems = [
            Problem(what="is source and destination at once", value=source.uri, fix="give two different places")
            for source in self.sources
            for destination in self.destinations
            if source.bucket == destination.bucket
            and (source.prefix.startswith(destination.prefix) or destination.prefix.startswith(source.prefix))
        ]
        problems += [
            Problem(what=f"lies below {OWN_PREFIX}, where this product keeps its own", value=place.uri,
                    fix="give another prefix")
            for place in (*self.sources, *self.destinations)
            if place.prefix.startswith(OWN_PREFIX)
        ]  # fmt: skip
        for name, places in (("from", self.sources), ("to", self.destinations)):
            if len({place.bucket for place in places}) < len(places):
                problems.append(Problem(what="a bucket is named twice", path=name, value=[p.uri for p in places]))
            if len({place.prefix for place in places}) > 1:
                problems.append(
                    Problem(what="buckets that stand for one place share a prefix", path=name,
                            value=[p.uri for p in places], fix="give the same prefix in each")
                )  # fmt: skip
        if problems:
            raise ValidationError(problems)

    def target(self, relative: str) -> tuple[int, str]:
        """Return the index of the destination and the key there.

        Args:
            relative: Key without the prefix of its source.
        """
        key = self.destinations[0].prefix + relative
        return bucket_index(key, len(self.destinations)), key

    @property
    def transfer_id(self) -> str:
        """The same for the same places, so that another machine finds what this one has done."""
        places = [[place.uri for place in places] for places in (self.sources, self.destinations)]
        return sha256(dumps(places).encode()).hexdigest()[:16]


def fingerprint(size: int, etag: str) -> bytes:
    """Return a hash of what tells one version of an object from another."""
    return blake2b(f"{size}|{etag}".encode(), digest_size=8).digest()


class Entry(NamedTuple):
    """One object to look after.

    Attributes:
        source: Index of its source.
        relative: Its key without the prefix.
        size: Bytes, as listed.
        etag: As listed, without quotes.
        look: The destination holds this key: compare before copying.
        copy_mark: Verified in an earlier run, and the copy has this fingerprint; only its removal is asked.
        checksum: Whether the listing names a checksum of the whole object or of its parts.
        made: What lies at the destination was copied by this run.
        keep: Another source holds the same key: neither is removed.
    """

    source: int
    relative: str
    size: int
    etag: str
    look: bool = False
    copy_mark: str = ""
    checksum: bool = False
    made: bool = False
    keep: bool = False


Status = Literal["verified", "unverified", "failed", "gone"]
Proof = Literal["checksum", "etag", "read", "journal", ""]


class Outcome(NamedTuple):
    """How one object ended.

    Attributes:
        source: Index of its source.
        relative: Its key without the prefix.
        size: Bytes of the object as it was copied or compared.
        etag: Its ETag in the source.
        status: ``verified``; ``unverified``: it is there, and nothing proves that it is equal; ``failed``; ``gone``:
            the source has it no more.
        copied: Whether bytes were copied in this run.
        removed: Whether it was removed from the source.
        proof: What proved it: ``checksum`` and ``etag`` are those of the servers, ``read`` both sides byte by byte,
            ``journal`` an earlier run.
        copy_etag: ETag of the verified copy.
        read_bytes: Bytes that were read to compare.
        code: Error code of S3, if there was one.
        reason: Why it was not verified or not removed, and what to do.
        seen: Whether the copy was looked at where it lies; otherwise S3 said that it is equal when it made it.
    """

    source: int
    relative: str
    size: int
    etag: str
    status: Status
    copied: bool = False
    removed: bool = False
    proof: Proof = ""
    copy_etag: str = ""
    read_bytes: int = 0
    code: str = ""
    reason: str = ""
    seen: bool = True


class Failure(NamedTuple):
    """An object that is not where it should be.

    Attributes:
        uri: The source object.
        reason: What happened, and what to do.
        code: Error code of S3; empty where there was none.
        kind: ``failed``, ``unverified`` or ``not removed``.
    """

    uri: str
    reason: str
    code: str
    kind: str


@dataclass(slots=True, kw_only=True)
class Report:
    """Counts of a transfer, while it runs and at its end.

    Attributes:
        transfer_id: Names its journal.
        sources: ``s3://bucket/prefix/`` of each source.
        destinations: The same of each destination.
        journal: Where verified copies are written down; empty where no bucket takes it.
        listed: Source objects seen so far.
        listed_bytes: Their bytes.
        complete: Whether the listing is complete.
        known: Objects that an earlier run verified and that have changed on neither side.
        known_bytes: Their bytes.
        present: Objects that were there already, unknown to the journal, and proved equal without a copy.
        present_bytes: Their bytes.
        copied: Objects copied and verified in this run.
        copied_bytes: Their bytes.
        under_way_bytes: Bytes of parts that are copied of objects that are not yet complete.
        removed: Objects removed from the source.
        gone: Objects that vanished from the source while this ran.
        unverified: Objects at the destination that nothing proves to be equal.
        failed: Objects that are not at the destination.
        not_removed: Verified objects whose removal failed.
        proofs: How many objects of this run were proved by ``checksum``, ``etag`` or ``read``.
        read_bytes: Bytes read to compare.
        failures: What failed, in the order of events; the first 100,000.
        failures_left_out: How many more.
        notes: What the user should know: another run, uploads that were resumed.
        seconds: How long it took.
        dry_run: Whether nothing was to be changed.
        to_copy: Objects that a run would copy; only a dry run counts them.
        to_copy_bytes: Their bytes.
        to_compare: Objects that a run would compare with what the destination holds.
        without_checksum: Objects of both kinds of which the listing names no checksum: they may have to be read.
    """

    transfer_id: str
    sources: Sequence[str]
    destinations: Sequence[str]
    journal: str = ""
    listed: int = 0
    listed_bytes: int = 0
    complete: bool = False
    known: int = 0
    known_bytes: int = 0
    present: int = 0
    present_bytes: int = 0
    copied: int = 0
    copied_bytes: int = 0
    under_way_bytes: int = 0
    removed: int = 0
    gone: int = 0
    unverified: int = 0
    failed: int = 0
    not_removed: int = 0
    proofs: dict[str, int] = field(default_factory=dict)
    read_bytes: int = 0
    failures: list[Failure] = field(default_factory=list)
    failures_left_out: int = 0
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    dry_run: bool = False
    to_copy: int = 0
    to_copy_bytes: int = 0
    to_compare: int = 0
    without_checksum: int = 0

    def fail(self, failure: Failure) -> None:
        """Note a failure."""
        if len(self.failures) < FAILURES_KEPT:
            self.failures.append(failure)
        else:
            self.failures_left_out += 1

    @property
    def done(self) -> int:
        """Objects that are finished, whatever their end."""
        return self.known + self.present + self.copied + self.gone + self.unverified + self.failed

    @property
    def done_bytes(self) -> int:
        """Bytes that are proved to be at the destination."""
        return self.known_bytes + self.present_bytes + self.copied_bytes

    @property
    def is_clean(self) -> bool:
        """Whether every object of the source is verified, and removed where that was asked."""
        return self.complete and not (self.failed or self.unverified or self.not_removed)
