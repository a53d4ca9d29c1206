"""What every subject of a rule carries: the facts that it is held against."""

from __future__ import annotations

from dataclasses import dataclass, field

from training_storage.catalog import Catalog, default_catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Base of what rules look at.

    Attributes:
        catalog: Facts to hold it against, such as those of ``load_catalog``. None: those that come with the package.
    """

    catalog: Catalog | None = field(default=None, compare=False, repr=False)


def catalog_of(*subjects: Subject) -> Catalog:
    """Return the facts that subjects are held against: those of the first that has some, else the package's."""
    for each in subjects:
        if each.catalog is not None:
            return each.catalog
    return default_catalog()
