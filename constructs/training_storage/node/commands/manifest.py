"""``agent manifest``: every file that must be in S3, as it is after the export."""

from __future__ import annotations

import argparse
from typing import Any, Callable

from ..aws import Aws
from ..release.manifest import manifest
from ..release.survey import check_place
from ..settings import Settings
from .survey import add_arguments as _add_arguments

HELP = "write the manifest of a release; removes nothing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    _add_arguments(parser)


def run(
    arguments: argparse.Namespace, settings: Settings, aws: Aws, progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Walk, and write the manifest."""
    check_place(settings, arguments.hot_tier_id, arguments.mount_name)
    return manifest(aws, settings, run=arguments.run, leave=arguments.leave, progress=progress)
