"""From a plan to constructs: one function a part. The reference stacks and ``TrainingStorage`` call the same ones.

Nothing is sized or chosen here.
"""

from training_storage.parts.fleet import make_fleet, make_node_storage
from training_storage.parts.guard import make_release_guard
from training_storage.parts.hot import HotStorage, is_anything_made, make_hot_storage, uses_directory_buckets
from training_storage.parts.lake import make_data_lake
from training_storage.parts.lifecycle import make_release_machine, make_schedules
from training_storage.parts.lustre import link_id, make_file_system
from training_storage.parts.monitoring import Monitoring, make_monitoring
from training_storage.parts.object_storage import make_directory_buckets, make_s3_file_system, make_shared_cache
from training_storage.parts.storage_node import make_storage_node

__all__ = [
    "HotStorage",
    "Monitoring",
    "is_anything_made",
    "link_id",
    "make_data_lake",
    "make_directory_buckets",
    "make_file_system",
    "make_fleet",
    "make_hot_storage",
    "make_monitoring",
    "make_node_storage",
    "make_release_guard",
    "make_release_machine",
    "make_s3_file_system",
    "make_schedules",
    "make_shared_cache",
    "make_storage_node",
    "uses_directory_buckets",
]
