"""CDK constructs: where data lives."""

from training_storage.tiers.association import DataRepositoryAssociation
from training_storage.tiers.data_lake import DataLake
from training_storage.tiers.express import DirectoryBucket
from training_storage.tiers.imported_directory_bucket import ImportedDirectoryBucket
from training_storage.tiers.imported_lustre import ImportedLustreFileSystem
from training_storage.tiers.imported_s3_files import ImportedS3FileSystem
from training_storage.tiers.lustre import LustreFileSystem
from training_storage.tiers.s3_files import S3FilesImportRule, S3FileSystem

__all__ = [
    "DataLake",
    "DataRepositoryAssociation",
    "DirectoryBucket",
    "ImportedDirectoryBucket",
    "ImportedLustreFileSystem",
    "ImportedS3FileSystem",
    "LustreFileSystem",
    "S3FileSystem",
    "S3FilesImportRule",
]
