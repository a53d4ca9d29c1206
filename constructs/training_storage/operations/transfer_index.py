"""What is known of ten million objects in bounded memory: a private database of SQLite that spills to disk.

An object takes about 50 bytes there: hashes of its key, of its source and of its copy. Up to the size of the cache
nothing touches the disk, and the file vanishes with the process.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from training_storage.operations.transfer_model import fingerprint

CACHE_KIB: Final = 64 * 1024


class TransferIndex:
    """Objects of earlier runs and objects at the destination, by key."""

    def __init__(self) -> None:
        # An empty name: a temporary database of this connection, on disk only beyond its cache.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.executescript(
            f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{CACHE_KIB};"
            "CREATE TABLE object (key BLOB PRIMARY KEY, source BLOB, copy BLOB, there INTEGER) WITHOUT ROWID;"
            "CREATE TABLE taken (key BLOB PRIMARY KEY) WITHOUT ROWID;"
        )

    def close(self) -> None:
        """Drop everything."""
        self._database.close()

    def verified(self, objects: Iterable[tuple[str, int, str, str]]) -> None:
        """Note what earlier runs verified: key, size, ETag, ETag of the copy. A later one overwrites an earlier."""
        self._database.execute("BEGIN")
        self._database.executemany(
            "INSERT OR REPLACE INTO object VALUES (?, ?, ?, 0)",
            (
                (_hash(key), fingerprint(size, etag), fingerprint(size, copy_etag))
                for key, size, etag, copy_etag in objects
            ),
        )
        self._database.execute("COMMIT")

    def there(self, objects: Iterable[tuple[str, int, str]]) -> None:
        """Note what the destination holds: key, size, ETag."""
        self._database.execute("BEGIN")
        self._database.executemany(
            "INSERT INTO object VALUES (?, NULL, ?, 1) ON CONFLICT (key) DO UPDATE SET"
            " there = CASE WHEN copy = excluded.copy THEN 2 ELSE 1 END",
            ((_hash(key), fingerprint(size, etag)) for key, size, etag in objects),
        )
        self._database.execute("COMMIT")

    def state(self, key: str, size: int, etag: str) -> tuple[bool, str]:
        """Return whether the destination holds the key, and the fingerprint of its copy if that is verified.

        Verified means: an earlier run verified exactly this source, and the destination still holds that very copy.
        """
        row = self._database.execute("SELECT source, copy, there FROM object WHERE key = ?", (_hash(key),)).fetchone()
        if row is None:
            return False, ""
        source, copy, there = row
        return there > 0, copy.hex() if there == 2 and source == fingerprint(size, etag) else ""

    def take(self, key: str) -> bool:
        """Note that a key is being looked after; False where it was noted before."""
        before = self._database.total_changes
        self._database.execute("INSERT OR IGNORE INTO taken VALUES (?)", (_hash(key),))
        return self._database.total_changes > before


def _hash(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=16).digest()
