"""Stands between code and AWS, and lets calls go wrong: before they have an effect, after it, or for good."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from tests.life.fake_s3 import error

KINDS = ("throttle", "timeout-before", "timeout-after", "denied", "killed-before", "killed-after")
"""What can happen to one call. Throttles and time-outs come as they do when boto3 has given up retrying."""


class Killed(BaseException):
    """The process is gone: nothing after this line runs, but what is on disk and in AWS stays."""


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        at: Which call it happens to, counted from 0.
        kind: One of ``KINDS``.
    """

    at: int
    kind: str


class Faulty:
    """An ``Aws`` in which one call goes wrong.

    Attributes:
        calls: ``service.operation`` of every call so far.
        hit: What went wrong; empty as long as nothing did.
    """

    def __init__(self, aws: Callable[[str], Any], fault: Fault | None) -> None:
        self._aws = aws
        self._fault = fault
        self.calls: list[str] = []
        self.hit = ""
        for name in ("clock", "sleep", "write", "s3", "fsx", "cloudwatch", "machines", "cloudformation"):
            if hasattr(aws, name):
                setattr(self, name, getattr(aws, name))

    def __call__(self, service: str) -> Any:
        return _Client(self, service, self._aws(service))

    def _call(self, service: str, name: str, method: Callable[..., Any], given: dict[str, Any]) -> Any:
        number = len(self.calls)
        what = f"{service}.{name}"
        self.calls.append(what)
        kind = self._fault.kind if self._fault is not None and self._fault.at == number else ""
        if not kind:
            return method(**given)
        self.hit = f"{kind} at call {number}, {what}"
        if kind == "throttle":
            raise error("ThrottlingException" if service != "s3" else "SlowDown", name, "Rate exceeded", 429)
        if kind == "denied":
            raise error(
                "AccessDenied" if service in ("s3", "cloudformation") else "AccessDeniedException", name, "", 403
            )
        if kind == "timeout-before":
            raise EndpointConnectionError(endpoint_url=f"https://{service}")
        if kind == "killed-before":
            raise Killed(self.hit)
        method(**given)
        if kind == "killed-after":
            raise Killed(self.hit)
        raise ReadTimeoutError(endpoint_url=f"https://{service}")


class _Client:
    def __init__(self, faulty: Faulty, service: str, client: Any) -> None:
        self._faulty, self._service, self._client = faulty, service, client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name == "get_paginator":
            return lambda operation: _Pages(self, operation)
        if not callable(method) or name.startswith("_"):
            return method
        return lambda **given: self._faulty._call(self._service, name, method, given)


class _Pages:
    """A paginator whose every page is a call that can go wrong."""

    def __init__(self, client: _Client, operation: str) -> None:
        self._client, self._operation = client, operation

    def paginate(self, **given: Any) -> Any:
        given.pop("PaginationConfig", None)
        while True:
            page = getattr(self._client, self._operation)(**given)
            yield page
            if not page.get("IsTruncated"):
                return
            given["ContinuationToken"] = page["NextContinuationToken"]


def draw(chance: random.Random, calls: int) -> Fault:
    """Draw a fault at one of so many calls."""
    return Fault(at=chance.randrange(max(calls, 1)), kind=chance.choice(KINDS))
