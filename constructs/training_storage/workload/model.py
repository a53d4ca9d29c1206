"""The workload as its author declares it: one class a section, names as in the file, quantities with their unit.

Every class is frozen and refuses unknown keys. Defaults are those of the contract. What needs the catalog (does the
type exist, does the zone belong to the region, ...) is checked by ``workload.loading``, not here, so that a model can
be made in code without any file.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from training_storage.units import Duration, Rate, Size


def _size(value: object) -> object:
    return Size.parse(value) if isinstance(value, str) else value


def _rate(value: object) -> object:
    return Rate.parse(value) if isinstance(value, str) else value


def _duration(value: object) -> object:
    return Duration.parse(value) if isinstance(value, str) else value


SizeField = Annotated[Size, BeforeValidator(_size)]
RateField = Annotated[Rate, BeforeValidator(_rate)]
DurationField = Annotated[Duration, BeforeValidator(_duration)]

Auto = Literal["auto"]
LinkEvent = Literal["new", "changed", "deleted"]


class Section(BaseModel):
    """Base of every section."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, populate_by_name=True)


class Network(Section):
    """Where the fleet and the storage stand; without ``vpc_id`` a VPC is made."""

    vpc_id: str | None = None
    subnet_id: str | None = None
    route_table_ids: tuple[str, ...] = ()
    internet: Literal["nat", "none"] = "nat"


class TypeFacts(Section):
    """What the catalog would say about an instance type that it does not know."""

    accelerators: float
    network_cards: int
    efa_interfaces: int
    primary_card_has_efa: bool
    network_gbps: float
    architecture: Literal["x86_64", "arm64"]
    local_nvme_gb: float = 0.0
    fsx_efa_client: bool = False


class Compute(Section):
    """The fleet that reads the data."""

    instance_type: str
    instance_count: int
    purchase: Literal["on-demand", "spot", "reservation", "capacity-block"] = "on-demand"
    capacity_reservation_id: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    placement_group: Literal["auto", "cluster", "none"] = "auto"
    efa: Auto | bool = "auto"
    image: str = "auto"
    user_commands: tuple[str, ...] = ()
    type_facts: TypeFacts | None = None


class Samples(Section):
    """A read rate as samples of one size."""

    size: SizeField
    per_second_per_accelerator: float
    per_file: float = 1.0


class Tokens(Section):
    """A read rate as tokens."""

    per_second_per_accelerator: float
    bytes_per_token: float = 4.0


class ReadRate(Section):
    """At most one of the four ways to say how fast one accelerator reads."""

    per_accelerator: RateField | None = None
    samples: Samples | None = None
    tokens: Tokens | None = None
    reference: str | None = None


class Loader(Section):
    """The data loader; only with it latency counts as a limit of the supply."""

    workers_per_accelerator: int
    prefetch: int


class Dataset(Section):
    """The data that the job reads."""

    size: SizeField
    version: str | None = None
    file_count: int | None = None
    average_file_size: SizeField | None = None
    interface: Literal["posix", "object"] = "posix"
    access: Literal["read-mostly", "read-write"] = "read-mostly"
    read_rate: ReadRate | None = None
    hot_fraction: float = 1.0
    loader: Loader | None = None
    source: str | None = None


class Checkpoints(Section):
    """What the job saves."""

    parameters: float | None = None
    size: SizeField | None = None
    bytes_per_parameter: float = 14.0
    interval: Auto | DurationField = Duration(1800)
    max_write_time: DurationField = Duration(60)
    max_stall: float = 0.01
    max_restore_time: DurationField = Duration(300)
    restore_readers: int = 1
    asynchronous: bool = False
    keep_hot: int = 3
    promote_every: int = 10


class Link(Section):
    """One link between a path of the file system and a prefix of a bucket."""

    path: str
    source: str
    import_: tuple[LinkEvent, ...] = Field(default=("new", "changed"), alias="import")
    export: tuple[LinkEvent, ...] = ()
    import_metadata_on_create: bool | None = None


class Lustre(Section):
    """Overrides of the Lustre plan; everything not given is planned."""

    deployment_type: Literal["SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"] | None = None
    storage_type: Literal["SSD", "HDD", "INTELLIGENT_TIERING"] | None = None
    storage_capacity: SizeField | None = None
    per_unit_storage_throughput: int | None = None
    throughput_capacity: int | None = None
    metadata_iops: Literal["automatic"] | int | None = None
    efa: Auto | bool = "auto"
    gds: bool = False
    compression: Literal["lz4", "none"] = "lz4"
    file_system_type_version: str = "2.15"
    backup_retention_days: int | None = None
    kms_key_arn: str | None = None
    removal: Literal["retain", "delete"] = "retain"
    links: tuple[Link, ...] | None = None


class Express(Section):
    """Settings of the S3 Express One Zone tier."""

    base_name: str | None = None
    expire_after: DurationField | None = None


class S3Files(Section):
    """Settings of S3 Files."""

    read_only: bool | None = None
    root_access: bool = False


class Mountpoint(Section):
    """Settings of the Mountpoint mount of the lake."""

    cache: Literal["auto", "none", "nvme", "express"] = "auto"
    cache_size: SizeField | None = None
    read_only: bool = True


class DataLakeSettings(Section):
    """Settings of the data lake bucket."""

    bucket: str | None = None
    bucket_name: str | None = None
    encryption: Literal["s3", "kms"] = "kms"
    kms_key_arn: str | None = None
    versioned: bool = True
    removal: Literal["retain", "delete"] = "retain"
    checkpoints_to_infrequent_access_after: DurationField = Duration(30 * 86400)
    noncurrent_versions_expire_after: DurationField = Duration(30 * 86400)
    logs_expire_after: DurationField = Duration(180 * 86400)


class Monitoring(Section):
    """Settings of dashboard and alarms."""

    enabled: bool = True
    alarm_email: str | None = None
    alarm_topic_arn: str | None = None


class Workload(Section):
    """One training workload: the whole file."""

    name: str
    region: str
    availability_zone_id: str
    account: str | None = None
    network: Network = Network()
    compute: Compute
    dataset: Dataset
    checkpoints: Checkpoints | None = None
    scratch_size: SizeField = Size(0)
    hot_tier: Literal["auto", "none", "lustre", "express"] = "auto"
    file_access: Literal["auto", "none", "mountpoint", "s3-files"] = "auto"
    lustre: Lustre = Lustre()
    express: Express = Express()
    s3_files: S3Files = S3Files()
    mountpoint: Mountpoint = Mountpoint()
    data_lake: DataLakeSettings = DataLakeSettings()
    monitoring: Monitoring = Monitoring()
