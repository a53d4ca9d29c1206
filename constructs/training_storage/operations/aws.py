"""How operations talk to AWS: one session, and every failure as ``AwsError`` with what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError, ProfileNotFound

from training_storage.errors import AwsError
from training_storage.node.aws import Aws

if TYPE_CHECKING:
    from boto3.session import Session

# Adaptive retries slow down on throttling instead of failing at once.
CLIENT_CONFIG = Config(retries={"mode": "adaptive", "total_max_attempts": 6}, user_agent_extra="training-storage")

_ADVICE = {
    "AccessDenied": "the caller lacks this right; ask for exactly this action on this resource",
    "AccessDeniedException": "the caller lacks this right; ask for exactly this action on this resource",
    "ExpiredToken": "the credentials have expired; sign in again",
    "ExpiredTokenException": "the credentials have expired; sign in again",
    "UnrecognizedClientException": "the credentials are not valid here; check account, profile and region",
    "ThrottlingException": "AWS is throttling; run the same command again in a minute",
}


def make_session(region: str | None = None, profile: str | None = None) -> Session:
    """Return a session.

    Args:
        region: Region; the environment's or profile's when left out.
        profile: Profile of the AWS configuration; the environment's when left out.

    Raises:
        AwsError: The profile does not exist.
    """
    with aws_errors("CreateSession"):
        return boto3.session.Session(region_name=region, profile_name=profile)


def clients(session: Session) -> Aws:
    """Return clients of a session for code of nodes, each made once.

    What they raise is botocore's: calls stand in a block of ``aws_errors``.

    Args:
        session: Session of the account and region.
    """

    @cache
    def client(service: str) -> Any:
        with aws_errors("CreateClient"):
            return session.client(service, config=CLIENT_CONFIG)  # type: ignore[call-overload]  # any service's name

    return client


@contextmanager
def aws_errors(operation: str) -> Iterator[None]:
    """Turn what botocore raises inside the block into ``AwsError``.

    Args:
        operation: What is being done, for errors that carry no operation name.
    """
    try:
        yield
    except ClientError as error:
        details = error.response.get("Error", {})
        code = str(details.get("Code", ""))
        name = error.operation_name or operation
        advice = _ADVICE.get(code, "")
        text = f"{name} failed: {code}: {details.get('Message', error)}"
        raise AwsError(f"{text}; fix: {advice}" if advice else text, operation=name, code=code) from error
    except NoCredentialsError as error:
        message = "no AWS credentials found; fix: sign in, or set AWS_PROFILE"
        raise AwsError(message, operation=operation) from error
    except NoRegionError as error:
        raise AwsError("no region given; fix: pass --region or set AWS_REGION", operation=operation) from error
    except ProfileNotFound as error:
        message = f"{error}; fix: check --profile or AWS_PROFILE; `aws configure list-profiles` names those there are"
        raise AwsError(message, operation=operation) from error
    except BotoCoreError as error:
        raise AwsError(f"{operation} failed: {error}", operation=operation) from error
