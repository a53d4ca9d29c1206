"""The restore drill: read a real checkpoint as a restart would, and time it.

A checkpoint that was never read back is a hope. The drill reads every byte, from the hot tier through the mount and
from the lake, cut into pieces that nodes and threads share as ranks of a restart share the files.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import mmap
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from . import places
from .aws import TAKEN, Aws, code_of
from .checkpoints import lake
from .metrics import OURS, SOURCE
from .roots import instance_id, rooted
from .settings import Settings

PIECE = 64 * 2**20
"""Bytes of one piece: large against the round trip of a request, small against a shard of a checkpoint."""

BLOCK = 8 * 2**20
"""Bytes of one read: the part size of S3 clients, and half of the stripe that checkpoints have on Lustre."""

THREADS = 16
"""Readers of one node: an 8-GPU node restores with one rank a GPU, and frameworks read with two threads a rank."""

CACHED_SHARE = 0.05
"""Above this share of bytes that lay in the page cache the figure is the memory's, not the file system's."""


@dataclass(frozen=True)
class Piece:
    """One stretch of one file.

    Attributes:
        path: Where it is read: a file, or a key.
        offset: First byte.
        size: Bytes.
    """

    path: str
    offset: int
    size: int


@dataclass(frozen=True)
class Reading:
    """What one node read from one place.

    Attributes:
        reader: ``files``, ``mountpoint`` or ``s3``.
        bytes: Bytes read by this node.
        seconds: From the first read to the last.
        cached_bytes: Bytes of them that lay in the page cache before they were read; None where nothing can tell.
        threads: Readers at once.
    """

    reader: str
    bytes: int
    seconds: float
    cached_bytes: int | None
    threads: int

    @property
    def mb_per_s(self) -> float:
        """Decimal MB/s; 0 for a reading of nothing."""
        return self.bytes / 1e6 / self.seconds if self.seconds > 0 else 0.0

    @property
    def from_memory(self) -> bool:
        """Whether the page cache was measured, and not the storage."""
        return bool(self.cached_bytes and self.cached_bytes > CACHED_SHARE * self.bytes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the answer."""
        return {
            "reader": self.reader,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "mb_per_s": round(self.mb_per_s, 1),
            "cached_bytes": self.cached_bytes,
            "from_memory": self.from_memory,
            "threads": self.threads,
        }


def share_of(
    files: Iterable[tuple[str, int]], *, readers: int, share: int, shares: int, piece: int = PIECE
) -> list[Piece]:
    """Return the pieces that one of several nodes reads.

    All replicas together read every file ``readers`` times. A piece goes to another node for each replica, as long as
    there are as many nodes as replicas: no node would read it from the storage twice.

    Args:
        files: Paths with their sizes.
        readers: Replicas that each read the whole checkpoint.
        share: This node, from 0.
        shares: Nodes.
        piece: Bytes of a piece.
    """
    found = []
    number = 0
    for path, size in sorted(files):
        for offset in range(0, size, piece):
            times = sum((number + replica) % shares == share for replica in range(readers))
            found += [Piece(path, offset, min(piece, size - offset))] * times
            number += 1
    return found


def read_files(
    pieces: Sequence[Piece],
    *,
    reader: str = "files",
    threads: int = THREADS,
    clock: Callable[[], float] = time.monotonic,
    on_bytes: Callable[[int], None] = lambda _count: None,
) -> Reading:
    """Read pieces of files through a mount.

    Before a file's piece is read the kernel is asked to forget it, and then which pages it still holds: what is counted
    as cached did not come from the storage. Memory of the servers of a file system cannot be seen from here.

    Args:
        pieces: What to read.
        reader: How the answer names this reader.
        threads: Readers at once.
        clock: Steady clock, seconds.
        on_bytes: Called with the bytes of each piece that was read.

    Raises:
        OSError: A file cannot be read, or is shorter than it was.
    """
    lock = threading.Lock()
    cached: list[int | None] = []

    def read(piece: Piece) -> int:
        handle = os.open(piece.path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, piece.offset, piece.size, os.POSIX_FADV_DONTNEED)
            held = resident(handle, piece.offset, piece.size)
            with lock:
                cached.append(held)
            done = 0
            while done < piece.size:
                block = os.pread(handle, min(BLOCK, piece.size - done), piece.offset + done)
                if not block:
                    raise OSError(
                        f"{piece.path} ends after {piece.offset + done} bytes, and was longer when it was listed"
                    )
                done += len(block)
        finally:
            os.close(handle)
        on_bytes(done)
        return done

    total, seconds = _timed(read, pieces, threads, clock)
    known = [each for each in cached if each is not None]
    held = sum(known) if len(known) == len(cached) else None
    return Reading(reader, total, seconds, held, threads)


def read_objects(
    aws: Aws,
    bucket: str,
    pieces: Sequence[Piece],
    *,
    threads: int = THREADS,
    clock: Callable[[], float] = time.monotonic,
    on_bytes: Callable[[int], None] = lambda _count: None,
) -> Reading:
    """Read pieces of objects with ranged GETs; arguments as for ``read_files``.

    Raises:
        ClientError: S3 refused or failed.
        OSError: An object is shorter than its record.
    """
    s3 = aws("s3")

    def read(piece: Piece) -> int:
        last = piece.offset + piece.size - 1
        body = s3.get_object(Bucket=bucket, Key=piece.path, Range=f"bytes={piece.offset}-{last}")["Body"]
        done = 0
        while True:
            block = body.read(BLOCK)
            if not block:
                break
            done += len(block)
        if done != piece.size:
            raise OSError(f"s3://{bucket}/{piece.path}: {done} bytes from {piece.offset} on, not {piece.size}")
        on_bytes(done)
        return done

    total, seconds = _timed(read, pieces, threads, clock)
    return Reading("s3", total, seconds, None, threads)


