"""What an error of S3 means for one object, and what the user can do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    HTTPClientError,
    IncompleteReadError,
    ParamValidationError,
)

Meaning = Literal["again", "changed", "missing", "failed", "stop"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do after an error.

    Attributes:
        meaning: ``again``: S3 is busy or the line broke; ``changed``: the object is not the one that was looked at;
            ``missing``: there is no such object; ``failed``: this object can't be copied; ``stop``: none can.
        code: Error code of S3; empty where there was none.
        reason: What happened, and what to do.
        slow: Whether S3 asked for fewer requests.
    """

    meaning: Meaning
    code: str
    reason: str
    slow: bool = False


_SLOW: Final = frozenset(
    {"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequestsException",
     "ServiceUnavailable", "503", "429", "KMS.ThrottlingException"}
)  # fmt: skip
_AGAIN: Final = frozenset(
    {"InternalError", "RequestTimeout", "OperationAborted", "ConditionalRequestConflict",
     "500", "502", "504", "XAmzContentSHA256Mismatch", "BadDigest", "IncompleteBody"}
)  # fmt: skip
_BROKEN_LINE: Final = (ConnectionError, HTTPClientError, IncompleteReadError)
_CHANGED: Final = frozenset({"PreconditionFailed", "412"})
_MISSING: Final = frozenset({"NoSuchKey", "NotFound", "404"})

_FAILED: Final = {
    "InvalidObjectState": "it is in an archive storage class, which can't be copied; fix: restore it first "
    "(RestoreObject or S3 Batch Operations), then run the same command again",
    "AccessDenied": "the caller lacks a right; fix: it needs to read and list the source and to write the destination "
    "(s3:GetObject, s3:PutObject, for a directory bucket s3express:CreateSession) and, where a key encrypts, "
    "kms:Decrypt and kms:GenerateDataKey",
    "403": "the caller lacks a right, or the object's KMS key can't be used; fix: it needs s3:GetObject and "
    "kms:Decrypt for the source and the copy",
    "KMS.DisabledException": "the KMS key is disabled; fix: enable it",
    "KMS.NotFoundException": "the KMS key does not exist any more",
    "KeyTooLongError": "its key would be longer than 1,024 bytes; fix: choose a shorter destination prefix",
    "NotImplemented": "the destination does not support something of this object",
}

OF_THE_OBJECT: Final = frozenset({"InvalidObjectState", "KeyTooLongError", "NotImplemented"})
"""Errors that many objects may have without anything being wrong with the rest."""

_STOP: Final = {
    "NoSuchBucket": "the bucket does not exist; fix: check its name and --region",
    "ExpiredToken": "the credentials have expired; fix: sign in again, then run the same command: it goes on",
    "InvalidAccessKeyId": "the credentials are not valid here; fix: check account, profile and region",
    "SignatureDoesNotMatch": "the credentials are not valid here; fix: check account, profile and region",
    "InvalidToken": "the credentials are not valid here; fix: sign in again",
    "TokenRefreshRequired": "the credentials have expired; fix: sign in again, then run the same command: it goes on",
    "PermanentRedirect": "the bucket is in another region; fix: pass --region of the destination",
    "AuthorizationHeaderMalformed": "the bucket is in another region; fix: pass --region of the destination",
    "RequestTimeTooSkewed": "the clock of this machine is wrong; fix: set it",
}


def judge(error: ClientError | BotoCoreError) -> Verdict:
    """Say what an error means."""
    if not isinstance(error, ClientError):
        # Credentials and endpoints are wrong for every object; a line that broke is tried again.
        meaning: Meaning = "again" if isinstance(error, _BROKEN_LINE) else "stop"
        return Verdict("failed" if isinstance(error, ParamValidationError) else meaning, "", str(error))
    details: Any = error.response.get("Error", {})
    code = str(details.get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
    said = f"{error.operation_name}: {code}: {details.get('Message') or 'no message'}"
    for known, meaning in ((_STOP, "stop"), (_FAILED, "failed")):
        if code in known:
            return Verdict("stop" if meaning == "stop" else "failed", code, f"{said}; {known[code]}")
    if code in _CHANGED:
        return Verdict("changed", code, said)
    if code in _MISSING:
        return Verdict("missing", code, said)
    if code in _SLOW or status in (429, 503):
        return Verdict(
            "again", code, f"{said}; S3 asks for fewer requests, or a directory bucket is waking up", slow=True
        )
    if code in _AGAIN or status >= 500:
        return Verdict("again", code, said)
    return Verdict("failed", code, said)
