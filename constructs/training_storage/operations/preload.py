"""Bring the listing of a linked bucket prefix into the file system, as a task after the deploy.

An association that imports a huge listing while it is made outlasts CloudFormation (field report 8), so the plan makes
such links without import and this operation runs the import when the stack is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from training_storage.errors import RefusedError
from training_storage.operations.aws import CLIENT_CONFIG, aws_errors
from training_storage.operations.deployment import find_hot_tier
from training_storage.operations.tasks import POLL_S, TaskStatus, follow, start_or_join

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_fsx.client import FSxClient
    from mypy_boto3_fsx.type_defs import DescribeDataRepositoryAssociationsRequestTypeDef


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedPath:
    """One association of the file system.

    Attributes:
        association_id: ``dra-...``.
        path: Path on the file system.
        repository: ``s3://bucket/prefix/``.
        lifecycle: ``AVAILABLE``, ``CREATING``, ``MISCONFIGURED``...
        message: FSx's own words about a failure; empty without one.
    """

    association_id: str
    path: str
    repository: str
    lifecycle: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportResult:
    """How one import ended.

    Attributes:
        link: What was imported.
        task: The task's last status.
    """

    link: LinkedPath
    task: TaskStatus


def list_links(client: FSxClient, file_system_id: str) -> tuple[LinkedPath, ...]:
    """Return the associations of a file system in the order of their paths.

    Raises:
        AwsError: AWS refused or failed.
    """
    found: list[LinkedPath] = []
    request: DescribeDataRepositoryAssociationsRequestTypeDef = {
        "Filters": [{"Name": "file-system-id", "Values": [file_system_id]}]
    }
    with aws_errors("DescribeDataRepositoryAssociations"):
        while True:  # not one of boto3's paginators
            page = client.describe_data_repository_associations(**request)
            found.extend(
                LinkedPath(
                    association_id=item["AssociationId"],
                    path=item["FileSystemPath"],
                    repository=item["DataRepositoryPath"],
                    lifecycle=item["Lifecycle"],
                    message=(item.get("FailureDetails") or {}).get("Message", ""),
                )
                for item in page["Associations"]
            )
            if not page.get("NextToken"):
                return tuple(sorted(found, key=lambda link: link.path))
            request["NextToken"] = page["NextToken"]


def choose_links(links: tuple[LinkedPath, ...], path: str | None) -> tuple[LinkedPath, ...]:
    """Return the links to import: the one at ``path``, or all that are usable.

    Args:
        links: Every link of the file system.
        path: Path of one link; all when left out.

    Raises:
        RefusedError: There is no such link, there is none at all, or one of them is not AVAILABLE.
    """
    if not links:
        raise RefusedError("the file system has no link to S3, so there is nothing to import")
    if path is not None:
        wanted = "/" + path.strip("/")
        chosen = tuple(link for link in links if link.path.rstrip("/") == wanted.rstrip("/"))
        if not chosen:
            known = ", ".join(link.path for link in links)
            raise RefusedError(f"no link at {wanted}; there are links at {known}; fix: pass one of these as --path")
    else:
        chosen = links
    broken = [link for link in chosen if link.lifecycle not in ("AVAILABLE", "UPDATING")]
    if broken:
        lines = "; ".join(
            f"{link.path} ({link.association_id}) is {link.lifecycle}{': ' + link.message if link.message else ''}"
            for link in broken
        )
        raise RefusedError(
            f"{lines}; fix: wait while it is CREATING; for MISCONFIGURED mend the bucket policy, the key policy or the "
            "bucket's FSx notification, then call UpdateDataRepositoryAssociation with only the id"
        )
    return chosen


def import_metadata(
    session: Session,
    name: str,
    *,
    path: str | None = None,
    wait: bool = True,
    on_start: Callable[[LinkedPath, TaskStatus, bool], None] | None = None,
    on_progress: Callable[[LinkedPath, TaskStatus], None] | None = None,
    on_queue: Callable[[LinkedPath, TaskStatus], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    poll_s: float = POLL_S,
) -> tuple[ImportResult, ...]:
    """Import the listing of linked prefixes, one task after another.

    Interrupting is safe: the running task goes on in FSx, and calling again joins it.

    Args:
        session: Session of the account and region.
        name: Workload name.
        path: Path of one link such as ``/datasets``; every link when left out.
        wait: Follow each task to its end. False: start the first (or the one at ``path``) and return.
        on_start: Called with the link, its task, and whether it was started here (False: joined).
        on_progress: Called with each look.
        on_queue: Called while another task is in the way.
        sleep: Replaced in tests.
        poll_s: Seconds between two looks.

    Returns:
        One result a link, in the order in which they were imported.

    Raises:
        RefusedError: Nothing is deployed, a link is missing or broken, or a task is gone.
        AwsError: AWS refused or failed.
    """
    tier = find_hot_tier(session, name)
    with aws_errors("CreateClient"):
        client = session.client("fsx", config=CLIENT_CONFIG)
    links = choose_links(list_links(client, tier.file_system_id), path)
    results: list[ImportResult] = []
    for link in links:

        def queued(status: TaskStatus, link: LinkedPath = link) -> None:
            if on_queue is not None:
                on_queue(link, status)

        status, started = start_or_join(
            client,
            tier.file_system_id,
            "IMPORT_METADATA_FROM_REPOSITORY",
            [link.repository],
            on_wait=queued,
            sleep=sleep,
            poll_s=poll_s,
        )
        if on_start is not None:
            on_start(link, status, started)
        if not wait:
            results.append(ImportResult(link=link, task=status))
            break
        for look in follow(client, status.task_id, sleep=sleep, poll_s=poll_s):
            status = look
            if on_progress is not None:
                on_progress(link, look)
        results.append(ImportResult(link=link, task=status))
    return tuple(results)
