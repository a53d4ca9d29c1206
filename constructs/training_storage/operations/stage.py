"""From the data lake to the directory buckets of a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from training_storage.operations.deployment import find_buckets
from training_storage.operations.transfer_model import Location, Route, as_prefix

if TYPE_CHECKING:
    from boto3.session import Session


def staging_route(session: Session, name: str, path: str) -> Route:
    """Return the way from the data lake of a workload to its directory buckets, under the same keys.

    Args:
        session: Session of the account and region.
        name: Workload name.
        path: Prefix such as ``datasets/v3/``.

    Raises:
        RefusedError: Nothing is deployed under that name, or there is no directory bucket.
        AwsError: AWS refused or failed.
    """
    found = find_buckets(session, name)
    prefix = as_prefix(path.lstrip("/"))
    return Route(
        sources=(Location(bucket=found.data_lake, prefix=prefix),),
        destinations=tuple(Location(bucket=bucket, prefix=prefix) for bucket in found.directory_buckets),
    )
