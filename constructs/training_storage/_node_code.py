"""Functions of ours: the room ``node`` as a package of its own, without what only instances run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

PACKAGE: Final = Path(__file__).resolve().parent
RUNTIME: Final = lambda_.Runtime.PYTHON_3_14


def node_code() -> lambda_.Code:
    """Return ``node/`` as the code of a function, whose handler is then ``node.functions.NAME.index.handler``."""
    return lambda_.Code.from_asset(
        str(PACKAGE),
        exclude=["*", "!node", "!node/**", "node/bootstrap", "**/__pycache__"],
        ignore_mode=cdk.IgnoreMode.GIT,
    )


def node_function(
    scope: Construct,
    *,
    name: str,
    description: str,
    role: iam.IRole,
    log_group: logs.ILogGroup,
    timeout: cdk.Duration,
    memory_size: int,
    environment: Mapping[str, str] | None = None,
) -> lambda_.Function:
    """Make a function of the room ``node``.

    Args:
        scope: Parent; the function takes its id ``Function``, so that there is one a construct.
        name: Folder below ``node/functions``.
        description: What it is for.
        role: Its role.
        log_group: Its log.
        timeout: How long a call may take.
        memory_size: MiB.
        environment: Variables. Left out: none.
    """
    return lambda_.Function(
        scope,
        "Function",
        description=description,
        runtime=RUNTIME,
        handler=f"node.functions.{name}.index.handler",
        code=node_code(),
        role=role,
        log_group=log_group,
        timeout=timeout,
        memory_size=memory_size,
        environment=None if environment is None else dict(environment),
    )
