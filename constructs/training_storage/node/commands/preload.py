"""``agent preload``: load the data of files from S3 into the file system, before anybody reads them.

Nothing at boot calls it: a node that waited for terabytes would not be ready for hours (field report 8).
"""

from __future__ import annotations

import argparse
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, Any, Callable

from .. import hsm
from ..aws import MISSING, Aws, code_of
from ..errors import Refusal
from ..preload import PROCESSES, preload, real
from ..preload_files import Found, Share, below_mount, lines_of, listed, walk
from ..preload_reasons import shown
from ..roots import instance_id, rooted
from ..settings import Settings

HELP = "load the data of files from S3 into the file system"

LOCK = "/run/training-storage/preload.lock"
"""One preload at a time on a node: a second one waits, and then finds most of its files there."""

MOST_PROCESSES = 64

_LOOK_S = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--path", action="append", default=[], help="directory or file; left out: every link that imports"
    )
    parser.add_argument("--list-key", default="", help="object of the lake with one path a line, in place of --path")
    parser.add_argument("--share", default="1/1", help="which part of the files this node loads: I/N")
    parser.add_argument("--among", default="", help="instances that share the files, in place of --share: ID,ID,...")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="calls of lfs at once")
    parser.add_argument("--dry-run", action="store_true", help="count, and load nothing")


def run(
    arguments: argparse.Namespace, settings: Settings, aws: Aws, progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Load, and return the counts.

    Raises:
        Refusal: There is no file system, a path leads out of it, or the data does not fit.
    """
    if not settings.mount or settings.tier == "nvme":
        raise Refusal(
            f"workload {settings.workload} has no Lustre file system on its nodes, so there is nothing to load"
        )
    if not 1 <= arguments.processes <= MOST_PROCESSES:
        raise Refusal(f"--processes is {arguments.processes}; allowed: 1 to {MOST_PROCESSES}")
    mount = rooted(settings.mount)
    if not os.path.isdir(mount):  # noqa: PTH112 - the room's modules load nothing that they can spare
        raise Refusal(f"{settings.mount} is not there: the file system is not mounted on this node (yet)")
    among = arguments.among
    share = Share.among(instance_id(), among) if among else Share.parse(arguments.share)
    share = replace(share, mount=mount.rstrip("/"))
    with _source(arguments, settings, aws, mount) as source, _alone(progress):
        return preload(
            aws,
            real(settings, mount),
            source,
            share=share,
            dry_run=arguments.dry_run,
            processes=arguments.processes,
            run=hsm.run_program,
            sleep=time.sleep,
            statvfs=os.statvfs,
            report=progress,
            # As people know it: with the mount of a node.
            name=lambda path: shown(settings.mount + path[len(mount) :] if path.startswith(mount) else path),
        )


@contextmanager
def _source(
    arguments: argparse.Namespace, settings: Settings, aws: Aws, mount: str
) -> Iterator[Callable[[], Iterator[Found]]]:
    if arguments.list_key:
        if arguments.path:
            raise Refusal("--path and --list-key exclude each other")
        with tempfile.TemporaryFile() as stream:
            _fetch(aws, settings.lake_bucket, arguments.list_key, stream)
            yield lambda: listed(_below(lines_of(stream), settings.mount), mount)
        return
    roots = [below_mount(_inner(each, settings.mount), mount) for each in arguments.path or _default(settings)]
    for given, each in zip(arguments.path, roots):
        if not os.path.lexists(each):
            raise Refusal(
                f"{given} is not on the file system; fix: check the path, or import the listing first with "
                f"`training-storage preload {settings.workload} --metadata`"
            )
    yield lambda: walk(roots, mount)


def _default(settings: Settings) -> list[str]:
    """Return the directories of links that import, less that of checkpoints: a run resumes from one, not from all."""
    checkpoints = settings.checkpoints.rstrip("/")
    found = [
        each.path
        for each in settings.links
        if each.imports and not (checkpoints and settings.mount.rstrip("/") + each.path.rstrip("/") == checkpoints)
    ]
    if not found:
        raise Refusal("no link of the file system imports anything; fix: say what to load with --path")
    return found


def _inner(path: str, mount: str) -> str:
    """Return a path relative to the mount, whether it was given with it or without."""
    base = mount.rstrip("/")
    return path[len(base) :] or "/" if path == base or path.startswith(base + "/") else path


def _below(lines: Iterator[bytes], mount: str) -> Iterator[bytes]:
    for line in lines:
        yield os.fsencode(_inner(os.fsdecode(line), mount))


def _fetch(aws: Aws, bucket: str, key: str, stream: IO[bytes]) -> None:
    try:
        body = aws("s3").get_object(Bucket=bucket, Key=key)["Body"]
    except Exception as error:
        if code_of(error) in MISSING:
            raise Refusal(f"the list s3://{bucket}/{key} is not there; fix: run the same command again") from error
        raise
    while True:
        part = body.read(1 << 20)
        if not part:
            return
        stream.write(part)


@contextmanager
def _alone(progress: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Wait until no other preload runs on this node; goes on without where no lock can be made."""
    try:
        os.makedirs(os.path.dirname(rooted(LOCK)), exist_ok=True)  # noqa: PTH103, PTH120 - as above
        handle = os.open(rooted(LOCK), os.O_CREAT | os.O_RDWR, 0o644)
    except OSError:
        yield
        return
    try:
        while not _locked(handle):
            progress({"phase": "waiting for another preload on this node"})
            time.sleep(_LOOK_S)
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
