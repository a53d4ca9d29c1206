"""The shape of a row in a data file, for checking: a user's rows at run time, and our own in the tests.

The description of a field is what a message names as allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from training_storage.catalog.efa import efa_layout
from training_storage.errors import CatalogError, Problem

Above0 = Annotated[float, Field(gt=0)]
From0 = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Count1 = Annotated[int, Field(ge=1)]
Text = Annotated[str, Field(min_length=1)]
MOST_USD = 1e9
"""Prices above it are slips; what a plan adds and multiplies stays finite below it."""
LEAST_USD = 1e-12
"""Prices below it, other than 0, are slips too: what is divided by one would leave the range of floats."""


def _no_dust(usd: float) -> float:
    if 0 < usd < LEAST_USD:
        raise ValueError
    return usd


Usd = Annotated[float, Field(ge=0, le=MOST_USD), AfterValidator(_no_dust)]
Latency = Annotated[float, Field(ge=1e-9, le=1e6)]
StreamRate = Annotated[float, Field(ge=1e-6, le=1e9)]
Tier = Annotated[str, Field(pattern=r"^\d+$")]
ByTier = Annotated[dict[Tier, Above0], Field(description="numbers above 0 by tier; 0 without tiers")]
GibByTier = Annotated[dict[Tier, Count1], Field(description="whole GiB by tier; 0 without tiers")]


class Shape(BaseModel):
    """Base of every row: no unknown key, no conversion of types, no infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    def problems(self) -> Iterator[Problem]:
        """Yield what is wrong between fields; the path is the field's name."""
        yield from ()


class SourceShape(Shape):
    """A source."""

    text: Text = Field(description="text that says what was read")
    date: str = Field("", pattern=r"^(\d{4}-\d{2}-\d{2})?$", description="an ISO date such as 2026-11-30")
    trust: str = Field("user", description="text; rows of this file count as user whatever it says")


class InstanceTypeShape(Shape):
    """A row of ``instance_types``. What a new row must give is what ``type_facts`` must give."""

    accelerators: Above0 = Field(description="a number above 0; fractions of a GPU count as such")
    accelerator_model: Text | None = Field(None, description="text such as H200, or null")
    accelerator_manufacturer: Text | None = Field(None, description="text such as NVIDIA, or null")
    accelerator_memory_gib: Above0 | None = Field(None, description="a number above 0 in GiB, or null")
    vcpus: Count1 | None = Field(None, description="a whole number from 1, or null")
    memory_gib: Above0 | None = Field(None, description="a number above 0 in GiB, or null")
    architecture: Literal["x86_64", "arm64"] = Field(description="x86_64 or arm64")
    network_gbps: Above0 = Field(description="a number above 0 in Gbit/s")
    ip_gbps: Above0 | None = Field(None, description="a number above 0 in Gbit/s; null takes the rule of our layout")
    network_cards: Count1 = Field(description="a whole number from 1")
    efa_interfaces: Count = Field(description="a whole number, 0 without EFA")
    primary_card_has_efa: bool = Field(description="true or false")
    efa_cards: list[Count] | None = Field(None, description="card numbers, one for each EFA interface, or null")
    local_nvme_gb: From0 = Field(0, description="a number from 0 in GB")
    local_nvme_disks: Count = Field(0, description="a whole number from 0")
    fsx_efa_client: bool | None = Field(None, description="true, false, or null where it is not known")
    fsx_efa_interfaces: Count | None = Field(None, description="a whole number from 0; null takes the FSx default")
    gds: bool | None = Field(None, description="true, false, or null where it is not known")
    image_family: Literal["dl-base-gpu", "neuron"] | None = Field(None, description="dl-base-gpu, neuron or null")
    usage_classes: list[Literal["on-demand", "spot", "capacity-block"]] = Field(
        ["on-demand", "spot", "capacity-block"], description="a list of on-demand, spot, capacity-block"
    )
    placement_strategies: list[Text] = Field(["cluster"], description="a list such as [cluster, partition, spread]")
    capacity_block: bool = Field(True, description="true or false")

    def problems(self) -> Iterator[Problem]:
        """Check that the EFA interfaces fit the cards."""
        try:
            efa_layout(self.network_cards, self.efa_interfaces, self.primary_card_has_efa)
        except CatalogError as error:
            yield from error.problems
            return
        if self.efa_cards is not None:
            first = 0 if self.primary_card_has_efa else 1
            fits = all(first <= card < self.network_cards for card in self.efa_cards)
            if not fits or self.efa_cards != sorted(set(self.efa_cards)) or len(self.efa_cards) != self.efa_interfaces:
                yield Problem(
                    what="EFA cards do not match the cards and interfaces",
                    path="efa_cards",
                    value=self.efa_cards,
                    allowed=f"{self.efa_interfaces} ascending card numbers from {first} to {self.network_cards - 1}",
                )
        if self.fsx_efa_interfaces is not None and self.fsx_efa_interfaces > self.efa_interfaces:
            yield Problem(
                what="more EFA connections to FSx than EFA interfaces",
                path="fsx_efa_interfaces",
                value=self.fsx_efa_interfaces,
                allowed=f"at most {self.efa_interfaces}",
            )
        if self.capacity_block != ("capacity-block" in self.usage_classes):
            yield Problem(
                what="capacity_block and usage_classes say different things",
                path="capacity_block",
                value=self.capacity_block,
                allowed="true with capacity-block among usage_classes, else false",
            )


