"""From the directory buckets of a workload back to the data lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from training_storage.operations.stage import staging_route
from training_storage.operations.transfer_model import Route

if TYPE_CHECKING:
    from boto3.session import Session


def archive_route(session: Session, name: str, path: str) -> Route:
    """Return the way from the directory buckets of a workload to its data lake, under the same keys.

    Args:
        session: Session of the account and region.
        name: Workload name.
        path: Prefix such as ``checkpoints/``.

    Raises:
        RefusedError: Nothing is deployed under that name, or there is no directory bucket.
        AwsError: AWS refused or failed.
    """
    there = staging_route(session, name, path)
    return Route(sources=there.destinations, destinations=there.sources)
