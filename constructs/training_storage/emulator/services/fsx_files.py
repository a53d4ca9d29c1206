"""Files of emulated Lustre file systems: real directories, and what FSx does between them and the emulated S3.

Metadata of objects is that of the user guide (LustreGuide, "POSIX metadata support for data repositories"); error codes
are those of its page on task reports and logs. Not done: objects for directories, extended attributes, stripes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from training_storage.emulator import world
from training_storage.emulator.hsm import FileStates, State, sparse

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html, .../UserGuide/qfacts.html
_MAX_KEY_BYTES = 1024
_MAX_OBJECT_BYTES = 5 * 1024**4
_ARCHIVED = ("GLACIER", "DEEP_ARCHIVE")
_META = "x-amz-meta-"


def describe(file_system_id: str, mount_name: str, capacity: int, associations: list[dict[str, Any]]) -> None:
    """Let processes on nodes know a file system; again after each change."""
    links = [link_of(item) for item in associations]
    states(file_system_id).describe(
        mount_name=mount_name, capacity=capacity, links=[[link.path, link.bucket, link.prefix] for link in links]
    )


def states(file_system_id: str) -> FileStates:
    """Return the files of a file system."""
    found = FileStates(world.current().folder, file_system_id)
    found.create()
    return found


def remove(file_system_id: str) -> None:
    """Delete the files of a file system with it."""
    if world.running():
        FileStates(world.current().folder, file_system_id).remove()


def normal(path: str) -> str:
    """Return a path below the root of a file system, without slashes at its ends; empty for the root."""
    return path.strip("/")


def within(inner: str, outer: str) -> bool:
    """Say whether a normal path is another one or lies below it."""
    return not outer or inner == outer or inner.startswith(outer + "/")


@dataclass(frozen=True)
class Link:
    """An association, as the files see it.

    Attributes:
        path: Path of its directory below the root, without a leading slash.
        bucket: Bucket.
        prefix: Prefix, with a slash at its end; empty for the whole bucket.
        exports: Events that are exported without a task.
        imports: Events that are imported without a task.
    """

    path: str
    bucket: str
    prefix: str
    exports: frozenset[str]
    imports: frozenset[str]

    def key(self, path: str) -> str:
        """Return the key of a file below the link."""
        return self.prefix + path[len(self.path) :].lstrip("/")

    def file(self, key: str) -> str:
        """Return the path of an object below the root of the file system."""
        return f"{self.path}/{key[len(self.prefix) :]}".strip("/")


def link_of(association: dict[str, Any]) -> Link:
    """Return what an association of the API means."""
    bucket, _, prefix = association["DataRepositoryPath"].removeprefix("s3://").partition("/")
    policies = association.get("S3") or {}
    return Link(
        normal(association["FileSystemPath"]),
        bucket,
        prefix.rstrip("/") + "/" if prefix.strip("/") else "",
        frozenset((policies.get("AutoExportPolicy") or {}).get("Events") or ()),
        frozenset((policies.get("AutoImportPolicy") or {}).get("Events") or ()),
    )


def walk(root: Path, path: str = "") -> Iterator[str]:
    """Yield the files and symbolic links at or below a path, as paths below the root, in order."""
    place = root / path
    if place.is_symlink() or not place.is_dir():
        if place.is_symlink() or place.is_file():
            yield path
        return
    for name in sorted(entry.name for entry in os.scandir(place)):
        yield from walk(root, f"{path}/{name}" if path else name)


def changed(files: FileStates, path: str) -> bool:
    """Say whether a file is not in the bucket as it is here."""
    state, dirty = files.state(path)
    return state is None or dirty


def _bucket(name: str) -> tuple[Any, Any] | None:
    from moto.s3.models import s3_backends

    if name not in s3_backends.bucket_accounts:
        return None
    partition, account = s3_backends.bucket_accounts[name]
    backend = s3_backends[account][partition]
    return backend, backend.buckets[name]


def put_object(bucket: str, key: str, data: bytes) -> None:
    """Write an object of FSx's own, such as a report; nothing happens where the bucket is gone."""
    found = _bucket(bucket)
    if found is not None:
        found[0].put_object(bucket, key, data)