class ImageFamilyShape(Shape):
    """A row of ``image_families``."""

    parameters: dict[Literal["x86_64", "arm64"], Annotated[str, Field(pattern=r"^/.+")]] = Field(
        description="SSM parameter names that begin with /, by x86_64 and arm64"
    )


class RegionShape(Shape):
    """A row of ``regions``."""

    partition: Text = Field(description="a partition such as aws")
    zone_id_prefix: str = Field(pattern=r"^[a-z]+\d+$", description="the start of its zone IDs such as use1")
    zone_ids: list[Text] = Field([], description="a list of zone IDs such as use1-az6")
    lustre_tiers: list[Count1] | None = Field(None, description="a list of MB/s per TiB; empty: none, null: not known")
    lustre_efa: bool | None = Field(None, description="true, false, or null where it is not known")
    express_zone_ids: list[Text] = Field([], description="a list of zone IDs, empty for none")
    s3_files: bool | None = Field(None, description="true, false, or null where it is not known")

    def problems(self) -> Iterator[Problem]:
        """Check that zone IDs are of this region."""
        for name in ("zone_ids", "express_zone_ids"):
            for zone in getattr(self, name):
                if not zone.startswith(f"{self.zone_id_prefix}-"):
                    yield Problem(
                        what="zone ID of another region",
                        path=name,
                        value=zone,
                        allowed=f"IDs that begin with {self.zone_id_prefix}-",
                        fix="give zone IDs, not zone names such as us-east-1a",
                    )


class ReferenceWorkloadShape(Shape):
    """A row of ``reference_workloads``."""

    sample_bytes: Above0 = Field(description="a number above 0 in bytes")
    batch_size: Count1 = Field(description="a whole number from 1")
    samples_per_file: Count1 = Field(1, description="a whole number from 1")
    step_s: Above0 = Field(description="a number above 0 in seconds")
    au_threshold: Annotated[float, Field(gt=0, le=1)] = Field(description="a number above 0, at most 1")


class PriceTierShape(Shape):
    """A price that holds from some units of a month on."""

    above: Above0
    usd: Usd


class PriceShape(Shape):
    """A row of ``prices``."""

    unit: Text = Field(description="text such as GiB-month")
    usd: Usd | None = Field(description="0 or a number from 1e-12 to 1e9 in USD, or null where it is not known")
    tiers: list[PriceTierShape] = Field(
        [], description="a list of {above: units of a month, usd: price of each unit beyond them}"
    )

    def problems(self) -> Iterator[Problem]:
        """Check that the tiers ascend, and that there is a price before the first."""
        above = [tier.above for tier in self.tiers]
        if above != sorted(set(above)):
            yield Problem(
                what="tiers that do not ascend",
                path="tiers",
                value=above,
                allowed="each above more than the one before",
            )
        if self.tiers and self.usd is None:
            yield Problem(
                what="tiers without a price of the first units",
                path="tiers",
                value=above,
                allowed="no tiers where usd is null",
            )


