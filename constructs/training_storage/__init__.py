"""Training Storage: describe a GPU training workload, get the AWS storage that keeps its GPUs busy.

Every public name is loaded when it is first used: importing this package loads neither aws_cdk nor boto3 nor pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from training_storage.catalog import Catalog, default_catalog, load_catalog
    from training_storage.compute import GpuFleet, TrainingNetwork
    from training_storage.errors import (
        AwsError,
        CatalogError,
        PlanError,
        Problem,
        RefusedError,
        TrainingStorageError,
        ValidationError,
        WorkloadError,
    )
    from training_storage.lifecycle import (
        DataReleaseSchedule,
        FreeSpaceRelease,
        IdleRelease,
        PreloadSchedule,
        ReleaseMachine,
    )
    from training_storage.planner import plan
    from training_storage.planner.model import Plan
    from training_storage.tiers import (
        DataLake,
        DataRepositoryAssociation,
        DirectoryBucket,
        LustreFileSystem,
        S3FilesImportRule,
        S3FileSystem,
    )
    from training_storage.training_storage import TrainingStorage
    from training_storage.workload import Workload, load_workload, parse_workload

__all__ = [
    "AwsError",
    "Catalog",
    "CatalogError",
    "DataLake",
    "DataReleaseSchedule",
    "DataRepositoryAssociation",
    "DirectoryBucket",
    "FreeSpaceRelease",
    "GpuFleet",
    "IdleRelease",
    "LustreFileSystem",
    "Plan",
    "PlanError",
    "PreloadSchedule",
    "Problem",
    "RefusedError",
    "ReleaseMachine",
    "S3FileSystem",
    "S3FilesImportRule",
    "TrainingNetwork",
    "TrainingStorage",
    "TrainingStorageError",
    "ValidationError",
    "Workload",
    "WorkloadError",
    "default_catalog",
    "load_catalog",
    "load_workload",
    "parse_workload",
    "plan",
]

_MODULES = {
    "training_storage.catalog": ("Catalog", "default_catalog", "load_catalog"),
    "training_storage.compute": ("GpuFleet", "TrainingNetwork"),
    "training_storage.errors": (
        "AwsError",
        "CatalogError",
        "PlanError",
        "Problem",
        "RefusedError",
        "TrainingStorageError",
        "ValidationError",
        "WorkloadError",
    ),
    "training_storage.lifecycle": (
        "DataReleaseSchedule",
        "FreeSpaceRelease",
        "IdleRelease",
        "PreloadSchedule",
        "ReleaseMachine",
    ),
    "training_storage.planner": ("plan",),
    "training_storage.planner.model": ("Plan",),
    "training_storage.tiers": (
        "DataLake",
        "DataRepositoryAssociation",
        "DirectoryBucket",
        "LustreFileSystem",
        "S3FileSystem",
        "S3FilesImportRule",
    ),
    "training_storage.training_storage": ("TrainingStorage",),
    "training_storage.workload": ("Workload", "load_workload", "parse_workload"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
