"""Clients of S3 for many requests: enough connections, adaptive retries, times read quickly."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol

import boto3
import botocore.session
from botocore.config import Config
from botocore.utils import parse_timestamp

from training_storage.operations.aws import CLIENT_CONFIG, aws_errors

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client


class Connection(Protocol):
    """Whatever makes clients of S3."""

    def s3(self, connections: int) -> S3Client:
        """Return a client that as many threads may use at once."""


@dataclass(frozen=True, slots=True)
class AwsConnection:
    """Clients that another process can make as well.

    Attributes:
        region: Region; the environment's or profile's when left out.
        profile: Profile of the AWS configuration; the environment's when left out.
    """

    region: str | None = None
    profile: str | None = None

    def s3(self, connections: int) -> S3Client:
        """Return a client that as many threads may use at once.

        Raises:
            AwsError: The profile does not exist, or there is no region.
        """
        with aws_errors("CreateSession"):
            session = botocore.session.Session(profile=self.profile)
            session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=read_time)
            made: Any = boto3.session.Session(botocore_session=session, region_name=self.region).client(
                "s3",
                # A server may copy a GiB before it answers; a checksum of a request's own body proves nothing here.
                config=CLIENT_CONFIG.merge(
                    Config(
                        max_pool_connections=connections,
                        connect_timeout=10,
                        read_timeout=300,
                        tcp_keepalive=True,
                        request_checksum_calculation="when_required",
                    )
                ),
            )
            client: S3Client = made
            return client


def read_time(value: Any) -> datetime:
    """Read a time of an answer; the usual forms in a tenth of what botocore takes, for listings are full of them."""
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        pass
    try:
        return parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return parse_timestamp(value)
