"""The code of functions: the room ``node`` as a package of its own, without what only instances run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_

PACKAGE: Final = Path(__file__).resolve().parent
RUNTIME: Final = lambda_.Runtime.PYTHON_3_14


def node_code() -> lambda_.Code:
    """Return ``node/`` as the code of a function, whose handler is then ``node.functions.NAME.index.handler``."""
    return lambda_.Code.from_asset(
        str(PACKAGE),
        exclude=["*", "!node", "!node/**", "node/bootstrap", "**/__pycache__"],
        ignore_mode=cdk.IgnoreMode.GIT,
    )
