"""What a plan says about nodes, as arguments of ``NodeStorage``. Nothing is worked out again here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage.compute.mount_model import (
    BucketAccess,
    Lake,
    LustreClientTarget,
    LustreMount,
    Mount,
    MountpointMount,
)
from training_storage.errors import NotDeployableError, Problem, ValidationError

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
    ) -> None:
        self._where = f"{scope.node.path}/{construct_id}".lstrip("/")
        self._plan = plan
        self._lake = data_lake
        self._file_system = file_system
        self._source_key = source_key
        self._source_name, self._source_prefix = _split_uri(plan.workload.dataset.source)
        self._source = source_bucket
        if self._source is None and self._source_name is not None:
            self._source = s3.Bucket.from_bucket_name(scope, f"{construct_id}SourceBucket", self._source_name)

    def mounts(self) -> list[Mount]:
        """What is mounted, in the order of the plan."""
        return [self._mount(mount) for mount in self._plan.mounts]

    def _mount(self, mount: MountPlan) -> Mount:
        if mount.kind == "lustre":
            return self._lustre(mount)
        if mount.kind != "mountpoint":
            raise NotDeployableError(
                f"{mount.path} is planned as {mount.kind}, and this version has no construct for that"
            )
        options = mount.options
        throughput, size = options.get("maximum_throughput_gbps"), options.get("cache_size_mib")
        of_lake = options.get("bucket") is None
        return MountpointMount(
            bucket=self._lake if of_lake or self._source is None else self._source,
            key=None if of_lake else self._source_key,
            path=mount.path,
            prefix=str(options.get("prefix") or ""),
            read_only=mount.read_only,
            maximum_throughput_gbps=throughput if isinstance(throughput, int | float) else None,
            cache="nvme" if options.get("cache") == "nvme" else "none",
            cache_size_mib=size if isinstance(size, int) else None,
        )

    def _lustre(self, mount: MountPlan) -> LustreMount:
        plan = self._plan.lustre
        if self._file_system is None or plan is None:
            raise ValidationError(
                Problem(
                    what=f"the plan mounts Lustre on {mount.path}, and no file system is given",
                    path="file_system",
                    allowed="a LustreFileSystem, or what has its id, DNS name, mount name and allow_client",
                ),
                where=self._where,
            )
        return LustreMount(
            file_system=self._file_system,
            path=mount.path,
            efa=plan.efa_interfaces_per_client is not None,
            gds=self._plan.workload.lustre.gds and plan.efa_interfaces_per_client is not None,
            checkpoints=_below(self._plan.paths.checkpoints, mount.path),
            scratch=_below(self._plan.paths.scratch, mount.path),
        )

    def buckets(self) -> list[BucketAccess]:
        """The lake to read; its checkpoints to write where no file system holds them; the source of the data set."""
        access = [BucketAccess(bucket=self._lake)]
        if self._plan.lustre is None and self._plan.workload.checkpoints is not None:
            access.append(BucketAccess(bucket=self._lake, prefix="checkpoints/", write=True))
        mounted = any(mount.options.get("bucket") is not None for mount in self._plan.mounts)
        if self._source is not None and not mounted:
            access.append(BucketAccess(bucket=self._source, prefix=self._source_prefix, key=self._source_key))
        return access

    def environment(self) -> dict[str, str]:
        """Paths and URIs for training code."""
        lake = f"s3://{self._lake.bucket.bucket_name}/"
        version = self._plan.workload.dataset.version
        datasets = f"{lake}datasets/{version}/" if version else f"{lake}datasets/"
        if self._source_name is not None:
            datasets = f"s3://{self._source_name}/{self._source_prefix}"
        values = {
            "TRAINING_STORAGE_WORKLOAD": self._plan.name,
            "TRAINING_STORAGE_DATASETS": self._plan.paths.datasets,
            "TRAINING_STORAGE_CHECKPOINTS": self._plan.paths.checkpoints,
            "TRAINING_STORAGE_SCRATCH": self._plan.paths.scratch,
            "TRAINING_STORAGE_DATA_LAKE_URI": lake,
            "TRAINING_STORAGE_DATASETS_URI": datasets,
            "TRAINING_STORAGE_CHECKPOINTS_URI": f"{lake}checkpoints/",
        }
        return {name: value for name, value in values.items() if value}

    def directories(self) -> list[str]:
        """Directories of the plan that lie on local NVMe."""
        paths = (self._plan.paths.datasets, self._plan.paths.checkpoints, self._plan.paths.scratch)
        return [path for path in paths if path and path.startswith(f"{LOCAL_NVME}/")]


def _below(path: str | None, root: str) -> str | None:
    """Return a path relative to the mount that it lies on; None where it lies elsewhere."""
    return path.removeprefix(f"{root}/") if path is not None and path.startswith(f"{root}/") else None


def _split_uri(uri: str | None) -> tuple[str | None, str]:
    if uri is None:
        return None, ""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return bucket, prefix