def export_file(files: FileStates, link: Link, path: str) -> str | None:
    """Write one file to the bucket.

    Returns:
        The documented code of why it was not; None when it was.
    """
    place, key = files.root / path, link.key(path)
    try:
        key_bytes = len(key.encode("utf-8"))
    except UnicodeEncodeError:
        return "S3Error"
    if key_bytes > _MAX_KEY_BYTES:
        return "PathSizeTooLong"
    found = _bucket(link.bucket)
    if found is None:
        return "S3AccessDenied"
    state, dirty = files.state(path)
    before = place.lstat()
    if before.st_size > _MAX_OBJECT_BYTES:
        return "FileSizeTooLarge"
    if state is not None and not dirty and state.released:
        return None
    data = os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes()
    made = found[0].put_object(link.bucket, key, data)
    meta = {
        "file-permissions": f"0{before.st_mode:o}",
        "file-owner": str(before.st_uid),
        "file-group": str(before.st_gid),
        "file-atime": f"{before.st_atime_ns}ns",
        "file-mtime": f"{before.st_mtime_ns}ns",
        "user-agent": "aws-fsx-lustre",
    }
    made.set_metadata({_META + name: value for name, value in meta.items()})
    etag = made.etag.strip('"')
    files.record(State(path, link.bucket, key, etag, before.st_size, before.st_mtime_ns, before.st_ino, released=False))
    return None


def objects(link: Link, below: str = "") -> dict[str, Any]:
    """Return the current objects of a link by key; folders are left out.

    Args:
        link: The link.
        below: Only keys that begin so.
    """
    found = _bucket(link.bucket)
    if found is None:
        return {}
    prefix = below or link.prefix
    return {
        key: item
        for key, item in sorted(found[1].keys.items())
        if key.startswith(prefix) and key != link.prefix and not key.endswith("/") and hasattr(item, "storage_class")
    }


def is_archived(item: Any) -> bool:
    """Say whether an object's bytes cannot be read: archived, and not brought back."""
    return item.storage_class in _ARCHIVED and 'ongoing-request="false"' not in item.response_dict.get(
        "x-amz-restore", ""
    )


def import_object(files: FileStates, link: Link, key: str, item: Any) -> str | None:
    """Make the file of an object, without its data.

    Returns:
        The documented code of why there is none; None when there is one.
    """
    relative = key[len(link.prefix) :]
    if any(part in ("", ".", "..") or "\0" in part for part in relative.split("/")):
        return "S3ObjectPathNotPosixCompliant"
    path = link.file(key)
    place = files.root / path
    meta = {name.removeprefix(_META): str(value) for name, value in item.metadata.items() if name.startswith(_META)}
    mode = _number(meta.get("file-permissions", ""), 8) or 0o100755
    known = files.recorded(path)
    if known is not None and known.etag == item.etag.strip('"') and os.path.lexists(place):
        return None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and not place.is_symlink():
            return "S3ObjectPathNotPosixCompliant"
        place.unlink(missing_ok=True)
        if stat.S_ISLNK(mode):
            if is_archived(item):
                return "S3SymlinkInUnsupportedTier"
            place.symlink_to(os.fsdecode(bytes(item.value)))
        else:
            sparse(place, item.size)
            place.chmod(stat.S_IMODE(mode) & 0o1777)
    except (FileExistsError, NotADirectoryError):
        return "S3ObjectPathNotPosixCompliant"
    except OSError:
        return "PathSizeTooLong"
    with suppress(PermissionError):
        os.chown(place, _number(meta.get("file-owner", "")), _number(meta.get("file-group", "")), follow_symlinks=False)
    written = int(_epoch(item.last_modified) * 1e9)
    times = [_nanoseconds(meta.get(f"file-{name}")) or written for name in ("atime", "mtime")]
    os.utime(place, ns=(times[0], times[1]), follow_symlinks=False)
    made = place.lstat()
    etag, released = item.etag.strip('"'), not stat.S_ISLNK(mode)
    files.record(State(path, link.bucket, key, etag, made.st_size, made.st_mtime_ns, made.st_ino, released))
    return None


def _epoch(moment: datetime) -> float:
    # moto's moments have no zone and mean UTC
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _number(text: str, base: int = 10) -> int:
    try:
        return int(text, base)
    except ValueError:
        return 0


