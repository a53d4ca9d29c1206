"""Why a file was not loaded, in words that say what to do; S3 is asked where the file system only says that it failed.

Lustre drops the reason of a restore that fails: the action is over, and the file is as it was. The object itself tells
the common reasons apart.
"""

from __future__ import annotations

import os
import threading

from .aws import MISSING, Aws, code_of
from .settings import Settings

WORDS = {
    "archived": "the object is archived (S3ObjectInUnsupportedTier): restore it in S3 first, with aws s3api "
    "restore-object or a batch job, then run the same command again",
    "no-space": "no space left: release data that is exported, or give the file system more capacity, then run the "
    "same command again",
    "not-posix": "its key is no path (empty part, . or .., or a trailing slash): FSx never imports it; copy the object "
    "to a key that is one",
    "not-linked": "no link to S3 holds it, so there is nothing to load it from; the only copy was here",
    "not-imported": "the object is in S3, and its name is not on the file system: run `training-storage preload NAME "
    "--metadata`, then the same command again",
    "gone-from-s3": "the object is no longer in S3, so there is nothing to load it from",
    "denied": "S3 refuses to tell of the object: check the bucket policy and the key's policy for the node's role and "
    "for the file system's service-linked role",
    "vanished": "there is no such file",
    "not-a-file": "it is a directory, a link or a special file; a list names regular files",
    "outside": "it does not lie below the mount",
    "busy": "the file system refused more requests for too long: run the same command again, from fewer nodes",
    "stalled": "nothing moved for an hour: look at the file system's log group and its link, then run the same command "
    "again",
    "other": "see the text of each file",
}
"""Codes, and what each means."""

FINAL = frozenset({"archived", "no-space", "not-linked", "not-imported", "gone-from-s3", "not-posix"})
"""Reasons that trying again does not mend. Not ``denied``: FSx may read what the node's role may not ask for."""

MOST_ASKED = 2_000
"""Objects asked for in one run: with more failures the pattern is known, and each costs a request."""

_ARCHIVES = frozenset({"GLACIER", "DEEP_ARCHIVE"})
_TEXTS = (
    ("No space left on device", "no-space"),
    ("Disk quota exceeded", "no-space"),
    ("S3ObjectInUnsupportedTier", "archived"),
    ("No such file or directory", "vanished"),
    ("is not a regular file", "not-a-file"),
    ("Permission denied", "denied"),
)


class Reasons:
    """Finds reasons; safe in several threads.

    Args:
        aws: Clients.
        settings: Links and mount.
    """

    def __init__(self, aws: Aws, settings: Settings) -> None:
        self._aws, self._settings = aws, settings
        self._lock = threading.Lock()
        self._asked = 0

    def of(self, path: str, text: str) -> tuple[str, str]:
        """Return code and words of one failure.

        Args:
            path: Absolute path.
            text: What ``lfs`` said; empty where the restore only did not happen.
        """
        by_text = next((code for part, code in _TEXTS if part in text), "")
        if by_text in ("no-space", "not-a-file"):
            return by_text, text
        by_object = self.object(path, missing=by_text == "vanished")
        if by_object:
            return by_object, text
        return by_text or "other", text or "the restore ended and the data is not there"

    def object(self, path: str, *, missing: bool) -> str:
        """Return the reason that lies with the object; empty where S3 has it ready, or does not answer.

        Args:
            path: Absolute path.
            missing: Whether the file system has no such file.
        """
        link = self._settings.link_of(path)
        if link is None:
            return "" if missing else "not-linked"
        base = self._settings.mount.rstrip("/") + "/" + link.path.strip("/")
        inner = path[len(base.rstrip("/")) :].lstrip("/")
        try:
            key = (link.prefix + inner).encode("utf-8").decode("utf-8")
        except UnicodeError:
            return ""  # the name is no UTF-8, so no key can be asked for
        with self._lock:
            self._asked += 1
            if self._asked > MOST_ASKED:
                return ""
        try:
            about = self._aws("s3").head_object(Bucket=link.bucket, Key=key)
        except Exception as error:
            # A reason that cannot be found is no reason to stop.
            code = code_of(error)
            if code in MISSING:
                return "" if missing else "gone-from-s3"
            return "denied" if code in ("403", "AccessDenied", "Forbidden") else ""
        ready = 'ongoing-request="false"' in str(about.get("Restore", ""))
        if about.get("StorageClass") in _ARCHIVES and not ready:
            return "archived"
        if str(about.get("ArchiveStatus", "")) and not ready:  # the archive tiers of Intelligent-Tiering
            return "archived"
        return "not-imported" if missing else ""


def is_path(name: str) -> bool:
    """Return whether a listed name is one that FSx can import: no empty part, ``.``, ``..`` or trailing slash."""
    parts = name.strip("/").split("/") if name.strip("/") else [""]
    return not name.endswith("/") and all(each not in ("", ".", "..") for each in parts) and "\0" not in name


def shown(path: str) -> str:
    r"""Return a path as text that every terminal and every JSON can hold: bytes that are no UTF-8 as ``\xff``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
