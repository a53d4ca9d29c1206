"""As much of a workload as is readable: what checks of several sections look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_storage.workload.model import Compute, Workload
from training_storage.workload.section import Section
from training_storage.workload.storage import Lustre


@dataclass(frozen=True, slots=True)
class Draft:
    """As much of a workload as is readable.

    Attributes:
        data: The plain data of the whole file.
        sections: Sections by name, with None for each field that cannot be read.
    """

    data: Mapping[str, Any]
    sections: Mapping[str, Section]

    @classmethod
    def of(cls, data: Mapping[str, Any], workload: Workload | None) -> Draft:
        """Return the draft of a file; ``workload`` where the whole file is valid by itself."""
        found: dict[str, Section] = {}
        for name, field in Workload.fields.items():
            if field.section is None:
                continue
            given = None if workload is None else getattr(workload, name)
            found[name] = field.section.readable(data.get(name)) if given is None else given
        return cls(data, found)

    @property
    def compute(self) -> Compute:
        """The section of the fleet."""
        found = self.sections["compute"]
        assert isinstance(found, Compute)  # noqa: S101 - narrows for mypy
        return found

    @property
    def lustre(self) -> Lustre:
        """The section of the file system."""
        found = self.sections["lustre"]
        assert isinstance(found, Lustre)  # noqa: S101 - narrows for mypy
        return found

    def text(self, *path: str) -> str | None:
        """Return a value as text where it is one, even where its section has other problems."""
        value: Any = self.data
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        return value if isinstance(value, str) else None

    def given(self, *path: str) -> bool:
        """Whether the file gives a field."""
        value: Any = self.data
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        return value is not None
