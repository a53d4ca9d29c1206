"""CDK constructs, who reads the data: the network, the fleet, its mounts and bootstrap."""

from training_storage.compute.agent import NodeAgent
from training_storage.compute.bootstrap import Signal
from training_storage.compute.gpu_fleet import GpuFleet
from training_storage.compute.mount_model import BucketAccess, LustreMount, MountpointMount, S3FilesMount
from training_storage.compute.mount_profiles import checkpoint_writing, dataset_reading, local_scratch
from training_storage.compute.mounts import NodeStorage
from training_storage.compute.network import ImportedNetwork, TrainingNetwork
from training_storage.compute.node_metrics import NodeMetrics

__all__ = [
    "BucketAccess",
    "GpuFleet",
    "ImportedNetwork",
    "LustreMount",
    "MountpointMount",
    "NodeAgent",
    "NodeMetrics",
    "NodeStorage",
    "S3FilesMount",
    "Signal",
    "TrainingNetwork",
    "checkpoint_writing",
    "dataset_reading",
    "local_scratch",
]
