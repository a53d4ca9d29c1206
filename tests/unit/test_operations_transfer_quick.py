"""Copies that are sent past botocore: the same request, and botocore's judgement of everything but a success."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import ClientError, ConnectionClosedError, CredentialRetrievalError
from hypothesis import given, settings
from hypothesis import strategies as st

from training_storage.operations.transfer_connection import AwsConnection
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

    def __init__(self, region: str = "us-east-1", **client: Any) -> None:
        options: dict[str, Any] = {
            "region_name": region, "aws_access_key_id": "testing", "aws_secret_access_key": "testing",
            "aws_session_token": "token",
        }  # fmt: skip
        self.session = boto3.session.Session(**options)
        self.client: Any = self.session.client("s3", **client)
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


@pytest.mark.parametrize(
    ("region", "client"),
    [
        ("cn-north-1", {}),
        ("us-gov-west-1", {"config": Config(use_fips_endpoint=True)}),
        ("eu-west-1", {"config": Config(use_dualstack_endpoint=True)}),
        ("eu-west-1", {"config": Config(s3={"addressing_style": "path"})}),
        ("eu-west-1", {"config": Config(s3={"use_accelerate_endpoint": True})}),
        ("eu-west-1", {"config": Config(s3={"payload_signing_enabled": True})}),
        ("us-east-1", {"endpoint_url": "http://127.0.0.1:9000/below"}),
        ("us-east-1", {"endpoint_url": "https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com"}),
    ],
)
def test_it_goes_where_botocore_goes_and_is_signed_for_it(region: str, client: dict[str, Any]) -> None:
    aws = Aws(region, **client)
    for _ in range(2):
        aws.copy("a/key with +%ü")
    assert len(aws.through) == 1
    known = shown(aws.through[0])
    assert shown(aws.past[0]) == {name: known[name] for name in known if name != "x-amz-user-agent"}


@pytest.mark.parametrize("client", [
    {"config": Config(signature_version="s3")},
    {"config": Config(signature_version=UNSIGNED)},
], ids=["version 2", "unsigned"])  # fmt: skip
def test_what_is_signed_by_other_means_goes_through_botocore(client: dict[str, Any]) -> None:
    aws = Aws(**client)
    for _ in range(3):
        aws.copy("key")
    assert (len(aws.through), len(aws.past)) == (3, 0)


def test_sessions_of_directory_buckets_go_through_botocore(aws: Aws) -> None:
    def session(request: Any, **_: Any) -> None:
        request.headers["x-amz-s3session-token"] = "of a session"

    aws.client.meta.events.register_first("before-send.s3.CopyObject", session)
    for _ in range(3):
        aws.copy("key", HOT)
    assert (len(aws.through), len(aws.past)) == (3, 0)


def test_credentials_that_were_renewed_sign_the_next_request(aws: Aws) -> None:
    aws.copy("one")
    aws.copy("two")
    renewed = ReadOnlyCredentials("renewed", "secret", "new token")
    aws.quick._credentials = SimpleNamespace(get_frozen_credentials=lambda: renewed)  # type: ignore[assignment]
    aws.copy("three")
    assert [shown(request)["x-amz-security-token"] for request in aws.past] == ["token", "new token"]


def test_credentials_that_cannot_be_renewed_are_told_by_botocore(aws: Aws) -> None:
    def refuse() -> Any:
        raise CredentialRetrievalError(provider="sso", error_msg="sign in again")

    aws.copy("one")
    aws.quick._credentials = SimpleNamespace(get_frozen_credentials=refuse)  # type: ignore[assignment]
    aws.copy("two")
    assert (len(aws.through), len(aws.past)) == (2, 0)


@pytest.mark.parametrize("name", ["AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"])
def test_certificates_and_proxies_of_the_environment_are_used(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for key, value in {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    monkeypatch.setenv(name, "/a/bundle.pem")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "")
    _, quick = AwsConnection("us-east-1").quick(4)
    assert quick is not None
    sender: Any = quick._session
    assert sender._verify == "/a/bundle.pem"
    assert sender._proxy_config.proxy_url_for("https://s3.amazonaws.com/") == "http://proxy:3128"


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
        (301, REFUSED % b"PermanentRedirect"),
        (307, REFUSED % b"TemporaryRedirect"),
        (200, REFUSED % b"InternalError"),  # S3 may fail after it has said 200
        (200, b"no xml"),
        (ConnectionClosedError(endpoint_url="https://s3"), b""),
    ],
    ids=["busy", "denied", "elsewhere", "elsewhere for now", "failed after 200", "nonsense", "broken line"],
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
