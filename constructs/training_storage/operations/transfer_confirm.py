"""See where they lie what S3 said it had copied: by listings, a thousand copies a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from training_storage.operations.aws import aws_errors
from training_storage.operations.transfer_errors import judge
from training_storage.operations.transfer_model import Location, Outcome, Route
from training_storage.operations.transfer_verify import look

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

BATCH: Final = 1000
"""What one listing shows."""
_WORTHWHILE: Final = 50
"""A page that shows fewer of the copies asked for than this costs more than looking at each of them."""


class Confirmer:
    """Confirms copies in general purpose buckets, whose listings are in the order of keys.

    Args:
        client: Client of the destination's region.
        route: From where to where.
        threads: Look at single objects.
    """

    def __init__(self, client: S3Client, route: Route, threads: Executor) -> None:
        self._client = client
        self._route = route
        self._threads = threads

    def confirm(self, outcomes: Sequence[Outcome]) -> list[tuple[Outcome, bool]]:
        """Return each outcome with whether its copy lies at the destination with the size and ETag that it should have.

        Raises:
            AwsError: AWS refused or failed.
        """
        answers: list[tuple[Outcome, bool]] = []
        places: dict[int, dict[str, Outcome]] = {}
        for outcome in outcomes:
            index, key = self._route.target(outcome.relative)
            places.setdefault(index, {})[key] = outcome
        for index, waiting in places.items():
            bucket = self._route.destinations[index].bucket
            for key, listed in self._list(self._route.destinations[index], waiting):
                outcome = waiting.pop(key)
                answers.append((outcome, listed == (outcome.size, outcome.copy_etag)))
            looks = self._threads.map(self._look(bucket), waiting.items())
            answers.extend(zip(waiting.values(), looks, strict=True))
        return answers

    def _list(self, place: Location, waiting: Mapping[str, Outcome]) -> list[tuple[str, tuple[int, str]]]:
        """Return what listings show of the copies; those that it would take long to reach are left out."""
        found: list[tuple[str, tuple[int, str]]] = []
        last = max(waiting)
        after = min(waiting)[:-1]  # the nearest text that is surely before
        while len(waiting) - len(found) >= _WORTHWHILE:
            with aws_errors("ListObjectsV2"):
                # A caller may be allowed to list this prefix alone.
                page: Mapping[str, Any] = self._client.list_objects_v2(
                    Bucket=place.bucket, Prefix=place.prefix, StartAfter=after
                )
            items: list[Mapping[str, Any]] = page.get("Contents", [])
            some = [(item["Key"], (item["Size"], item["ETag"].strip('"'))) for item in items if item["Key"] in waiting]
            found.extend(some)
            if len(some) < _WORTHWHILE or not page.get("IsTruncated") or items[-1]["Key"] >= last:
                break
            after = items[-1]["Key"]
        return found

    def _look(self, bucket: str) -> Callable[[tuple[str, Outcome]], bool]:
        def equal(asked: tuple[str, Outcome]) -> bool:
            key, outcome = asked
            try:
                there = look(self._client, bucket, key)
            except ClientError as error:
                if judge(error).meaning == "missing":
                    return False
                with aws_errors("HeadObject"):
                    raise
            return (there.size, there.etag) == (outcome.size, outcome.copy_etag)

        return equal
