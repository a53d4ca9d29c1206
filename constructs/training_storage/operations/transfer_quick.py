"""CopyObject at half of botocore's price in processor time, with botocore as the judge.

A transfer of small objects is bound by what a request costs here. The first copy to a bucket goes through botocore,
which finds the endpoint and the scope of the signature; those after it are signed and sent with botocore's parts alone.
Whatever is not a plain success, an error or a line that broke, is asked again through botocore: it retries, and its
errors are told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from threading import local
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError
from botocore.httpsession import URLLib3Session

if TYPE_CHECKING:
    from botocore.credentials import Credentials
    from mypy_boto3_s3.client import S3Client

REST_S: Final = 30.0
"""So long after a failure botocore does everything: it knows how to slow down."""
_SAFE: Final = "/~"


class _Template(NamedTuple):
    """What botocore's request to a bucket shows."""

    base: str
    region: str
    service: str


class QuickCopier:
    """Sends CopyObject.

    Args:
        client: Copies what this can't.
        credentials: Those of the client.
        session: Sends requests, with the client's timeouts, certificates and proxies.
        clock: Replaced in tests.
    """

    def __init__(
        self,
        client: S3Client,
        credentials: Credentials,
        session: URLLib3Session,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._credentials = credentials
        self._session = session
        self._clock = clock
        self._templates: dict[str, _Template] = {}
        self._rests_until = 0.0
        self._asked = local()
        client.meta.events.register("before-send.s3.CopyObject", self._watch)

    def copy(self, bucket: str, key: str, headers: Mapping[str, str]) -> Mapping[str, str] | None:
        """Copy an object.

        Args:
            bucket: Bucket of the destination.
            key: Key there.
            headers: Headers of the request; ``x-amz-copy-source`` is quoted.

        Returns:
            What S3 says about the copy: ``ETag`` and ``Checksum...``. None: nothing is known, ask through botocore.
        """
        template = self._templates.get(bucket)
        self._asked.last = (bucket, key)  # of this thread: the request that botocore sends next is for it
        if template is None or self._clock() < self._rests_until:
            return None
        request = AWSRequest("PUT", template.base + quote(key, safe=_SAFE), headers=dict(headers))
        try:
            frozen = self._credentials.get_frozen_credentials()
            S3SigV4Auth(frozen, template.service, template.region).add_auth(request)
            answer = self._session.send(request.prepare())
            if answer.status_code == 200:
                root = ElementTree.fromstring(answer.content)  # noqa: S314 - what botocore does with it as well
                if root.tag.rpartition("}")[2] == "CopyObjectResult":
                    return {child.tag.rpartition("}")[2]: child.text or "" for child in root}
            if answer.status_code in (404, 412):
                return None  # the object is not what it was: nothing is wrong with S3
        except (BotoCoreError, ElementTree.ParseError):
            pass
        self._rests_until = self._clock() + REST_S
        return None

    def _watch(self, request: Any, **_: Any) -> None:
        """Learn from a request of botocore where a bucket is and how requests to it are signed."""
        bucket, key = getattr(self._asked, "last", ("", ""))
        path = quote(key, safe=_SAFE)
        scope = _text(request.headers.get("Authorization", "")).partition("Credential=")[2].partition(",")[0].split("/")
        # Sessions of S3 Express sign by other means, and a query is none of ours.
        plain = key and request.url.endswith(f"/{path}") and "X-Amz-S3session-Token" not in request.headers
        if bucket not in self._templates and plain and len(scope) == 5:
            self._templates[bucket] = _Template(request.url.removesuffix(path), scope[2], scope[3])


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
