"""``training-storage release``: prove that a run is in S3, and delete it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from training_storage.cli.inputs import add_format_argument, region
from training_storage.cli.report import UsageError

if TYPE_CHECKING:
    import argparse

HELP = """\
Proves that everything of a run that must be kept is in S3, prints the proof, asks, and then deletes the
stacks of monitoring, fleet and hot tier. A state machine in the stack of the data lake does the work:
interrupting loses nothing, and the same command joins it again. The data lake stays. Exit code 1: it was
refused, and the answer says what blocks it, or nobody confirmed.
"""
EXAMPLE = """\
example: training-storage release vision-small-files --dry-run
         training-storage release vision-small-files
         training-storage release vision-small-files --leave /checkpoints/old --yes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="workload name, the prefix of its stacks")
    parser.add_argument("--dry-run", action="store_true", help="only look: nothing is exported or deleted")
    parser.add_argument("--yes", action="store_true", help="delete what is proven without asking")
    parser.add_argument(
        "--leave",
        metavar="PATH",
        action="append",
        default=[],
        help="a path of the hot tier that is left behind on purpose, such as /checkpoints/old; can be repeated",
    )
    parser.add_argument(
        "--abandon",
        metavar="REASON",
        help="delete the run without a proof: what is only on the hot tier is lost; REASON is kept in the lake",
    )
    parser.add_argument("--region", type=region, help="region (default: the environment's)")
    parser.add_argument("--profile", help="profile of the AWS configuration")
    add_format_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Release, and say how it went."""
    program = "training-storage release"
    if arguments.abandon is not None and not arguments.abandon.strip():
        raise UsageError("--abandon wants a reason, which is kept with the override", program=program)
    if arguments.abandon is not None and (arguments.dry_run or arguments.leave):
        other = "--dry-run" if arguments.dry_run else "--leave"
        raise UsageError(f"--abandon proves nothing, so {other} has no meaning beside it", program=program)
    if wrong := [path for path in arguments.leave if not path.startswith(("/", "s3://"))]:
        raise UsageError(
            f"--leave {wrong[0]}: a path of the hot tier starts with /, what lies in a directory bucket with / or with "
            "s3://BUCKET/",
            program=program,
        )
    from training_storage.cli.render_release import Asking, Progress, as_text
    from training_storage.operations.aws import clients, make_session
    from training_storage.operations.release import release
    from training_storage.operations.release_abandon import abandon

    as_json = arguments.format == "json"
    session = make_session(arguments.region, arguments.profile)
    aws, where = clients(session), session.region_name or ""
    asking = Asking(arguments.name, yes=arguments.yes, quiet=as_json)
    with Progress(arguments.name, quiet=as_json) as progress:
        if arguments.abandon is not None:
            ended = abandon(
                aws,
                arguments.name,
                where,
                reason=arguments.abandon.strip(),
                confirm=progress.paused(asking.about_loss),
                on_delete=progress.deleting,
            )
        else:
            ended = release(
                aws,
                arguments.name,
                where,
                dry_run=arguments.dry_run,
                leave=arguments.leave,
                confirm=progress.paused(asking.about_proof),
                on_start=progress.started,
                on_look=progress.look,
            )
    if as_json:
        print(json.dumps(ended.to_dict(), indent=2))
    else:
        print(as_text(ended, shown=asking.shown))
    if ended.outcome == "not-confirmed":
        print(asking.said, file=sys.stderr)
    return 1 if ended.is_no else 0
