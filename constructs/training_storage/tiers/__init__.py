"""CDK constructs: where data lives."""

from training_storage.tiers.association import DataRepositoryAssociation
from training_storage.tiers.data_lake import DataLake
from training_storage.tiers.imported_lustre import ImportedLustreFileSystem
from training_storage.tiers.lustre import LustreFileSystem

__all__ = ["DataLake", "DataRepositoryAssociation", "ImportedLustreFileSystem", "LustreFileSystem"]
