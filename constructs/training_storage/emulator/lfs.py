"""``lfs`` of an emulated node: the subcommands that training needs, with the output of the real one.

``python -m training_storage.emulator.lfs hsm_state FILE...``; standard library only, so that it starts fast. Formats
are those of ``lustre/utils/lfs.c``. Where Lustre queues a request, it is carried out before this ends: ``hsm_action``
always says NOOP. As on Lustre, a restore that fails leaves the file released and says nothing.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import NoReturn

from training_storage.emulator.hsm import FileStates, State, find, mask

_NAMES = {"noarchive": "never_archive", "lost": "lost_from_hsm"}
_USED_MDT = 1 << 20


def _request(
    bucket: str, key: str, method: str, data: bytes | None = None, headers: dict[str, str] | None = None
) -> bytes:
    """Send one request to the emulated S3; its callers are told apart by their key, and nothing checks signatures."""
    # imported when needed: they take longer to load than everything else here, and most calls only look
    import urllib.request
    from urllib.parse import quote

    url = f"{os.environ['AWS_ENDPOINT_URL'].rstrip('/')}/{bucket}/{quote(key)}"
    region = os.environ.get("AWS_REGION", "us-east-1")
    caller = f"{os.environ.get('AWS_ACCESS_KEY_ID', 'testing')}/20300101/{region}/s3/aws4_request"
    signed = {"Authorization": f"AWS4-HMAC-SHA256 Credential={caller}, SignedHeaders=host, Signature=0"}
    # without a type of its own, urllib calls data a form, and it is read as one
    signed["Content-Type"] = "application/octet-stream"
    request = urllib.request.Request(url, data=data, method=method, headers={**signed, **(headers or {})})  # noqa: S310 - the emulator's own address
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        body: bytes = answer.read()
        if method == "PUT":
            return str(answer.headers.get("ETag", "")).encode()
        return body


def bring(files: FileStates, path: str) -> bool:
    """Bring the data of a released file back from the emulated S3.

    Args:
        files: The file system.
        path: Path below its root.

    Returns:
        Whether the data is here now; not where the object is gone or archived, or nothing more fits.

    Raises:
        FileNotFoundError: There is no such file.
    """
    state, dirty = files.state(path)
    if state is None or dirty or not state.released:
        return True
    limit = files.limit()
    if limit is not None and files.used() + state.size > limit:
        return False
    try:
        data = _request(state.bucket, state.key, "GET")
    except OSError:  # also every answer that is an error
        return False
    files.restored(path, data)
    return True


def _archive(files: FileStates, path: str) -> bool:
    link = files.link_of(path)
    if link is None:
        return False
    place = files.root / path
    found = place.stat()
    bucket, key = link
    meta = {
        "file-permissions": f"0{found.st_mode:o}",
        "file-owner": str(found.st_uid),
        "file-group": str(found.st_gid),
        "file-atime": f"{found.st_atime_ns}ns",
        "file-mtime": f"{found.st_mtime_ns}ns",
        "user-agent": "aws-fsx-lustre",
    }
    state, dirty = files.state(path)
    if state is not None and not dirty:
        return True
    try:
        headers = {f"x-amz-meta-{name}": value for name, value in meta.items()}
        etag = _request(bucket, key, "PUT", place.read_bytes(), headers).decode().strip('"')
    except OSError:
        return False
    files.record(State(path, bucket, key, etag, found.st_size, found.st_mtime_ns, found.st_ino, released=False))
    return True


def _fail(verb: str, path: str, number: int) -> NoReturn:
    print(f"lfs {verb}: cannot access '{path}': {os.strerror(number)}", file=sys.stderr)
    raise SystemExit(number)


def _located(verb: str, given: str) -> tuple[FileStates, str]:
    path = Path(given)
    if not os.path.lexists(path):
        print(
            f"can't get hsm state for {given}: {os.strerror(errno.ENOENT)}"
            if verb == "hsm_state"
            else f"Cannot stat {given}: {os.strerror(errno.ENOENT)}",
            file=sys.stderr,
        )
        raise SystemExit(errno.ENOENT)
    found = find(path)
    if found is None:
        _fail(verb, given, errno.ENOTTY)
    return found


def _state(given: list[str]) -> int:
    for path in given:
        files, relative = _located("hsm_state", path)
        flags = files.flags(relative) if (files.root / relative).is_file() else []
        words = "".join(f" {_NAMES.get(flag, flag)}" for flag in flags)
        print(f"{path}: (0x{mask(flags):08x}){words}{', archive_id:1' if flags else ''}", flush=True)
    return 0


def _action(given: list[str]) -> int:
    for path in given:
        _located("hsm_action", path)
        print(f"{path}: NOOP", flush=True)
    return 0


def _requested(verb: str, given: list[str]) -> int:
    # all of a call are queued, or none
    located = [(path, *_located(verb, path)) for path in given]
    for path, files, relative in located:
        if not (files.root / relative).is_file():
            print(f"'{path}' is not a regular file", file=sys.stderr)
            return errno.EINVAL
    for path, files, relative in located:
        if verb == "hsm_restore":
            bring(files, relative)
        elif verb == "hsm_archive":
            _archive(files, relative)
        elif not files.release(relative):
            print(f"Cannot send HSM request (use of {path}): {os.strerror(errno.EPERM)}", file=sys.stderr)
            return errno.EPERM
    return 0


def _df(given: list[str]) -> int:
    found = find(Path(given[0] if given else "/fsx"))
    if found is None:
        _fail("df", given[0] if given else "/fsx", errno.ENOTTY)
    files, _ = found
    name, capacity = files.described()
    used, mount = files.used() // 1024, (given[0] if given else "/fsx").rstrip("/")
    total = capacity // 1024
    print(f"{'UUID':<20} {'1K-blocks':>11} {'Used':>11} {'Available':>11} Use% Mounted on")
    for target, blocks, taken in (("MDT0000", _USED_MDT, 1024), ("OST0000", total, used)):
        share = round(100 * taken / blocks) if blocks else 100
        row = f"{name}-{target}_UUID"
        print(f"{row:<20} {blocks:>11} {taken:>11} {max(0, blocks - taken):>11} {share:>3}% {mount}[{target[:3]}:0]")
    share = round(100 * used / total) if total else 100
    print(f"\n{'filesystem_summary:':<20} {total:>11} {used:>11} {max(0, total - used):>11} {share:>3}% {mount}")
    return 0


def _find(given: list[str]) -> int:
    # enough of ``lfs find DIR [-type f|d|l] [--print0|-0]``
    kinds = {"f": Path.is_file, "d": Path.is_dir, "l": Path.is_symlink}
    roots, kind, end, words = [], None, "\n", iter(given)
    for word in words:
        if word in ("-type", "--type", "-t"):
            kind = kinds[next(words)]
        elif word in ("-print0", "--print0", "-0"):
            end = "\0"
        elif not word.startswith("-"):
            roots.append(Path(word))
    for root in roots:
        for place in [root, *sorted(root.rglob("*"))]:
            if kind is None or (kind(place) and (kind is Path.is_symlink or not place.is_symlink())):
                sys.stdout.buffer.write(os.fsencode(place) + end.encode())
    sys.stdout.flush()
    return 0


def _options(given: list[str]) -> list[str]:
    if "--" in given:
        at = given.index("--")
        return [word for word in given[:at] if not word.startswith("-")] + given[at + 1 :]
    return [word for word in given if not word.startswith("-")]


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand.

    Args:
        argv: Subcommand and arguments; those of the process when left out.

    Returns:
        Exit code: 0, or the number of an error as ``lfs`` has it.
    """
    given = sys.argv[1:] if argv is None else argv
    verb, rest = (given[0], given[1:]) if given else ("", [])
    if verb == "hsm_state":
        return _state(_options(rest))
    if verb == "hsm_action":
        return _action(_options(rest))
    if verb in ("hsm_restore", "hsm_archive", "hsm_release"):
        return _requested(verb, _options(rest))
    if verb == "df":
        return _df(_options(rest))
    if verb == "find":
        return _find(rest)
    print(f"lfs: the emulator has no '{verb}'", file=sys.stderr)
    return errno.EINVAL


if __name__ == "__main__":
    sys.exit(main())
