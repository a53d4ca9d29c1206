"""Clients of S3 for many requests: enough connections, adaptive retries, times read quickly."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol

import boto3
import botocore
import botocore.session
from botocore.config import Config
from botocore.handlers import BUILTIN_HANDLERS
from botocore.httpsession import URLLib3Session
from botocore.utils import get_environ_proxies, parse_timestamp

from training_storage.operations.aws import CLIENT_CONFIG, aws_errors
from training_storage.operations.transfer_quick import QuickCopier

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
        return self._client(self._session(), connections)

    def quick(self, connections: int) -> tuple[S3Client, QuickCopier | None]:
        """Return a client and what sends most copies in its place; nothing where there are no plain credentials.

        Raises:
            AwsError: The profile does not exist, or there is no region.
        """
        session = self._session()
        client = self._client(session, connections)
        credentials = session.get_credentials()
        config: Any = client.meta.config
        if (
            is_answered_inside()
            or credentials is None
            or config.client_cert
            or config.signature_version is botocore.UNSIGNED
        ):
            return client, None
        verify: Any = session.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE", True)
        timeout: Any = (config.connect_timeout, config.read_timeout)
        sender = URLLib3Session(
            verify=verify,
            proxies=config.proxies or get_environ_proxies(client.meta.endpoint_url),
            proxies_config=config.proxies_config,
            timeout=timeout,
            max_pool_connections=connections,
        )
        return client, QuickCopier(client, credentials, sender)

    def _session(self) -> botocore.session.Session:
        with aws_errors("CreateSession"):
            session = botocore.session.Session(profile=self.profile)
            session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=read_time)
            return session

    def _client(self, session: botocore.session.Session, connections: int) -> S3Client:
        with aws_errors("CreateSession"):
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


def is_answered_inside() -> bool:
    """Whether something in this process answers the requests of every client, as an emulator of tests does.

    What leaves the process, or goes past botocore, would not reach it, but AWS.
    """
    # Such a thing may stay there when it is over, and says then that it is not enabled.
    handlers = (handler for name, handler, *_ in BUILTIN_HANDLERS if name.startswith("before-send"))
    return any(getattr(handler, "enabled", True) for handler in handlers)


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
