"""How code of this room reaches AWS: a function from a service's name to its client; tests can stand between."""

from __future__ import annotations

from typing import Any, Callable

Aws = Callable[[str], Any]
"""``aws("s3")`` returns a boto3 client. Calls on it raise botocore's ``ClientError`` and ``BotoCoreError``."""


def connect(region: str | None = None) -> Aws:
    """Return clients of the caller's own account and role, each made once.

    Args:
        region: Region. Left out: that of the environment.
    """
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "adaptive", "max_attempts": 8},
        connect_timeout=10,
        read_timeout=60,
        max_pool_connections=64,
        user_agent_extra="training-storage",
    )
    session: Any = boto3.session.Session(region_name=region)
    made: dict[str, Any] = {}

    def client(service: str) -> Any:
        if service not in made:
            made[service] = session.client(service, config=config)
        return made[service]

    return client


def code_of(error: BaseException) -> str:
    """Return the error code of a ``ClientError``; empty for everything else."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return ""
    return str(response.get("Error", {}).get("Code", ""))


MISSING = frozenset({"NoSuchKey", "404", "NotFound"})
"""Codes of an object that is not there."""

TAKEN = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict", "409"})
"""Codes of a conditional write that somebody else was ahead of."""
