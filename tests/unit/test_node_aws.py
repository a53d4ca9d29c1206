"""What clients of nodes say of objects that are not there, with rights that are bound to a prefix."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.life.fake_aws import FakeAws
from tests.life.fake_s3 import error
from training_storage.node.aws import MISSING, Absence, code_of, connect

BUCKET = "lake"


class Refusing:
    """S3 as it is to a role that may not be told what is not there."""

    def __init__(self, *, lists: bool, reads: bool = True) -> None:
        self.s3 = FakeAws().s3
        self.s3.make(BUCKET)
        self.s3.put_object(Bucket=BUCKET, Key="a/there", Body=b"x")
        self.s3.put_object(Bucket=BUCKET, Key="a/absent-not", Body=b"x")
        self.lists, self.reads = lists, reads

    def _read(self, name: str, code: str, given: dict[str, Any]) -> Any:
        try:
            found = getattr(self.s3, name)(**given)
        except ClientError:
            raise error(code, name) from None
        if not self.reads:
            raise error(code, name)
        return found

    def get_object(self, **given: Any) -> Any:
        return self._read("get_object", "AccessDenied", given)

    def head_object(self, **given: Any) -> Any:
        return self._read("head_object", "403", given)

    def list_objects_v2(self, **given: Any) -> Any:
        if not self.lists:
            raise error("AccessDenied", "ListObjectsV2")
        return self.s3.list_objects_v2(**given)


def code(client: Any, operation: str, key: str) -> str:
    try:
        getattr(Absence(client), operation)(Bucket=BUCKET, Key=key)
    except ClientError as refused:
        return code_of(refused)
    return "there"


@pytest.mark.parametrize("operation", ["get_object", "head_object"])
def test_what_may_be_listed_and_is_not_there_is_missing(operation: str) -> None:
    client = Refusing(lists=True)
    assert code(client, operation, "a/there") == "there"
    assert code(client, operation, "a/absent") in MISSING


@pytest.mark.parametrize("operation", ["get_object", "head_object"])
def test_a_refusal_stays_one_where_the_object_is_there_or_nobody_can_tell(operation: str) -> None:
    assert code(Refusing(lists=True, reads=False), operation, "a/there") not in {"there", *MISSING}
    assert code(Refusing(lists=False), operation, "a/absent") not in {"there", *MISSING}


def test_clients_of_nodes_are_such_clients() -> None:
    aws = connect("us-east-1")
    assert isinstance(aws("s3"), Absence)
    assert aws("s3").meta.region_name == "us-east-1"
    assert not isinstance(aws("fsx"), Absence)
