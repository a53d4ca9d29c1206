"""CDK constructs, how a hot tier comes and goes."""

from training_storage.lifecycle.data_release import DataReleaseSchedule, FreeSpaceRelease
from training_storage.lifecycle.link_watch import LinkWatch
from training_storage.lifecycle.release_guard import ReleaseGuard
from training_storage.lifecycle.release_machine import ReleaseMachine
from training_storage.lifecycle.run_schedules import IdleRelease, PreloadSchedule
from training_storage.lifecycle.storage_node import StorageNode

__all__ = [
    "DataReleaseSchedule",
    "FreeSpaceRelease",
    "IdleRelease",
    "LinkWatch",
    "PreloadSchedule",
    "ReleaseGuard",
    "ReleaseMachine",
    "StorageNode",
]
