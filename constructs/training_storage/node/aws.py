"""How code of this room reaches AWS: a function from a service's name to its client; tests can stand between."""

from __future__ import annotations

from typing import Any, Callable

Aws = Callable[[str], Any]
"""``aws("s3")`` returns a boto3 client. Calls on it raise botocore's ``ClientError`` and ``BotoCoreError``."""


def connect(region: str | None = None, *, tries: int = 8, read_s: float = 60) -> Aws:
    """Return clients of the caller's own account and role, each made once.

    Args:
        region: Region. Left out: that of the environment.
        tries: How often a call is made at most.
        read_s: Seconds that an answer is waited for.
    """
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "adaptive", "total_max_attempts": tries},
        connect_timeout=min(10, read_s),
        read_timeout=read_s,
        max_pool_connections=64,
        user_agent_extra="training-storage",
    )
    session: Any = boto3.session.Session(region_name=region)
    made: dict[str, Any] = {}

    def client(service: str) -> Any:
        if service not in made:
            plain = session.client(service, config=config)
            made[service] = Absence(plain) if service == "s3" else plain
        return made[service]

    return client


class Absence:
    """An S3 client that says of a key that it may list whether the object is there, in place of a refusal.

    S3 answers 403 for an object that is not there to whoever may not list it (Amazon S3 API reference, GetObject).
    Whether a right to list that is bound to a prefix counts for that is said nowhere; a listing tells.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_object(self, **given: Any) -> Any:
        """Call GetObject."""
        return self._asked("get_object", given)

    def head_object(self, **given: Any) -> Any:
        """Call HeadObject."""
        return self._asked("head_object", given)

    def _asked(self, operation: str, given: Any) -> Any:
        try:
            return getattr(self._client, operation)(**given)
        except Exception as error:
            if (
                code_of(error) in REFUSED
                and "VersionId" not in given
                and self._is_absent(given["Bucket"], given["Key"])
            ):
                refused: Any = error
                about = {**refused.response, "Error": {**refused.response["Error"], "Code": "NoSuchKey"}}
                raise type(refused)(about, refused.operation_name) from error
            raise

    def _is_absent(self, bucket: str, key: str) -> bool:
        try:
            page = self._client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
        except Exception:
            return False  # the refusal stands
        return all(each["Key"] != key for each in page.get("Contents", ()))


def code_of(error: BaseException) -> str:
    """Return the error code of a ``ClientError``; empty for everything else."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return ""
    return str(response.get("Error", {}).get("Code", ""))


MISSING = frozenset({"NoSuchKey", "404", "NotFound"})
"""Codes of an object that is not there."""

REFUSED = frozenset({"AccessDenied", "403", "Forbidden"})
"""Codes of a request that is not allowed; also of an object that is not there, to whoever may not list it."""

TAKEN = frozenset({"PreconditionFailed", "412", "ConditionalRequestConflict", "409"})
"""Codes of a conditional write that somebody else was ahead of."""
