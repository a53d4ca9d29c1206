"""Questions to AWS, each on its own: one that is denied, throttled or not there is "not known", with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from botocore.exceptions import (
    CredentialRetrievalError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)

from training_storage.errors import AwsError
from training_storage.node.aws import Aws
from training_storage.operations.aws import aws_errors

_T = TypeVar("_T")

DENIED: Final = frozenset(
    {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403", "Forbidden", "AuthorizationError"}
)
THROTTLED: Final = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "RequestLimitExceeded",
        "TooManyRequestsException",
        "SlowDown",
        "LimitExceeded",
    }
)
_NOBODY: Final = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "UnrecognizedClientException", "InvalidClientTokenId"}
    | {"SignatureDoesNotMatch", "AuthFailure", "InvalidSignatureException", "InvalidAccessKeyId", "InvalidToken"}
    | {"MissingAuthenticationToken", "MissingAuthenticationTokenException", "IncompleteSignature"}
    | {"RequestExpired", "RequestTimeTooSkewed", "NotAuthorized", "OptInRequired"}
)
"""Codes of a caller that AWS does not know, or whose clock is wrong: every other question would end so too."""
_NO_CREDENTIALS: Final = (
    CredentialRetrievalError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
"""What botocore raises before it asks anything: of credentials that are not there, or of a sign-in that has ended."""

_AT_ONCE: Final = 8


class Unanswered(Exception):  # noqa: N818 - it is no error: the answer is that nobody knows
    """A question that has no answer.

    Attributes:
        why: The reason, for people.
    """

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


def ask(action: str, question: Callable[[], _T]) -> _T:
    """Return the answer to a question.

    Args:
        action: The action of IAM that it takes, such as ``fsx:DescribeFileSystems``; of several, the first.
        question: Asks; what it raises of botocore is caught.

    Raises:
        Unanswered: AWS refused or failed, or answered with what nobody expects.
        AwsError: AWS does not know the caller, or there are no credentials or no region.
    """
    try:
        with aws_errors(action.partition(":")[2]):
            return question()
    except AwsError as error:
        if error.code in _NOBODY or isinstance(error.__cause__, _NO_CREDENTIALS):
            raise
        if error.code in DENIED:
            raise Unanswered(f"not allowed: {action}") from error
        if error.code in THROTTLED:
            raise Unanswered(f"AWS throttles {action}; ask again in a minute") from error
        raise Unanswered(str(error).partition("; fix:")[0]) from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise Unanswered(f"the answer to {action} cannot be read: {type(error).__name__}: {error}") from error


def ask_all(questions: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Ask at the same time, and return each answer, or the ``Unanswered``, by its name.

    Args:
        questions: By name; each raises ``Unanswered`` by itself, through ``ask``.

    Raises:
        AwsError: AWS does not know the caller.
    """

    def one(question: Callable[[], Any]) -> Any:
        try:
            return question()
        except Unanswered as none:
            return none

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return dict(zip(questions, pool.map(one, questions.values()), strict=True))


def prepare(aws: Aws, *services: str) -> None:
    """Make clients before threads do: a session makes one at a time."""
    for service in services:
        aws(service)
