"""The catalog as the rest of the product reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from training_storage.catalog.lustre import LustreCatalog
from training_storage.catalog.model import InstanceType, ReferenceWorkload, Region
from training_storage.catalog.object_storage import ObjectStorageCatalog
from training_storage.catalog.prices import PriceBook
from training_storage.catalog.training import TrainingCatalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """Every fact that plans and checks rest on.

    Attributes:
        instance_types: EC2 accelerator types by name.
        image_parameters: SSM public parameters of machine images by (image family, architecture).
        regions: AWS regions by name.
        reference_workloads: MLPerf Storage rows.
        prices: The price book.
        lustre: FSx for Lustre.
        object_storage: S3, S3 Express One Zone, S3 Files and Mountpoint.
        training: Latencies of the tiers, and failure rates.
    """

    instance_types: Mapping[str, InstanceType] = field(hash=False)
    image_parameters: Mapping[tuple[str, str], str] = field(hash=False)
    regions: Mapping[str, Region] = field(hash=False)
    reference_workloads: tuple[ReferenceWorkload, ...] = field(hash=False)
    prices: PriceBook = field(hash=False)
    lustre: LustreCatalog = field(hash=False)
    object_storage: ObjectStorageCatalog = field(hash=False)
    training: TrainingCatalog = field(hash=False)

    def nearest_instance_type(self, name: str) -> str | None:
        """Return the known type whose name is nearest to a misspelt one, or None where none is near."""
        return nearest(name, self.instance_types)

    def nearest_region(self, name: str) -> str | None:
        """Return the known region whose name is nearest to a misspelt one, or None where none is near."""
        return nearest(name, self.regions)

    def reference(self, model: str, accelerator: str | None) -> ReferenceWorkload | None:
        """Return the MLPerf Storage row of a model on an accelerator such as ``H100``, or None where there is none."""
        for row in self.reference_workloads:
            if row.model == model and row.accelerator == accelerator:
                return row
        return None

    def reference_models(self) -> tuple[str, ...]:
        """Return the models that have a row, in the order of the catalog."""
        return tuple(dict.fromkeys(row.model for row in self.reference_workloads))

    def reference_accelerators(self, model: str) -> tuple[str, ...]:
        """Return the accelerators that have a row for a model; empty for an unknown model."""
        return tuple(row.accelerator for row in self.reference_workloads if row.model == model)

    def image_parameter(self, instance_type: InstanceType | str) -> str | None:
        """Return the SSM public parameter that names the newest image for a type.

        Amazon Linux 2023 of the type's image family and architecture.

        Args:
            instance_type: A row, or the name of a type.

        Returns:
            The parameter name, or None where no image is known: the user then gives one.
        """
        row = self.instance_types.get(instance_type) if isinstance(instance_type, str) else instance_type
        if row is None or row.image_family is None:
            return None
        return self.image_parameters.get((row.image_family, row.architecture))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to a misspelt one, or None where none is near."""
    from difflib import get_close_matches  # only when something is wrong

    by_lower = {each.lower(): each for each in sorted(known)}
    lower = name.lower()
    found = get_close_matches(lower, by_lower, n=5, cutoff=0.5)
    # difflib finds us-esat-1 as near to us-west-1 as to us-east-1
    swapped = [each for each in found if sorted(each) == sorted(lower)]
    return by_lower[(swapped or found)[0]] if found else None
