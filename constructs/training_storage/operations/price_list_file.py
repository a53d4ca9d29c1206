"""The catalog file that a refresh of prices writes: what is in it stays, but the rows of an earlier refresh."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from training_storage.catalog import load_catalog
from training_storage.catalog.files import read
from training_storage.errors import CatalogError, Problem

MARK: Final = "AWS Price List: "
"""How the source of a row begins that a refresh wrote."""

Rows = Mapping[str, dict[str, Any]]


class PriceFile:
    """A catalog file as YAML or JSON, by its name; it need not exist yet.

    Args:
        path: The file. A link is followed, so that it stays one.

    Raises:
        CatalogError: It is there and is no catalog file, has another name than ``.json``, ``.yaml`` or ``.yml``, or its
            folder is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._real = Path(os.path.realpath(path))
        if self._real.suffix.lower() not in {".json", ".yaml", ".yml"}:
            allowed = "a name that ends in .json, .yaml or .yml"
            raise self._refuse("is neither JSON nor YAML by its name", allowed=allowed)
        if not self._real.parent.is_dir():
            raise self._refuse("cannot be written: its folder is not there", allowed="a folder that exists")
        if not os.access(self._real.parent, os.W_OK):  # said before the first question, not after the last
            raise self._refuse("cannot be written: its folder is not open to you", allowed="a folder of yours")
        if self._real.exists():
            load_catalog(path)

    def own_items(self, region: str) -> frozenset[str]:
        """Return the items of a region that stand in the file and that no refresh wrote."""
        rows = self._content().get("prices", {}).get(region) or {}
        return frozenset(item for item, row in rows.items() if not _is_ours(row))

    def write(self, region: str, rows: Rows) -> None:
        """Put the rows of a region in the place of those of an earlier refresh; whole or not at all.

        Args:
            region: Region of the rows.
            rows: Rows by item. A row that the file's owner wrote stays, and is not replaced.

        Raises:
            CatalogError: The file cannot be read or written.
        """
        try:
            with self._alone():
                self._write(region, rows)
        except OSError as error:
            raise self._refuse(f"cannot be written: {(error.strerror or str(error)).lower()}") from error

    def _write(self, region: str, rows: Rows) -> None:
        content = self._content()
        prices = content.setdefault("prices", {})
        before = prices.get(region) or {}
        for item in [item for item, row in before.items() if _is_ours(row)]:
            del before[item]  # kept as an object, so that a YAML file keeps its comments
        before.update({item: row for item, row in rows.items() if item not in before})
        prices[region] = before
        with self._beside() as temporary:
            self._dump(content, temporary)
            load_catalog(temporary)
            temporary.replace(self._real)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other refreshes of files in the folder waiting: of two at once, each would lose the other's region.

        The lock is on the folder, which leaves no file behind; where the system has none of this kind there is none.
        """
        try:
            import fcntl
        except ImportError:
            yield
            return
        folder = os.open(self._real.parent, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # some network file systems have no locks
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _content(self) -> dict[str, Any]:
        if not self._real.exists():
            return {}
        if self._real.suffix.lower() == ".json":
            content = read(self.path).content
        else:
            from ruamel.yaml import YAML

            read(self.path)  # size, text and form, with our own words for what is wrong
            yaml = YAML(typ="rt")
            yaml.preserve_quotes = True
            content = yaml.load(self._real.read_text(encoding="utf-8-sig"))
        if content is None:
            return {}
        if not isinstance(content, dict) or not isinstance(content.get("prices", {}), dict):
            raise self._refuse("holds no tables", allowed="a catalog file")
        return content

    @contextlib.contextmanager
    def _beside(self) -> Iterator[Path]:
        """Yield a file in the same folder, with the rights of the file or of a new one; it is gone afterwards."""
        handle, name = tempfile.mkstemp(prefix=f".{self._real.stem}.", suffix=self._real.suffix, dir=self._real.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            if self._real.exists():
                mode = self._real.stat().st_mode & 0o7777
            else:
                mask = os.umask(0)
                os.umask(mask)
                mode = 0o666 & ~mask
            temporary.chmod(mode)
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def _dump(self, content: dict[str, Any], path: Path) -> None:
        with path.open("w", encoding="utf-8") as stream:
            if path.suffix.lower() == ".json":
                json.dump(content, stream, indent=2, ensure_ascii=False)
                stream.write("\n")
            else:
                from ruamel.yaml import YAML

                yaml = YAML(typ="rt")
                yaml.width = 120
                yaml.dump(content, stream)
            stream.flush()
            os.fsync(stream.fileno())

    def _refuse(self, what: str, *, allowed: str = "") -> CatalogError:
        problem = Problem(what=f"the file {what}", allowed=allowed, file=str(self.path))
        return CatalogError(problem, where=str(self.path))


def _is_ours(row: object) -> bool:
    source = row.get("source") if isinstance(row, dict) else None
    return isinstance(source, dict) and str(source.get("text", "")).startswith(MARK)
