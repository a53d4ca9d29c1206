"""What a plan says about nodes, as arguments of ``NodeStorage``. Nothing is worked out again here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage.compute.mount_model import (
    BucketAccess,
    DirectoryBucketTarget,
    Lake,
    LustreClientTarget,
    LustreMount,
    Mount,
    MountpointMount,
    S3FilesMount,
    S3FilesTarget,
)
from training_storage.errors import Problem, ValidationError
from training_storage.planner.links import dataset_source

if TYPE_CHECKING:
    from training_storage.planner.model import MountPlan, Plan

LOCAL_NVME = "/opt/dlami/nvme"
"""Where Deep Learning images join the instance store (dlami-nvme.service)."""


class PlannedMounts:
    """What a plan says about nodes, as arguments of ``NodeStorage``."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        plan: Plan,
        data_lake: Lake,
        file_system: LustreClientTarget | None,
        source_bucket: s3.IBucket | None,
        source_key: kms.IKey | None,
        directory_buckets: Sequence[DirectoryBucketTarget] = (),
        shared_cache: DirectoryBucketTarget | None = None,
        s3_file_system: S3FilesTarget | None = None,
    ) -> None:
        self._where = f"{scope.node.path}/{construct_id}".lstrip("/")
        self._plan = plan
        self._lake = data_lake
        self._file_system = file_system
        self._hot = tuple(directory_buckets)
        self._shared_cache = shared_cache
        self._s3_file_system = s3_file_system
        self._source_key = source_key
        self._source_name, self._source_prefix = dataset_source(plan.workload)
        self._source = source_bucket
        if self._source is None and self._source_name is not None:
            self._source = s3.Bucket.from_bucket_name(scope, f"{construct_id}SourceBucket", self._source_name)

    def mounts(self) -> list[Mount]:
        """What is mounted, in the order of the plan."""
        return [self._mount(mount) for mount in self._plan.mounts]

    def _mount(self, mount: MountPlan) -> Mount:
        if mount.kind == "lustre":
            return self._lustre(mount)
        if mount.kind == "s3-files":
            return self._s3_files(mount)
        options = mount.options
        throughput, size = options.get("maximum_throughput_gbps"), options.get("cache_size_mib")
        if options.get("directory_bucket"):
            return self._directory_bucket(mount)
        shared = options.get("cache") == "express"
        if shared and self._shared_cache is None:
            raise self._missing(f"a shared cache for {mount.path}", "shared_cache", "a DirectoryBucket")
        of_lake = options.get("bucket") is None
        return MountpointMount(
            bucket=self._lake if of_lake or self._source is None else self._source,
            key=None if of_lake else self._source_key,
            path=mount.path,
            prefix=str(options.get("prefix") or ""),
            read_only=mount.read_only,
            maximum_throughput_gbps=throughput if isinstance(throughput, int | float) else None,
            cache="express" if shared else "nvme" if options.get("cache") == "nvme" else "none",
            cache_bucket=self._shared_cache if shared else None,
            cache_size_mib=size if isinstance(size, int) else None,
        )

    def _missing(self, what: str, path: str, allowed: str) -> ValidationError:
        return ValidationError(
            Problem(what=f"the plan has {what}, and none is given", path=path, allowed=allowed), where=self._where
        )

    def _directory_bucket(self, mount: MountPlan) -> MountpointMount:
        """Mount the first of the hot buckets, so that code can rename, overwrite and delete: savers do all three."""
        if not self._hot:
            raise self._missing(f"a directory bucket on {mount.path}", "directory_buckets", "a DirectoryBucket or more")
        throughput, part = mount.options.get("maximum_throughput_gbps"), mount.options.get("write_part_size_mib")
        writes = not mount.read_only
        return MountpointMount(
            bucket=self._hot[0],
            path=mount.path,
            read_only=mount.read_only,
            allow_delete=writes,
            allow_overwrite=writes,
            # Appending goes through single requests, which are slower: only for code that says it writes in place.
            incremental_upload=writes and self._plan.workload.dataset.access == "read-write",
            write_part_size_mib=part if isinstance(part, int) and writes else None,
            maximum_throughput_gbps=throughput if isinstance(throughput, int | float) else None,
        )

    def _s3_files(self, mount: MountPlan) -> S3FilesMount:
        plan = self._plan.s3_files
        if self._s3_file_system is None or plan is None:
            raise self._missing(f"S3 Files on {mount.path}", "s3_file_system", "an S3FileSystem")
        return S3FilesMount(
            file_system=self._s3_file_system,
            path=mount.path,
            read_only=mount.read_only,
            root_access=plan.root_access,
        )

    def _lustre(self, mount: MountPlan) -> LustreMount:
        plan = self._plan.lustre
        if self._file_system is None or plan is None:
            allowed = "a LustreFileSystem, or what has its id, DNS name, mount name and allow_client"
            raise self._missing(f"Lustre on {mount.path}", "file_system", allowed)
        return LustreMount(
            file_system=self._file_system,
            path=mount.path,
            efa=plan.efa_interfaces_per_client is not None,
            gds=self._plan.workload.lustre.gds and plan.efa_interfaces_per_client is not None,
            checkpoints=_below(self._plan.paths.checkpoints, mount.path),
            scratch=_below(self._plan.paths.scratch, mount.path),
        )

    def buckets(self) -> list[BucketAccess]:
        """The lake to read, its checkpoints to write without a hot tier, hot buckets, and the data set's source."""
        access = [BucketAccess(bucket=self._lake)]
        access += [BucketAccess(bucket=bucket, write=True) for bucket in self._hot]
        if self._plan.tiers.hot == "none" and self._plan.workload.checkpoints is not None:
            access.append(BucketAccess(bucket=self._lake, prefix="checkpoints/", write=True))
        mounted = any(mount.options.get("bucket") is not None for mount in self._plan.mounts)
        if self._source is not None and not mounted:
            access.append(BucketAccess(bucket=self._source, prefix=self._source_prefix, key=self._source_key))
        return access

    def environment(self) -> dict[str, str]:
        """Paths and URIs for training code."""
        lake = f"s3://{self._lake.bucket.bucket_name}/"
        prefix = self._source_prefix
        datasets = f"{lake if self._source_name is None else f's3://{self._source_name}/'}{prefix}"
        checkpoints = f"{lake}checkpoints/"
        hot = [f"s3://{bucket.bucket_name}/" for bucket in self._hot]
        if hot:
            # What is staged keeps its key.
            datasets, checkpoints = f"{hot[0]}{prefix}", f"{hot[0]}checkpoints/"
        values = {
            "TRAINING_STORAGE_WORKLOAD": self._plan.name,
            "TRAINING_STORAGE_DATASETS": self._plan.paths.datasets,
            "TRAINING_STORAGE_CHECKPOINTS": self._plan.paths.checkpoints,
            "TRAINING_STORAGE_SCRATCH": self._plan.paths.scratch,
            "TRAINING_STORAGE_DATA_LAKE_URI": lake,
            "TRAINING_STORAGE_DATASETS_URI": datasets,
            "TRAINING_STORAGE_CHECKPOINTS_URI": checkpoints,
            "TRAINING_STORAGE_HOT_URI": hot[0] if hot else "",
            "TRAINING_STORAGE_HOT_URIS": ",".join(hot),
        }
        return {name: value for name, value in values.items() if value}

    def directories(self) -> list[str]:
        """Directories of the plan that lie on local NVMe."""
        paths = (self._plan.paths.datasets, self._plan.paths.checkpoints, self._plan.paths.scratch)
        return [path for path in paths if path and path.startswith(f"{LOCAL_NVME}/")]


def _below(path: str | None, root: str) -> str | None:
    """Return a path relative to the mount that it lies on; None where it lies elsewhere."""
    return path.removeprefix(f"{root}/") if path is not None and path.startswith(f"{root}/") else None
