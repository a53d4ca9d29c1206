"""What Amazon S3, S3 Express One Zone, S3 Files and Mountpoint give and take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from training_storage.catalog.model import Source, StorageClass


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStorageCatalog:
    """Numbers of the object storage services. Where each comes from is in ``sources``, by attribute name.

    Attributes:
        get_requests_per_s_per_prefix: GET and HEAD a second that one prefix of a bucket serves at least.
        put_requests_per_s_per_prefix: The same for PUT, COPY, POST and DELETE.
        part_bytes: Bytes of one part as Mountpoint reads and writes them by default.
        express_get_requests_per_s: Reads a second of one directory bucket without a request to support.
        express_put_requests_per_s: Writes a second of one directory bucket without a request to support.
        express_get_requests_per_s_max: The most reads a second that one directory bucket can be raised to.
        express_put_requests_per_s_max: The most writes a second that one directory bucket can be raised to.
        express_buckets_per_account_and_region: Quota of directory buckets.
        s3_files_client_bytes_per_s: Bytes a second that one S3 Files client reads.
        s3_files_data_min_bytes: Bytes that S3 Files bills at least for one read or write of data.
        s3_files_metadata_min_bytes: The same for metadata.
        s3_files_file_min_bytes: Bytes that S3 Files bills at least for one file that it stores.
        s3_files_size_step_bytes: Sizes that S3 Files bills are whole multiples of so many bytes.
        list_keys_per_request: Keys in one answer of a LIST.
        mountpoint_lists_per_open: LIST requests that Mountpoint makes beside the HEAD when it looks up a file.
        s3_files_minimum_efs_utils_version: Oldest amazon-efs-utils that mounts with the right role.
        mountpoint_minimum_version: Oldest Mountpoint that we mount with: before it, prefetch could eat the memory.
        mountpoint_fstab_version: Oldest Mountpoint that reads ``/etc/fstab`` lines.
        mountpoint_memory_target_version: Oldest Mountpoint that knows ``--memory-target``.
        mountpoint_memory_target_min_mib: Smallest memory target, MiB.
        mountpoint_cache_disk_share_max: Largest share of a disk for the cache: eviction is slower than fill.
        mountpoint_shared_cache_max_object_bytes: Largest object that the shared cache in a directory bucket keeps.
        mountpoint_unknown_type_gbps: Throughput that Mountpoint assumes for a type that it does not know, Gbit/s.
        mountpoint_gbps: Mountpoint's own throughput table, Gbit/s by instance type.
        transition_min_object_kb: Objects below this size are not moved by a lifecycle rule by default, KB.
        directory_bucket_name_min_length: Shortest name of a directory bucket, suffix included.
        directory_bucket_name_max_length: Longest name of a directory bucket, suffix included.
        directory_bucket_suffix: Form of the suffix that every directory bucket name ends with.
        directory_bucket_forbidden_prefixes: Beginnings that a directory bucket name may not have.
        directory_bucket_forbidden_suffixes: Endings that a directory bucket name may not have.
        storage_classes: S3 storage classes by name.
        sources: Where each number comes from, by attribute name.
    """

    get_requests_per_s_per_prefix: int
    put_requests_per_s_per_prefix: int
    part_bytes: int
    express_get_requests_per_s: int
    express_put_requests_per_s: int
    express_get_requests_per_s_max: int
    express_put_requests_per_s_max: int
    express_buckets_per_account_and_region: int
    s3_files_client_bytes_per_s: int
    s3_files_data_min_bytes: int
    s3_files_metadata_min_bytes: int
    s3_files_file_min_bytes: int
    s3_files_size_step_bytes: int
    list_keys_per_request: int
    mountpoint_lists_per_open: int
    s3_files_minimum_efs_utils_version: str
    mountpoint_minimum_version: str
    mountpoint_fstab_version: str
    mountpoint_memory_target_version: str
    mountpoint_memory_target_min_mib: int
    mountpoint_cache_disk_share_max: float
    mountpoint_shared_cache_max_object_bytes: int
    mountpoint_unknown_type_gbps: float
    mountpoint_gbps: Mapping[str, float] = field(hash=False)
    transition_min_object_kb: int
    directory_bucket_name_min_length: int
    directory_bucket_name_max_length: int
    directory_bucket_suffix: str
    directory_bucket_forbidden_prefixes: tuple[str, ...]
    directory_bucket_forbidden_suffixes: tuple[str, ...]
    storage_classes: Mapping[str, StorageClass] = field(hash=False)
    sources: Mapping[str, Source] = field(hash=False)

    def directory_bucket_name(self, base_name: str, availability_zone_id: str) -> str:
        """Return the full name of a directory bucket: base name and suffix; a suffix already there is not doubled."""
        suffix = self.directory_bucket_suffix.format(zone_id=availability_zone_id)
        return base_name if base_name.endswith(suffix) else base_name + suffix
