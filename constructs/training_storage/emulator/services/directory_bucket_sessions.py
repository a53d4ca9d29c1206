"""Sessions of S3 Express One Zone: what CreateSession hands out, and what a request with one may do.

A session is written into its own token, so that nothing has to be remembered: clients keep theirs beyond the life of
an emulator.
"""

from __future__ import annotations

import base64
import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from training_storage.emulator.services import accounts
from training_storage.emulator.services.directory_bucket_rules import DirectoryBucketError

# https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateSession.html
_LIFE = timedelta(minutes=5)
_MODES = ("ReadOnly", "ReadWrite")
# What a session for reading may do is to read: everything else has another method.
_READING = ("GET", "HEAD")
_TOKEN = "x-amz-s3session-token"  # noqa: S105 - the name of a header


def create(account: str, bucket: str, mode: str | None) -> dict[str, Any]:
    """Return the credentials of a new session with a bucket, as the API shows them."""
    chosen = mode or "ReadWrite"
    if chosen not in _MODES:
        raise DirectoryBucketError(400, "InvalidRequest", f"Session mode {chosen} is not one of {', '.join(_MODES)}")
    expiration = datetime.now(tz=UTC).replace(microsecond=0) + _LIFE
    said = {"account": account, "bucket": bucket, "mode": chosen, "until": expiration.timestamp()}
    return {
        "AccessKeyId": accounts.access_key(account),
        "SecretAccessKey": uuid.uuid4().hex,
        "SessionToken": base64.urlsafe_b64encode(json.dumps(said).encode()).decode(),
        "Expiration": expiration,
    }


def check(token: str | None, bucket: str, method: str) -> None:
    """Refuse a request whose session is over, is with another bucket, or is for reading only.

    A request without a session passes: S3 takes the caller's own credentials too.
    """
    if not token:
        return
    try:
        said = json.loads(base64.urlsafe_b64decode(token))
    except ValueError:
        text = "The provided token is malformed or otherwise invalid."
        raise DirectoryBucketError(400, "InvalidToken", text) from None
    if said["until"] <= datetime.now(tz=UTC).timestamp():
        raise DirectoryBucketError(400, "ExpiredToken", "The provided token has expired.")
    if said["bucket"] != bucket or (said["mode"] == "ReadOnly" and method not in _READING):
        raise DirectoryBucketError(403, "AccessDenied", "Access Denied")


def token_of(headers: Any, query: dict[str, Any]) -> str | None:
    """Return the session token of a request: a header, or a parameter of a presigned address."""
    given = headers.get(_TOKEN)
    if given:
        return str(given)
    return next((str(values[0]) for name, values in query.items() if name.lower() == _TOKEN and values), None)
