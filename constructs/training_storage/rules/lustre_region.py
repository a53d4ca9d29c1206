"""Rules of a Lustre file system that come from its region: types, tiers and EFA are not offered everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from training_storage.catalog.model import Region
from training_storage.errors import Problem
from training_storage.rules.base import Rule, rule
from training_storage.rules.lustre_settings import GUIDE, PERSISTENT_2, LustreSettings, listed, row_of
from training_storage.rules.subject import catalog_of

_PAGE: Final = f"{GUIDE}, deployment options by region; catalog, regions"
_HERE: Final = replace(PERSISTENT_2, region="us-east-1")
_FULL: Final = "a region that the catalog has with every tier, such as us-east-1"


def _region_of(settings: LustreSettings) -> Region | None:
    """Return what is known of the region of a PERSISTENT_2 file system; other types are offered wherever FSx is."""
    if settings.deployment_type != "PERSISTENT_2" or settings.region is None:
        return None
    return catalog_of(settings).regions.get(settings.region)


@rule(
    id="lustre.region-deployment-type",
    statement="PERSISTENT_2 is asked for in a region that has it.",
    reason="Some regions have the older deployment types only, GovCloud among them, and FSx refuses the file system.",
    source=_PAGE,
    passes=_HERE,
    fails=replace(_HERE, region="us-gov-west-1"),
)
def _deployment_type(settings: LustreSettings) -> Iterator[Problem]:
    region = _region_of(settings)
    if region is not None and region.lustre_tiers == ():
        yield Problem(
            what=f"{region.name} has no PERSISTENT_2 file systems",
            path="deployment_type",
            value=settings.deployment_type,
            allowed="SCRATCH_2 and PERSISTENT_1 in this region",
            fix="use SCRATCH_2, or PERSISTENT_1 with its tier, or another region; where AWS offers it since, say so in "
            "lustre_tiers of a catalog file",
        )


@rule(
    id="lustre.region-tier",
    statement="The tier is one that the region offers.",
    reason="Some regions have the tiers of 125 and 250 MB/s per TiB alone.",
    source=_PAGE,
    passes=replace(_HERE, region="ca-west-1"),
    fails=replace(_HERE, region="ca-west-1", per_unit_storage_throughput=500),
)
def _tier(settings: LustreSettings) -> Iterator[Problem]:
    region, row, tier = _region_of(settings), row_of(settings), settings.per_unit_storage_throughput
    if region is None or row is None or not region.lustre_tiers or tier not in row.tiers:
        return
    offered = tuple(each for each in row.tiers if each in region.lustre_tiers)
    if tier not in offered:
        yield Problem(
            what=f"{region.name} does not offer this tier",
            path="per_unit_storage_throughput",
            value=tier,
            allowed=f"{listed(offered)} MB/s per TiB",
            fix=f"take one of these with more capacity, or {_FULL}",
        )


@rule(
    id="lustre.region-efa",
    statement="EFA is asked for in a region that has EFA-enabled file systems.",
    reason="FSx refuses the file system elsewhere.",
    source=_PAGE,
    passes=replace(_HERE, efa=True, storage_capacity_gib=19_200),
    fails=replace(_HERE, region="ca-west-1", efa=True, storage_capacity_gib=19_200),
)
def _efa(settings: LustreSettings) -> Iterator[Problem]:
    region = _region_of(settings)
    if region is not None and settings.efa and region.lustre_tiers != () and region.lustre_efa is False:
        yield Problem(
            what=f"{region.name} has no EFA-enabled file systems",
            path="efa",
            value=True,
            allowed="a file system without EFA in this region",
            fix=f"leave it out, so that clients use TCP, or take {_FULL}",
        )


REGION_RULES: Final[tuple[Rule[LustreSettings], ...]] = (_deployment_type, _tier, _efa)
"""What the region decides."""