def _timed(
    read: Callable[[Piece], int], pieces: Sequence[Piece], threads: int, clock: Callable[[], float]
) -> tuple[int, float]:
    begun = clock()
    with ThreadPoolExecutor(max(1, threads)) as pool:
        total = sum(pool.map(read, pieces))
    return total, clock() - begun


def resident(handle: int, offset: int, size: int) -> int | None:
    """Return how many bytes of a stretch of an open file lie in the page cache; None where the system does not say.

    Args:
        handle: File descriptor, open for reading.
        offset: First byte.
        size: Bytes, at least 1.
    """
    library = _libc()
    if library is None or size <= 0:
        return None
    first = offset - offset % mmap.ALLOCATIONGRANULARITY
    length = offset + size - first
    address = library.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, handle, first)
    if address in (None, ctypes.c_void_p(-1).value):
        return None
    try:
        pages = (length + mmap.PAGESIZE - 1) // mmap.PAGESIZE
        found = (ctypes.c_ubyte * pages)()
        if library.mincore(ctypes.c_void_p(address), ctypes.c_size_t(length), found) != 0:
            return None
        return min(size, sum(each & 1 for each in found) * mmap.PAGESIZE)
    finally:
        library.munmap(ctypes.c_void_p(address), ctypes.c_size_t(length))


def _libc() -> Any:
    name = ctypes.util.find_library("c")
    if name is None:
        return None
    library = ctypes.CDLL(name, use_errno=True)
    if not hasattr(library, "mincore"):
        return None
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    return library


def lake_mount(settings: Settings) -> str:
    """Return the folder under which POSIX code finds the lake's checkpoints; empty where this node mounts no lake.

    Args:
        settings: The node's settings.
    """
    lake = Path(rooted("/lake"))
    folder = lake / settings.lake_prefix.rstrip("/")
    return str(folder) if lake.is_mount() and folder.is_dir() else ""


EMITTED = "emitted"
LEFT = "left to the last node"


def emit_slowest(
    aws: Aws, settings: Settings, source: str, told: Mapping[str, Any], *, command_id: str, nodes: Sequence[str]
) -> str:
    """Emit the restore time, once: the slowest node's, by the node that is done last.

    Nobody trains before the last rank has its state. Each node leaves its time beside its answer; whoever then sees
    that of all nodes is the last one.

    Args:
        aws: Clients.
        settings: The node's settings.
        source: ``hot`` or ``lake``.
        told: What this node read: ``fingerprint``, ``seconds`` and ``missing``.
        command_id: Id of the command that asked all nodes; empty: this one alone.
        nodes: All of them.

    Returns:
        ``emitted``, ``left to the last node``, or why not: a metric that is refused is no reason to throw the
        measurement away.
    """
    if told["missing"]:
        return "not emitted: a part of the checkpoint was not read"
    try:
        seconds = float(told["seconds"])
        if command_id and len(nodes) > 1:
            times = _times(aws, settings.lake_bucket, f"{places.ANSWERS}{command_id}/drill-{source}", told, nodes)
            if times is None:
                return LEFT
            if {each["fingerprint"] for each in times} != {told["fingerprint"]}:
                return "not emitted: nodes read different checkpoints"
            seconds = max(float(each["seconds"]) for each in times)
        emit(aws, settings, source, seconds)
    except Exception as error:
        return f"not emitted: {error}"
    return EMITTED


def _times(
    aws: Aws, bucket: str, base: str, told: Mapping[str, Any], nodes: Sequence[str]
) -> list[dict[str, Any]] | None:
    """Leave this node's time, and return those of all where this is the node that emits; None where it is not."""
    s3 = aws("s3")
    mine = {"seconds": told["seconds"], "fingerprint": told["fingerprint"]}
    s3.put_object(Bucket=bucket, Key=f"{base}/{instance_id()}.json", Body=json.dumps(mine).encode())
    keys = [f"{base}/{node}.json" for node in nodes]
    if not lake.listing(aws, bucket, f"{base}/").keys() >= set(keys):
        return None
    times = lake.in_parallel(lambda key: json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read()), keys)
    try:  # two that are done in the same moment both see all, and so does one that gets the command twice
        s3.put_object(Bucket=bucket, Key=f"{base}/emitted", Body=b"", IfNoneMatch="*")
    except Exception as error:
        if code_of(error) in TAKEN:
            return None
        raise
    return times


def emit(aws: Aws, settings: Settings, source: str, seconds: float) -> None:
    """Emit a restore time.

    Args:
        aws: Clients.
        settings: The node's settings.
        source: ``hot`` or ``lake``.
        seconds: What reading took.

    Raises:
        ClientError: CloudWatch refused or failed.
    """
    metric = OURS["RestoreTime"]
    values = (settings.workload, source)
    aws("cloudwatch").put_metric_data(
        Namespace=metric.namespace,
        MetricData=[
            {
                "MetricName": metric.name,
                "Dimensions": [{"Name": name, "Value": value} for name, value in zip(SOURCE, values)],
                "Value": seconds,
                "Unit": metric.unit,
            }
        ],
    )
