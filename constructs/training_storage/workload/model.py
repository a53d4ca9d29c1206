"""The workload as its author declares it: one class a section, names as in the file, quantities with their unit.

Every class is frozen, refuses unknown keys and keys that exclude each other. Defaults are those of the contract. What
needs the catalog (does the type exist, does the zone belong to the region, ...) is checked by ``workload.loading``, not
here, so that a model can be made in code without any file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from training_storage.errors import Problem
from training_storage.units import Duration, Size
from training_storage.workload.fields import (
    FILES_MAX,
    AccountField,
    AutoFlagField,
    BaseNameField,
    BucketField,
    CommandField,
    DurationField,
    EmailField,
    FlagField,
    GibField,
    ImageField,
    InstanceTypeField,
    IntervalField,
    KmsKeyField,
    LinkPathField,
    LustreVersionField,
    MetadataIopsField,
    ModelField,
    MomentField,
    NameField,
    RateField,
    RegionField,
    RoomField,
    SizeField,
    SourceField,
    TopicField,
    VersionField,
    ZoneIdField,
    age,
    aws_id,
    number,
    whole,
)
from training_storage.workload.section import Section

LinkEvent = Literal["new", "changed", "deleted"]


class Network(Section):
    """Where the fleet and the storage stand; without ``vpc_id`` a VPC is made."""

    vpc_id: Annotated[str, aws_id("vpc")] | None = None
    subnet_id: Annotated[str, aws_id("subnet")] | None = None
    route_table_ids: tuple[Annotated[str, aws_id("rtb")], ...] = ()
    internet: Literal["nat", "none"] = "nat"

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """Route tables belong to a given VPC, internet to an own one."""
        if given.get("route_table_ids") and "vpc_id" not in given:
            yield Problem(
                what="are route tables of no given VPC",
                path="route_table_ids",
                value=given["route_table_ids"],
                allowed="with vpc_id only",
                fix="leave it out: a VPC that is made gets its endpoints by itself",
            )
        if "internet" in given and "vpc_id" in given:
            yield Problem(
                what="says how a VPC is made, and one is given",
                path="internet",
                value=given["internet"],
                allowed="without vpc_id only",
                fix="leave it out: the routes of the given subnet stay as they are",
            )


class TypeFacts(Section):
    """What the catalog would say about an instance type that it does not know."""

    accelerators: Annotated[float, number(0.001, 10_000)] = Field(examples=["8"])
    network_cards: Annotated[int, whole(1, 1000)] = Field(examples=["8"])
    efa_interfaces: Annotated[int, whole(0, 1000)] = Field(examples=["8"])
    primary_card_has_efa: FlagField = Field(examples=["true"])
    network_gbps: Annotated[float, number(0.001, 1_000_000)] = Field(examples=["3200"])
    architecture: Literal["x86_64", "arm64"] = Field(examples=["x86_64"])
    local_nvme_gb: Annotated[float, number(0)] = 0.0
    fsx_efa_client: FlagField = False

    def values_together(self) -> Iterable[Problem]:
        """EFA interfaces fit on the cards that take them."""
        room = self.network_cards if self.primary_card_has_efa else self.network_cards - 1
        if self.efa_interfaces > room:
            without_first = "" if self.primary_card_has_efa else ", and the primary one has no EFA"
            yield Problem(
                what=f"is more than {self.network_cards} network cards hold{without_first}",
                path="efa_interfaces",
                value=self.efa_interfaces,
                allowed=f"at most {room}",
            )
        if self.primary_card_has_efa and not self.efa_interfaces:
            yield Problem(
                what="is true, and efa_interfaces is 0",
                path="primary_card_has_efa",
                value=self.primary_card_has_efa,
                fix="give the number of EFA interfaces, or write false",
            )
        if self.fsx_efa_client and not self.efa_interfaces:
            yield Problem(
                what="is true, and efa_interfaces is 0",
                path="fsx_efa_client",
                value=self.fsx_efa_client,
                fix="give the number of EFA interfaces, or write false",
            )


class Compute(Section):
    """The fleet that reads the data."""

    instance_type: InstanceTypeField = Field(examples=["p5en.48xlarge"])
    instance_count: Annotated[int, whole(1)] = Field(examples=["64"])
    purchase: Literal["on-demand", "spot", "reservation", "capacity-block"] = "on-demand"
    capacity_reservation_id: Annotated[str, aws_id("cr")] | None = None
    start: MomentField | None = None
    end: MomentField | None = None
    placement_group: Literal["auto", "cluster", "none"] = "auto"
    efa: AutoFlagField = "auto"
    image: ImageField = "auto"
    user_commands: tuple[CommandField, ...] = ()
    type_facts: TypeFacts | None = None

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """The fleet of a Capacity Block is scaled by the clock: it needs both moments."""
        if given.get("purchase") != "capacity-block":
            return
        for key, when in (("start", "up, after the block begins"), ("end", "down, before the block ends")):
            if key not in given:
                yield Problem(
                    what="is needed for purchase: capacity-block",
                    path=key,
                    allowed="a date and a time with its zone, such as 2026-12-01T11:30:00Z",
                    fix=f"add {key}: when the fleet scales {when}",
                )


class Samples(Section):
    """A read rate as samples of one size."""

    size: SizeField = Field(examples=["146.6 MB"])
    per_second_per_accelerator: Annotated[float, number(1e-6)] = Field(examples=["19.5"])
    per_file: Annotated[float, number(0.001)] = 1.0


class Tokens(Section):
    """A read rate as tokens."""

    per_second_per_accelerator: Annotated[float, number(1e-6)] = Field(examples=["165"])
    bytes_per_token: Annotated[float, number(0.001, 1e9)] = 4.0


class ReadRate(Section):
    """At most one of the four ways to say how fast one accelerator reads."""

    per_accelerator: RateField | None = None
    samples: Samples | None = None
    tokens: Tokens | None = None
    reference: ModelField | None = None

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """Only one of the four."""
        yield from _at_most_one(given, ("per_accelerator", "samples", "tokens", "reference"))


class Loader(Section):
    """The data loader; only with it latency counts as a limit of the supply."""

    workers_per_accelerator: Annotated[int, whole(1, 10_000)] = Field(examples=["8"])
    prefetch: Annotated[int, whole(1, 10_000)] = Field(examples=["2"])


class Dataset(Section):
    """The data that the job reads."""

    size: SizeField = Field(examples=["60 TB"])
    version: VersionField | None = None
    file_count: Annotated[int, whole(1, FILES_MAX)] | None = None
    average_file_size: SizeField | None = None
    interface: Literal["posix", "object"] = "posix"
    access: Literal["read-mostly", "read-write"] = "read-mostly"
    read_rate: ReadRate | None = None
    hot_fraction: Annotated[float, number(0, 1)] = 1.0
    loader: Loader | None = None
    source: SourceField | None = None

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """One way to say how large a file is."""
        yield from _at_most_one(given, ("file_count", "average_file_size"))


class Checkpoints(Section):
    """What the job saves."""

    parameters: Annotated[float, number(1)] | None = None
    size: SizeField | None = None
    bytes_per_parameter: Annotated[float, number(0.001, 1000)] = 14.0
    interval: IntervalField = Duration(1800)
    max_write_time: DurationField = Duration(60)
    # The write rate divides by the share, and by what it leaves: neither may vanish.
    max_stall: Annotated[float, number(1e-6, 0.999)] = 0.01
    max_restore_time: DurationField = Duration(300)
    restore_readers: Annotated[int, whole(1)] = 1
    asynchronous: FlagField = False
    keep_hot: Annotated[int, whole(1)] = 3
    promote_every: Annotated[int, whole(1)] = 10

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """Exactly one way to say how large a checkpoint is."""
        yield from _at_most_one(given, ("parameters", "size"))
        if not given.keys() & {"parameters", "size"}:
            yield Problem(
                what="says neither parameters nor size",
                allowed="exactly one of parameters and size",
                fix="add parameters, such as 70e9, or size, such as 912 GiB",
            )


class Link(Section):
    """One link between a path of the file system and a prefix of a bucket."""

    path: LinkPathField = Field(examples=["/datasets"])
    source: SourceField = Field(examples=["s3://bucket/prefix/"])
    import_: tuple[LinkEvent, ...] = Field(default=("new", "changed"), alias="import")
    export: tuple[LinkEvent, ...] = ()
    import_metadata_on_create: FlagField | None = None


class Lustre(Section):
    """Overrides of the Lustre plan; everything not given is planned."""

    deployment_type: Literal["SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"] | None = None
    storage_type: Literal["SSD", "HDD", "INTELLIGENT_TIERING"] | None = None
    storage_capacity: GibField | None = None
    per_unit_storage_throughput: Annotated[int, whole(1)] | None = None
    throughput_capacity: Annotated[int, whole(1, 2_000_000)] | None = None
    metadata_iops: MetadataIopsField | None = None
    efa: AutoFlagField = "auto"
    gds: FlagField = False
    compression: Literal["lz4", "none"] = "lz4"
    file_system_type_version: LustreVersionField = "2.15"
    backup_retention_days: Annotated[int, whole(0, 90)] | None = None
    kms_key_arn: KmsKeyField | None = None
    removal: Literal["retain", "delete"] = "retain"
    links: tuple[Link, ...] | None = None


class Express(Section):
    """Settings of the S3 Express One Zone tier."""

    base_name: BaseNameField | None = None
    expire_after: Annotated[DurationField, age(1)] | None = None


class S3Files(Section):
    """Settings of S3 Files."""

    read_only: FlagField | None = None
    root_access: FlagField = False


class Mountpoint(Section):
    """Settings of the Mountpoint mount of the lake."""

    cache: Literal["auto", "none", "nvme", "express"] = "auto"
    cache_size: SizeField | None = None
    read_only: FlagField = True

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """A size needs a cache."""
        if given.get("cache") == "none" and "cache_size" in given:
            yield Problem(
                what="is the size of a cache that is switched off",
                path="cache_size",
                value=given["cache_size"],
                allowed="with another cache than none",
                fix="leave one of the two out",
            )


class DataLakeSettings(Section):
    """Settings of the data lake bucket."""

    bucket: BucketField | None = None
    bucket_name: BucketField | None = None
    encryption: Literal["s3", "kms"] = "kms"
    kms_key_arn: KmsKeyField | None = None
    versioned: FlagField = True
    removal: Literal["retain", "delete"] = "retain"
    # Objects move to infrequent access after 30 days at the earliest (S3 API reference, LifecycleRule).
    checkpoints_to_infrequent_access_after: Annotated[DurationField, age(30)] = Duration(30 * 86400)
    noncurrent_versions_expire_after: Annotated[DurationField, age(1)] = Duration(30 * 86400)
    logs_expire_after: Annotated[DurationField, age(1)] = Duration(180 * 86400)

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """An existing bucket or the name of a new one; a key only where one is used."""
        yield from _at_most_one(given, ("bucket", "bucket_name"))
        if given.get("encryption") == "s3" and "kms_key_arn" in given:
            yield Problem(
                what="is given with encryption: s3, which uses no key",
                path="kms_key_arn",
                value=given["kms_key_arn"],
                allowed="with encryption: kms only",
                fix="set encryption: kms, or leave the key out",
            )


class Monitoring(Section):
    """Settings of dashboard and alarms."""

    enabled: FlagField = True
    alarm_email: EmailField | None = None
    alarm_topic_arn: TopicField | None = None


class Workload(Section):
    """One training workload: the whole file."""

    name: NameField = Field(examples=["llama3-70b"])
    region: RegionField = Field(examples=["us-east-1"])
    availability_zone_id: ZoneIdField = Field(examples=["use1-az6"])
    account: AccountField | None = None
    # Empty sections are given as {} so that importing this module builds no class.
    network: Network = Field(default={}, validate_default=True)
    compute: Compute = Field(examples=["instance_type and instance_count below it"])
    dataset: Dataset = Field(examples=["size below it"])
    checkpoints: Checkpoints | None = None
    scratch_size: RoomField = Size(0)
    hot_tier: Literal["auto", "none", "lustre", "express"] = "auto"
    file_access: Literal["auto", "none", "mountpoint", "s3-files"] = "auto"
    lustre: Lustre = Field(default={}, validate_default=True)
    express: Express = Field(default={}, validate_default=True)
    s3_files: S3Files = Field(default={}, validate_default=True)
    mountpoint: Mountpoint = Field(default={}, validate_default=True)
    data_lake: DataLakeSettings = Field(default={}, validate_default=True)
    monitoring: Monitoring = Field(default={}, validate_default=True)


def _at_most_one(given: Mapping[str, Any], keys: tuple[str, ...]) -> Iterable[Problem]:
    present = [key for key in given if key in keys]
    first, *others = present or [""]
    listed = f"{', '.join(keys[:-1])} and {keys[-1]}"
    for key in others:
        yield Problem(
            what=f"is given together with {first}",
            path=key,
            value=given[key],
            allowed=f"at most one of {listed}",
            fix=f"leave {key} or {first} out",
        )