def _nanoseconds(text: str | None) -> int:
    # a time without "ns" is read as milliseconds
    if not text:
        return 0
    return _number(text[:-2]) if text.endswith("ns") else _number(text) * 1_000_000


def restore(file_system_id: str, path: str) -> None:
    """Bring the data of a released file back, as reading it on a node would.

    Raises:
        OSError: Its object is gone or archived.
    """
    files = states(file_system_id)
    state, dirty = files.state(path)
    if state is None or dirty or not state.released:
        return
    found = _bucket(state.bucket)
    item = None if found is None else found[1].keys.get(state.key)
    if item is None or not hasattr(item, "storage_class") or is_archived(item):
        raise OSError(f"{path}: the object s3://{state.bucket}/{state.key} cannot be read")
    files.restored(path, bytes(item.value))


def due_exports(files: FileStates, link: Link) -> Iterator[tuple[str, str]]:
    """Yield what automatic export of a link has not done: the event and the path."""
    for path in walk(files.root, link.path):
        known = files.recorded(path)
        event = "NEW" if known is None else "CHANGED"
        if event in link.exports and changed(files, path):
            yield event, path
    if "DELETED" in link.exports:
        for state in files.all_recorded():
            if within(state.path, link.path) and not os.path.lexists(files.root / state.path):
                yield "DELETED", state.path


def due_imports(files: FileStates, link: Link) -> Iterator[tuple[str, str, Any]]:
    """Yield what automatic import of a link has not done: the event, the key and the object (None: it is gone)."""
    if not link.imports:
        return
    there = objects(link)
    for key, item in there.items():
        known = files.recorded(link.file(key))
        if known is None:
            event = "NEW"
        elif known.etag != item.etag.strip('"'):
            event = "CHANGED"
        else:
            continue
        if event in link.imports:
            yield event, key, item
    if "DELETED" in link.imports:
        for state in files.all_recorded():
            if within(state.path, link.path) and state.key not in there and os.path.lexists(files.root / state.path):
                yield "DELETED", state.key, None


def settle(file_system_id: str, links: list[Link], failing: dict[str, str] | None = None) -> list[str]:
    """Do what FSx does by itself: automatic export first, then automatic import.

    Args:
        file_system_id: The file system.
        links: Its links.
        failing: Codes of files that shall not be exported or imported, by path.

    Returns:
        What was done, such as ``export checkpoints/step-1/model.pt``.
    """
    files, done, failing = states(file_system_id), [], failing or {}
    for link in links:
        for event, path in list(due_exports(files, link)):
            if path in failing:
                continue
            if event == "DELETED":
                found, state = _bucket(link.bucket), files.recorded(path)
                if found is not None and state is not None:
                    with suppress(KeyError):
                        found[0].delete_object(link.bucket, state.key)
                files.forget(path)
                done.append(f"delete s3://{link.bucket}/{link.key(path)}")
            elif export_file(files, link, path) is None:
                done.append(f"export {path}")
        for event, key, item in list(due_imports(files, link)):
            path = link.file(key)
            if path in failing:
                continue
            if event == "DELETED":
                with suppress(OSError):
                    (files.root / path).unlink()
                files.forget(path)
                done.append(f"remove {path}")
            elif import_object(files, link, key, item) is None:
                done.append(f"import {path}")
    return done


def queue_age(file_system_id: str, links: list[Link], publisher: str) -> float | None:
    """Return the age of the oldest change that waits, in seconds; None where no link has the policy.

    Args:
        file_system_id: The file system.
        links: Its links.
        publisher: ``AutoExport`` or ``AutoImport``.
    """
    files, oldest = states(file_system_id), None
    with_policy = [link for link in links if (link.exports if publisher == "AutoExport" else link.imports)]
    if not with_policy:
        return None
    for link in with_policy:
        if publisher == "AutoExport":
            times = [
                (files.root / path).lstat().st_ctime for event, path in due_exports(files, link) if event != "DELETED"
            ]
        else:
            times = [_epoch(item.last_modified) for _, _, item in due_imports(files, link) if item is not None]
        oldest = min([*times, *([] if oldest is None else [oldest])], default=oldest)
    return 0.0 if oldest is None else max(1.0, world.now() - oldest)
