"""``agent survey``: what the file system holds, sorted into what must be kept and what may go."""

from __future__ import annotations

import argparse
from typing import Any, Callable

from ..aws import Aws
from ..release.survey import check_place, survey
from ..settings import Settings

HELP = "sort every file of the file system for a release; changes nothing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--run", required=True, help="the release that asks")
    parser.add_argument("--leave", action="append", default=[], metavar="PATH", help="left behind on purpose")
    parser.add_argument("--hot-tier-id", default="", help="the file system that must be mounted here")
    parser.add_argument("--mount-name", default="", help="Lustre's name of it")


def run(
    arguments: argparse.Namespace, settings: Settings, aws: Aws, progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Walk, and write the survey."""
    check_place(settings, arguments.hot_tier_id, arguments.mount_name)
    return survey(aws, settings, run=arguments.run, leave=arguments.leave, progress=progress)
