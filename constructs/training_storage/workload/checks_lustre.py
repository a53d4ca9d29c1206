"""What the file system needs beyond its own section: service rules, links, and what is loaded and released by them."""

from __future__ import annotations

from collections.abc import Iterator

from training_storage.catalog import Catalog, InstanceType
from training_storage.errors import Problem
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.links import LINK_RULES, LINK_WORKLOAD_PATHS, LinkSettings
from training_storage.rules.lustre import LUSTRE_RULES, LUSTRE_WORKLOAD_PATHS, LustreSettings
from training_storage.rules.lustre_settings import client_os
from training_storage.units import GIB
from training_storage.workload.draft import Draft
from training_storage.workload.lifecycle import Lifecycle
from training_storage.workload.section import shorten
from training_storage.workload.storage import Link, Lustre

_MANY_LINKS = 50


def lustre_settings(
    lustre: Lustre, *, image: str | None, facts: InstanceType | None, catalog: Catalog, linked: bool | None
) -> LustreSettings:
    """Return what a lustre section says as the subject of rules, with the types that follow from what it says.

    Args:
        lustre: The section; a field that is None is passed over.
        image: Image of the nodes, as in ``compute.image``.
        facts: Row of the instance type; None where it is not known.
        catalog: Facts to hold it against.
        linked: Whether the file system has links to S3; None where that is not known.
    """
    given = lustre.model_fields_set
    deployment, storage = lustre.deployment_type, lustre.storage_type
    if deployment is None and "deployment_type" not in given:
        deployment = "PERSISTENT_1" if storage == "HDD" else "PERSISTENT_2"
    if storage is None and "storage_type" not in given:
        storage = "SSD"
    provisioned = lustre.metadata_iops if isinstance(lustre.metadata_iops, int) else None
    capacity = lustre.storage_capacity
    return LustreSettings(
        catalog=catalog,
        deployment_type=deployment,
        storage_type=storage,
        storage_capacity_gib=None if capacity is None else int(capacity.bytes // GIB),
        per_unit_storage_throughput=lustre.per_unit_storage_throughput,
        throughput_capacity_mb_per_s=lustre.throughput_capacity,
        drive_cache_type=lustre.drive_cache_type,
        read_cache_mode=lustre.read_cache_mode,
        read_cache_gib=lustre.read_cache_gib,
        metadata_mode=None if provisioned is None else "USER_PROVISIONED",
        metadata_iops=provisioned,
        efa=lustre.efa if isinstance(lustre.efa, bool) else None,
        gds=lustre.gds,
        compression=None if lustre.compression is None else lustre.compression.upper(),
        file_system_type_version=lustre.file_system_type_version,
        backup_retention_days=lustre.backup_retention_days,
        kms_key=lustre.kms_key_arn,
        linked=linked,
        client_os=client_os(image, facts, catalog),
    )


def lustre_problems(draft: Draft, facts: InstanceType | None, catalog: Catalog) -> Iterator[Problem]:
    """The rules of the service for the file system and its links, and what the instance type can do with it."""
    lustre, image = draft.lustre, draft.compute.image
    linked = None if lustre.links is None and "links" in lustre.model_fields_set else lustre.links != ()
    settings = lustre_settings(lustre, image=image, facts=facts, catalog=catalog, linked=linked)
    yield from relabel(find_problems(LUSTRE_RULES, settings), LUSTRE_WORKLOAD_PATHS)
    links = tuple(_link(link, catalog) for link in lustre.links or ())
    # Rules compare links in pairs: with very many, that there are too many is enough.
    rules = LINK_RULES if len(links) <= _MANY_LINKS else tuple(rule for rule in LINK_RULES if rule.id == "links.count")
    yield from relabel(find_problems(rules, links), LINK_WORKLOAD_PATHS)
    if lustre.gds and facts is not None and not facts.gds:
        yield Problem(
            what=f"is not served on {facts.name}",
            path="lustre.gds",
            value=True,
            allowed="true for types that FSx serves with GPUDirect Storage",
            fix="leave it out",
        )


def _link(link: Link, catalog: Catalog) -> LinkSettings:
    bucket = prefix = None
    if link.source is not None:
        bucket, _, prefix = link.source.removeprefix("s3://").partition("/")
    return LinkSettings(
        catalog=catalog,
        path=link.path,
        bucket=bucket,
        prefix=prefix,
        import_events=link.import_,
        export_events=link.export,
    )


def lifecycle_problems(draft: Draft, _: InstanceType | None, __: Catalog) -> Iterator[Problem]:
    """What releases or loads files needs links: without one there is nothing in S3 to load or to have exported to."""
    lustre, life = draft.lustre, draft.sections["lifecycle"]
    assert isinstance(life, Lifecycle)  # noqa: S101 - narrows for mypy
    if lustre.links == ():
        for key in ("release_data_after", "release_data_when_free_below", "preload_at"):
            if draft.given("lifecycle", key):
                yield Problem(
                    what="needs a link to S3, and lustre.links is empty",
                    path=f"lifecycle.{key}",
                    value=shorten(str(draft.data["lifecycle"][key])),
                    allowed="with links only: files are loaded from S3, and released once they are there",
                    fix=f"leave lifecycle.{key} out, or give links",
                )
    elif lustre.links is not None and life.preload_at is not None:
        bases = [f"/{link.path.strip('/')}" for link in lustre.links if link.path is not None]
        for index, path in enumerate(life.preload_paths or ()):
            inner = f"/{path.strip('/')}" if path is not None else None
            if inner is None or any(_one_holds_the_other(base, inner) for base in bases):
                continue
            given = draft.given("lifecycle", "preload_paths")
            yield Problem(
                what="holds no linked directory and lies in none: there is nothing to load",
                path=f"lifecycle.preload_paths[{index}]" if given else "lifecycle.preload_at",
                value=shorten(path) if given else "/datasets, which is loaded where preload_paths is not given",
                allowed=shorten(f"directories at or below {', '.join(bases)}"),
                fix="change the path" if given else "add lifecycle.preload_paths",
            )


def _one_holds_the_other(one: str, other: str) -> bool:
    return one == other or "/" in (one, other) or one.startswith(f"{other}/") or other.startswith(f"{one}/")
