"""The workload as its author declares it: one class a section, names as in the file, quantities with their unit.

Every class is frozen, refuses unknown keys and keys that exclude each other. Defaults are those of the contract. What
needs the catalog (does the type exist, does the zone belong to the region, ...) is checked by ``workload.loading``, not
here, so that a model can be made in code without any file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from training_storage.errors import Problem
from training_storage.units import Duration, Rate, Size
from training_storage.workload import fields as read
from training_storage.workload.lifecycle import Lifecycle
from training_storage.workload.section import Section, item, list_of
from training_storage.workload.storage import DataLakeSettings, Express, Lustre, Mountpoint, Removal, S3Files
from training_storage.workload.together import at_most_one

Auto = Literal["auto"]
Internet = Literal["nat", "none"]
Architecture = Literal["x86_64", "arm64"]
Purchase = Literal["on-demand", "spot", "reservation", "capacity-block"]
PlacementGroup = Literal["auto", "cluster", "none"]
Interface = Literal["posix", "object"]
Access = Literal["read-mostly", "read-write"]
HotTier = Literal["auto", "none", "lustre", "express"]
FileAccess = Literal["auto", "none", "mountpoint", "s3-files"]
Goal = Literal["min", "max"]


class Network(Section):
    """Where the fleet and the storage stand; without ``vpc_id`` a VPC is made."""

    vpc_id: str | None = item(read.aws_id("vpc"), default=None)
    subnet_id: str | None = item(read.aws_id("subnet"), default=None)
    route_table_ids: tuple[str, ...] = item(list_of(read.aws_id("rtb")), default=())
    internet: Internet = item(read.choice(Internet), default="nat")

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

    accelerators: float = item(read.number(0.001, 10_000), example="8")
    network_cards: int = item(read.whole(1, 1000), example="8")
    efa_interfaces: int = item(read.whole(0, 1000), example="8")
    primary_card_has_efa: bool = item(read.flag, example="true")
    network_gbps: float = item(read.number(0.001, 1_000_000), example="3200")
    architecture: Architecture = item(read.choice(Architecture), example="x86_64")
    local_nvme_gb: float = item(read.number(0), default=0.0)
    fsx_efa_client: bool = item(read.flag, default=False)

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

    instance_type: str = item(read.instance_type, example="p5en.48xlarge")
    instance_count: int = item(read.whole(1), example="64")
    purchase: Purchase = item(read.choice(Purchase), default="on-demand")
    capacity_reservation_id: str | None = item(read.aws_id("cr"), default=None)
    start: datetime | None = item(read.moment, default=None)
    end: datetime | None = item(read.moment, default=None)
    placement_group: PlacementGroup = item(read.choice(PlacementGroup), default="auto")
    efa: Auto | bool = item(read.auto_or_flag, default="auto")
    image: str = item(read.image, default="auto")
    user_commands: tuple[str, ...] = item(list_of(read.command), default=())
    security_group_id: str | None = item(read.aws_id("sg"), default=None)
    role_arn: str | None = item(read.role, default=None)
    # The row of the catalog that stands in where a file gives none; a test holds both equal.
    accelerator_mttf: Duration = item(read.mttf, default=Duration(50_000 * 3600))
    type_facts: TypeFacts | None = item(TypeFacts, default=None)

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

    size: Size = item(read.size, example="146.6 MB")
    per_second_per_accelerator: float = item(read.number(1e-6), example="19.5")
    per_file: float = item(read.number(0.001), default=1.0)


class Tokens(Section):
    """A read rate as tokens."""

    per_second_per_accelerator: float = item(read.number(1e-6), example="165")
    bytes_per_token: float = item(read.number(0.001, 1e9), default=4.0)


class ReadRate(Section):
    """At most one of the four ways to say how fast one accelerator reads."""

    per_accelerator: Rate | None = item(read.rate, default=None)
    samples: Samples | None = item(Samples, default=None)
    tokens: Tokens | None = item(Tokens, default=None)
    reference: str | None = item(read.reference_model, default=None)

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """Only one of the four."""
        yield from at_most_one(given, ("per_accelerator", "samples", "tokens", "reference"))


class Loader(Section):
    """The data loader; only with it latency counts as a limit of the supply."""

    workers_per_accelerator: int = item(read.whole(1, 10_000), example="8")
    prefetch: int = item(read.whole(1, 10_000), example="2")


class Dataset(Section):
    """The data that the job reads."""

    size: Size = item(read.size, example="60 TB")
    version: str | None = item(read.version, default=None)
    file_count: int | None = item(read.whole(1, read.FILES_MAX), default=None)
    average_file_size: Size | None = item(read.size, default=None)
    interface: Interface = item(read.choice(Interface), default="posix")
    access: Access = item(read.choice(Access), default="read-mostly")
    read_rate: ReadRate | None = item(ReadRate, default=None)
    hot_fraction: float = item(read.number(0, 1), default=1.0)
    loader: Loader | None = item(Loader, default=None)
    source: str | None = item(read.source, default=None)

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """One way to say how large a file is."""
        yield from at_most_one(given, ("file_count", "average_file_size"))


class Best(Section):
    """The metric that tells which checkpoint is the best so far."""

    metric: str = item(read.metric, example="eval_loss")
    goal: Goal = item(read.choice(Goal), example="min")


class Checkpoints(Section):
    """What the job saves."""

    parameters: float | None = item(read.number(1), default=None)
    size: Size | None = item(read.size, default=None)
    bytes_per_parameter: float = item(read.number(0.001, 1000), default=14.0)
    interval: Auto | Duration = item(read.auto_or_duration, default=Duration(1800))
    max_write_time: Duration = item(read.duration, default=Duration(60))
    # The write rate divides by the share, and by what it leaves: neither may vanish.
    max_stall: float = item(read.number(1e-6, 0.999), default=0.01)
    max_restore_time: Duration = item(read.duration, default=Duration(300))
    restore_readers: int = item(read.whole(1), default=1)
    restart_time: Duration = item(read.pause, default=Duration(0))
    asynchronous: bool = item(read.flag, default=False)
    keep_hot: int = item(read.whole(1), default=3)
    promote_every: int = item(read.whole(1), default=10)
    best: Best | None = item(Best, default=None)
    incomplete_expire_after: Duration = item(read.unfinished, default=Duration(86400))

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """Exactly one way to say how large a checkpoint is."""
        yield from at_most_one(given, ("parameters", "size"))
        if not given.keys() & {"parameters", "size"}:
            yield Problem(
                what="says neither parameters nor size",
                allowed="exactly one of parameters and size",
                fix="add parameters, such as 70e9, or size, such as 912 GiB",
            )

    @property
    def unfinished_after(self) -> Duration:
        """Age at which a half-written checkpoint counts as one that nobody goes on with; never less than a save."""
        return max(self.incomplete_expire_after, self.max_write_time)

    def values_together(self) -> Iterable[Problem]:
        """A save that is allowed to take its time is not taken for one that has ended half way."""
        given = "incomplete_expire_after" in self.model_fields_set
        if given and self.incomplete_expire_after < self.max_write_time:
            yield Problem(
                what=f"is less than the {self.max_write_time} that one save may take",
                path="incomplete_expire_after",
                value=str(self.incomplete_expire_after),
                allowed=f"{self.max_write_time} or more: max_write_time",
                fix="give a longer time, or leave it out for 1d",
            )


class Monitoring(Section):
    """Settings of dashboard and alarms."""

    enabled: bool = item(read.flag, default=True)
    alarm_email: str | None = item(read.email, default=None)
    alarm_topic_arn: str | None = item(read.topic, default=None)


class Workload(Section):
    """One training workload: the whole file."""

    name: str = item(read.name, example="llama3-70b")
    region: str = item(read.region, example="us-east-1")
    availability_zone_id: str = item(read.zone_id, example="use1-az6")
    account: str | None = item(read.account, default=None)
    network: Network = item(Network, default_factory=Network)
    compute: Compute = item(Compute, example="instance_type and instance_count")
    dataset: Dataset = item(Dataset, example="size")
    checkpoints: Checkpoints | None = item(Checkpoints, default=None)
    scratch_size: Size = item(read.room, default=Size(0))
    hot_tier: HotTier = item(read.choice(HotTier), default="auto")
    file_access: FileAccess = item(read.choice(FileAccess), default="auto")
    lustre: Lustre = item(Lustre, default_factory=Lustre)
    express: Express = item(Express, default_factory=Express)
    s3_files: S3Files = item(S3Files, default_factory=S3Files)
    mountpoint: Mountpoint = item(Mountpoint, default_factory=Mountpoint)
    data_lake: DataLakeSettings = item(DataLakeSettings, default_factory=DataLakeSettings)
    lifecycle: Lifecycle = item(Lifecycle, default_factory=Lifecycle)
    monitoring: Monitoring = item(Monitoring, default_factory=Monitoring)

    @property
    def file_system_removal(self) -> Removal:
        """What becomes of a Lustre file system of ours with its stack: what is given, else what the guard allows.

        With a guard in front the stack takes it along, since the guard lets nothing go that is not in S3; without one
        it stays. One that was there before is never deleted.
        """
        if self.lustre.file_system_id is not None:
            return "retain"
        return self.lustre.removal or ("delete" if self.lifecycle.guard else "retain")

    @property
    def has_guard(self) -> bool:
        """Whether a guard stands in front of the file system: one is asked for, and the stack would take it along."""
        return self.lifecycle.guard and self.file_system_removal == "delete"
