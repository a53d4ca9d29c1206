"""Links between the file system and S3: the default ones, or those that are given."""

from __future__ import annotations

from collections.abc import Iterable

from training_storage.planner.draft import Draft
from training_storage.planner.model import LinkPlan
from training_storage.planner.words import number
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.links import (
    LINK_RULES,
    LINK_WORKLOAD_PATHS,
    LinkSettings,
    normalized_path,
    normalized_prefix,
    prefixes_overlap,
)
from training_storage.workload.model import Workload

IMPORT_ON_CREATE_FILES = 3_000_000
"""Files up to which the listing is imported while a link is made; more would outlast CloudFormation (over 4 million
objects took more than an hour in aws-parallelcluster issue 4211)."""

CHECKPOINTS_PREFIX = "checkpoints/"


def split_source(source: str) -> tuple[str, str]:
    """Return bucket and prefix of ``s3://bucket/prefix/``."""
    bucket, _, prefix = source.removeprefix("s3://").partition("/")
    return bucket, normalized_prefix(prefix)


def lake_or_bucket(workload: Workload, bucket: str) -> str | None:
    """Return None where the bucket is the data lake of this workload, else its name."""
    return None if bucket in (workload.data_lake.bucket, workload.data_lake.bucket_name) else bucket


def dataset_source(workload: Workload) -> tuple[str | None, str]:
    """Return bucket (None: the data lake) and prefix of the data set."""
    dataset = workload.dataset
    if dataset.source is not None:
        bucket, prefix = split_source(dataset.source)
        return lake_or_bucket(workload, bucket), prefix
    return None, f"datasets/{dataset.version}/" if dataset.version else "datasets/"


def covers_dataset(links: Iterable[LinkPlan], workload: Workload) -> bool:
    """Whether a link brings the whole data set: its files come from S3 when they are first read.

    A link that is made without importing its listing counts too: the plan says that the import is a task of its own.

    Args:
        links: The links of the file system.
        workload: The workload.
    """
    bucket, prefix = dataset_source(workload)
    return any(link.bucket == bucket and prefix.startswith(link.prefix) for link in links)


def touches_dataset(links: Iterable[LinkPlan], workload: Workload) -> bool:
    """Whether a link brings the data set or a part of it; arguments as above."""
    bucket, prefix = dataset_source(workload)
    return any(link.bucket == bucket and prefixes_overlap(link.prefix, prefix) for link in links)


def plan_links(draft: Draft) -> tuple[LinkPlan, ...]:
    """Return the links in the order in which they are made; problems go to the draft."""
    given, existing = draft.workload.lustre.links, draft.workload.lustre.file_system_id
    if given is None and existing is not None:
        draft.assume(f"the links of {existing} are as they should be: nothing is looked up, and none is made")
        return ()
    links = _default_links(draft) if given is None else _given_links(draft)
    if given is not None or draft.workload.dataset.source is not None:
        _check(draft, links)
    for link in links:
        if not link.import_metadata_on_create:
            draft.warn(
                "metadata-import-as-task",
                f"the link at {link.path} is made without importing its listing: run "
                f"`training-storage preload {draft.workload.name} --metadata` when the file system is there, or the "
                "directory stays empty",
            )
    return links


def _check(draft: Draft, links: tuple[LinkPlan, ...]) -> None:
    lake = draft.workload.data_lake
    lake_name = lake.bucket or lake.bucket_name or "DATA-LAKE"
    settings = tuple(
        LinkSettings(
            catalog=draft.catalog,
            path=link.path,
            bucket=link.bucket or lake_name,
            prefix=link.prefix,
            import_events=link.import_events,
            export_events=link.export_events,
        )
        for link in links
    )
    given = draft.workload.lustre.links is not None
    # The default links have one field of the file behind them.
    paths = LINK_WORKLOAD_PATHS if given else dict.fromkeys(LINK_WORKLOAD_PATHS, "dataset.source")
    draft.problems.extend(relabel(find_problems(LINK_RULES, settings), paths))


def _default_links(draft: Draft) -> tuple[LinkPlan, ...]:
    bucket, prefix = dataset_source(draft.workload)
    datasets = LinkPlan(
        path="/datasets",
        bucket=bucket,
        prefix=prefix,
        import_events=("new", "changed"),
        export_events=(),
        import_metadata_on_create=_imports_on_create(draft, bucket, prefix),
    )
    if draft.workload.checkpoints is None:
        return (datasets,)
    checkpoints = LinkPlan(
        path="/checkpoints",
        bucket=None,
        prefix=CHECKPOINTS_PREFIX,
        import_events=(),
        export_events=(),
        import_metadata_on_create=True,
    )
    return (datasets, checkpoints)


def _given_links(draft: Draft) -> tuple[LinkPlan, ...]:
    planned: list[LinkPlan] = []
    for link in draft.workload.lustre.links or ():
        name, prefix = split_source(link.source)
        bucket = lake_or_bucket(draft.workload, name)
        on_create = link.import_metadata_on_create
        planned.append(
            LinkPlan(
                path=normalized_path(link.path),
                bucket=bucket,
                prefix=prefix,
                import_events=link.import_,
                export_events=link.export,
                import_metadata_on_create=_imports_on_create(draft, bucket, prefix) if on_create is None else on_create,
            )
        )
    return tuple(planned)


def _imports_on_create(draft: Draft, bucket: str | None, prefix: str) -> bool:
    """Whether the listing is small enough to be imported while the link is made; an unknown one counts as small."""
    source_bucket, source_prefix = dataset_source(draft.workload)
    if bucket != source_bucket or not prefixes_overlap(prefix, source_prefix):
        return True
    files = draft.needs.file_count
    if files is None:
        draft.assume(
            f"the number of files is not known; it counts as at most {IMPORT_ON_CREATE_FILES:,}, so that the listing "
            "is imported while the link is made (give dataset.file_count or dataset.average_file_size)"
        )
        return True
    if files <= IMPORT_ON_CREATE_FILES:
        return True
    draft.choose(
        "links.import",
        "task",
        f"{number(files)} files are more than the {IMPORT_ON_CREATE_FILES:,} that can be imported while a link is made",
    )
    draft.reject(
        "links.import", "on-create", f"importing {number(files)} files would outlast what CloudFormation waits for"
    )
    return False
