"""What is known of ten million objects in bounded memory: a private database of SQLite that spills to disk.

An object takes about 50 bytes there: hashes of its key, of its source and of its copy. Up to the size of the cache
nothing touches the disk, and the file vanishes with the process.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Final

from training_storage.errors import RefusedError
from training_storage.operations.transfer_model import fingerprint

CACHE_KIB: Final = 64 * 1024


class TransferIndex:
    """Objects of earlier runs and objects at the destination, by key."""

    def __init__(self) -> None:
        # An empty name: a temporary database of this connection, on disk only beyond its cache.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._script(
            f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{CACHE_KIB};"
            "CREATE TABLE object (key BLOB PRIMARY KEY, source BLOB, copy BLOB, there INTEGER) WITHOUT ROWID;"
            "CREATE TABLE held (key BLOB PRIMARY KEY, source INTEGER, right INTEGER, count INTEGER) WITHOUT ROWID;"
        )

    def _script(self, text: str) -> None:
        with _room():
            self._database.executescript(text)

    def _many(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        with _room():
            self._database.execute("BEGIN")
            self._database.executemany(statement, rows)
            self._database.execute("COMMIT")

    def close(self) -> None:
        """Drop everything."""
        self._database.close()

    def verified(self, objects: Iterable[tuple[str, int, str, str]]) -> None:
        """Note what earlier runs verified: key, size, ETag, ETag of the copy. A later one overwrites an earlier.

        Raises:
            RefusedError: There is no room for the temporary file.
        """
        self._many(
            "INSERT OR REPLACE INTO object VALUES (?, ?, ?, 0)",
            (
                (_hash(key), fingerprint(size, etag), fingerprint(size, copy_etag))
                for key, size, etag, copy_etag in objects
            ),
        )

    def there(self, objects: Iterable[tuple[str, int, str]]) -> None:
        """Note what the destination holds: key, size, ETag.

        Raises:
            RefusedError: There is no room for the temporary file.
        """
        self._many(
            "INSERT INTO object VALUES (?, NULL, ?, 1) ON CONFLICT (key) DO UPDATE SET"
            " there = CASE WHEN copy = excluded.copy THEN 2 ELSE 1 END",
            ((_hash(key), fingerprint(size, etag)) for key, size, etag in objects),
        )

    def state(self, key: str, size: int, etag: str) -> tuple[bool, str]:
        """Return whether the destination holds the key, and the fingerprint of its copy if that is verified.

        Verified means: an earlier run verified exactly this source, and the destination still holds that very copy.
        """
        row = self._row("SELECT source, copy, there FROM object WHERE key = ?", key)
        if row is None:
            return False, ""
        source, copy, there = row
        return there > 0, copy.hex() if there == 2 and source == fingerprint(size, etag) else ""

    def held(self, number: int, keys: Iterable[tuple[str, bool]]) -> None:
        """Note what one of several sources holds.

        Args:
            number: Index of the source.
            keys: Each with whether this source is the one that its key belongs to.

        Raises:
            RefusedError: There is no room for the temporary file.
        """
        self._many(
            "INSERT INTO held VALUES (?, ?, ?, 1) ON CONFLICT (key) DO UPDATE SET count = count + 1, source = CASE"
            " WHEN excluded.right THEN excluded.source WHEN held.right THEN held.source"
            " ELSE MIN(held.source, excluded.source) END, right = MAX(held.right, excluded.right)",
            ((_hash(key), number, is_right) for key, is_right in keys),
        )

    def holder(self, key: str, number: int) -> tuple[int, int]:
        """Return which source speaks for a key, and how many hold it; ``number``, noted now, where that was unknown."""
        row = self._row("SELECT source, count FROM held WHERE key = ?", key)
        if row is None:
            self.held(number, [(key, False)])
            return number, 1
        return row[0], row[1]

    def _row(self, statement: str, key: str) -> Any:
        with _room():
            return self._database.execute(statement, (_hash(key),)).fetchone()


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise RefusedError(
            f"the transfer can't keep what it knows in a temporary file: {error}; what was verified is written down; "
            "fix: set TMPDIR to a folder with room for about 50 bytes an object"
        ) from error


def _hash(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=16).digest()
