"""Copies that are sent past botocore: the same request, and botocore's judgement of everything but a success."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError, ConnectionClosedError
from hypothesis import given, settings
from hypothesis import strategies as st

from training_storage.operations.transfer_copy import ObjectCopier
from training_storage.operations.transfer_model import Entry, Location, Route
from training_storage.operations.transfer_quick import REST_S, QuickCopier

LAKE, GENERAL, HOT = "lake", "other-lake", "hot--use1-az6--x-s3"
COPIED = (
    b'<?xml version="1.0"?><CopyObjectResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    b"<ETag>&quot;abc&quot;</ETag><ChecksumCRC32>NhCmhg==</ChecksumCRC32></CopyObjectResult>"
)
REFUSED = b"<Error><Code>%s</Code><Message>said S3</Message></Error>"


class Raw:
    """The body of an answer."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def stream(self, **_: Any) -> Any:
        yield self.body


class Aws:
    """A client whose requests are caught before they are sent, and a session that catches those sent past it."""

    def __init__(self) -> None:
        options: dict[str, Any] = {
            "region_name": "us-east-1", "aws_access_key_id": "testing", "aws_secret_access_key": "testing",
            "aws_session_token": "token",
        }  # fmt: skip
        self.session = boto3.session.Session(**options)
        self.client: Any = self.session.client("s3")
        self.through: list[Any] = []
        self.past: list[Any] = []
        self.answers: list[Any] = []
        self.now = 0.0
        parts: list[Any] = [self.client, self.session.get_credentials(), self]
        self.quick = QuickCopier(*parts, clock=lambda: self.now)
        self.client.meta.events.register("before-send.s3", self._catch)

    def _catch(self, request: Any, **_: Any) -> Any:
        self.through.append(request)
        return self._answer(request)

    def send(self, request: Any) -> AWSResponse:
        self.past.append(request)
        return self._answer(request)

    def _answer(self, request: Any) -> AWSResponse:
        status, body = self.answers.pop(0) if self.answers else (200, COPIED)
        if isinstance(status, Exception):
            raise status
        headers: Any = {}
        return AWSResponse(request.url, status, headers, Raw(body))

    def copy(self, key: str, bucket: str = GENERAL) -> Any:
        route = Route((Location(bucket=LAKE),), (Location(bucket=bucket),))
        copier = ObjectCopier(self.client, route, quick=self.quick)
        entry = Entry(0, key, 5, "abc")
        return copier.copy(entry, copier.where(entry))


@pytest.fixture
def aws() -> Aws:
    return Aws()


def shown(request: Any) -> dict[str, str]:
    """Return what matters of a request."""
    text = {
        name.lower(): value.decode() if isinstance(value, bytes) else value for name, value in request.headers.items()
    }
    kept = {name: value for name, value in text.items() if name.startswith("x-amz-") and name != "x-amz-date"}
    scope = text["authorization"].partition("Credential=")[2].partition(",")[0].split("/")[2:]
    return kept | {"url": request.url, "method": request.method, "scope": "/".join(scope)}


@pytest.mark.parametrize("bucket", [GENERAL, HOT])
def test_the_request_is_the_one_that_botocore_makes(aws: Aws, bucket: str) -> None:
    @settings(max_examples=100, deadline=None)
    @given(st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=20))
    def check(key: str) -> None:
        aws.quick._templates.clear()
        aws.copy(key, bucket)
        aws.copy(key, bucket)
        known, quick = shown(aws.through[-1]), shown(aws.past[-1])
        assert quick == {name: known[name] for name in known if name != "x-amz-user-agent"}

    check()
    assert len(aws.through) == len(aws.past)


def test_each_bucket_is_learnt_by_itself_and_directory_buckets_are_signed_as_such(aws: Aws) -> None:
    for bucket in (GENERAL, HOT, GENERAL, HOT):
        aws.copy("key", bucket)
    assert [shown(request)["scope"] for request in aws.past] == [
        "us-east-1/s3/aws4_request",
        "us-east-1/s3express/aws4_request",
    ]


def test_what_s3_says_about_the_copy_is_returned(aws: Aws) -> None:
    aws.copy("one")
    said = aws.copy("two")
    assert {name: said[name].strip('"') for name in said} == {"ETag": "abc", "ChecksumCRC32": "NhCmhg=="}


@pytest.mark.parametrize(("status", "code"), [(412, b"PreconditionFailed"), (404, b"NoSuchKey")])
def test_an_object_that_changed_is_told_by_botocore_and_the_next_is_quick_again(
    aws: Aws, status: int, code: bytes
) -> None:
    aws.copy("one")
    aws.answers = [(status, REFUSED % code)] * 2
    with pytest.raises(ClientError, match=code.decode()):
        aws.copy("two")
    aws.copy("three")
    assert len(aws.past) == 2


@pytest.mark.parametrize(
    "answer",
    [
        (503, REFUSED % b"SlowDown"),
        (403, REFUSED % b"AccessDenied"),
        (200, REFUSED % b"InternalError"),  # S3 may fail after it has said 200
        (200, b"no xml"),
        (ConnectionClosedError(endpoint_url="https://s3"), b""),
    ],
    ids=["busy", "denied", "failed after 200", "nonsense", "broken line"],
)
def test_after_any_other_failure_botocore_does_everything_for_a_while(aws: Aws, answer: Any) -> None:
    aws.copy("one")
    aws.answers = [answer]
    assert aws.copy("two")["ETag"].strip('"') == "abc"
    aws.copy("three")
    assert (len(aws.past), len(aws.through)) == (1, 3)
    aws.now = REST_S
    aws.copy("four")
    assert len(aws.past) == 2