class StorageOptionShape(Shape):
    """A row of ``lustre_options``."""

    first_gib: list[Count1] = Field([], description="a list of GiB, ascending")
    step_gib: GibByTier
    efa_step_gib: GibByTier = Field({}, description="GiB by tier, empty without EFA")
    tiers: list[Count1] = Field([], description="a list of MB/s per TiB, empty without tiers")
    read_mb_per_s_per_tib: ByTier
    write_mb_per_s_per_tib: ByTier
    gib_per_server: GibByTier
    links: bool = Field(description="true or false")
    backups: bool = Field(description="true or false")
    kms: bool = Field(description="true or false")
    metadata_configuration: bool = Field(description="true or false")
    versions: list[Annotated[str, Field(pattern=r"^\d+\.\d+$")]] = Field(
        description='a list of versions such as "2.15"'
    )

    def problems(self) -> Iterator[Problem]:
        """Check that every number by tier has each tier."""
        wanted = {str(tier) for tier in self.tiers} or {"0"}
        for name in ("step_gib", "efa_step_gib", "read_mb_per_s_per_tib", "write_mb_per_s_per_tib", "gib_per_server"):
            given = set(getattr(self, name))
            if given and given != wanted:
                yield Problem(
                    what="numbers for other tiers than the option has",
                    path=name,
                    value=", ".join(sorted(given)),
                    allowed=", ".join(sorted(wanted, key=int)),
                )


class StorageClassShape(Shape):
    """A row of ``storage_classes``."""

    first_transition_day: Count | None = Field(description="a whole number of days from 0, or null")
    minimum_billed_days: Count | None = Field(description="a whole number of days from 0, or null")
    readable: bool = Field(description="true or false")


class MountpointThroughputShape(Shape):
    """A row of ``mountpoint_throughput``."""

    gbps: Above0 = Field(description="a number above 0 in Gbit/s")


class ReadLatencyShape(Shape):
    """A row of ``read_latencies``."""

    low_s: Latency | None = Field(
        None, description="seconds from 1e-9 to 1e6, or null where only an upper end is known"
    )
    high_s: Latency | None = Field(description="seconds from 1e-9 to 1e6, or null where it is not known")
    below_bytes: Count1 | None = Field(None, description="a whole number of bytes, or null for reads of any size")

    def problems(self) -> Iterator[Problem]:
        """Check that the range is one."""
        yield from _upside_down(self.low_s, self.high_s, "low_s", "high_s")


class StreamRateShape(Shape):
    """A row of ``stream_rates``."""

    low_mb_per_s: StreamRate | None = Field(description="MB/s from 1e-6 to 1e9, or null where it is not known")
    high_mb_per_s: StreamRate | None = Field(
        None, description="MB/s from 1e-6 to 1e9, or null where only a lower end is known"
    )

    def problems(self) -> Iterator[Problem]:
        """Check that the range is one."""
        yield from _upside_down(self.low_mb_per_s, self.high_mb_per_s, "low_mb_per_s", "high_mb_per_s")


def _upside_down(low: float | None, high: float | None, low_name: str, high_name: str) -> Iterator[Problem]:
    if low is not None and high is not None and low > high:
        yield Problem(what=f"above {high_name}", path=low_name, value=low, allowed=f"at most {high:g}")


class FailureRateShape(Shape):
    """A row of ``failure_rates``."""

    accelerator_mttf_h: Annotated[float, Field(ge=1, le=1e8)] = Field(description="hours from 1 to 1e8")


class ConstantShape(Shape):
    """A row of ``lustre_limits`` or ``object_storage``; ``like`` says what kind of value it is."""

    value: Any = Field(description="a value of the kind that the catalog has")
    unit: Text = Field(description="text such as MB/s")


SHAPES: dict[str, type[Shape]] = {
    "instance_types": InstanceTypeShape,
    "image_families": ImageFamilyShape,
    "regions": RegionShape,
    "reference_workloads": ReferenceWorkloadShape,
    "prices": PriceShape,
    "lustre_options": StorageOptionShape,
    "lustre_limits": ConstantShape,
    "object_storage": ConstantShape,
    "storage_classes": StorageClassShape,
    "mountpoint_throughput": MountpointThroughputShape,
    "read_latencies": ReadLatencyShape,
    "stream_rates": StreamRateShape,
    "failure_rates": FailureRateShape,
}
"""The shape of a row, by table."""
