"""``training-storage checkpoints``: what is where, promote, prune, verify, drill a restore, advise on the interval."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training_storage.cli.inputs import add_format_argument, file_name, length_of_time, region
from training_storage.cli.report import EXIT_AWS, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from training_storage.node.aws import Aws

HELP = """\
An agent on one node promotes and prunes checkpoints by the policy of the workload file, every minute. These
commands show what it sees and do the same by hand. A checkpoint that is half-written is never promoted and
never counted; nothing is pruned that has to be in the lake and is not proven to be there. Interrupting is
safe: nodes go on, and the same command joins them again. Exit code 1: something is wrong or was refused, a
restore takes longer than the workload file allows or lacks a part, or another interval would pay.
"""
EXAMPLE = """\
examples: training-storage checkpoints list llama3-70b
          training-storage checkpoints promote llama3-70b --path run1/step-300
          training-storage checkpoints prune llama3-70b --dry-run
          training-storage checkpoints verify llama3-70b
          training-storage checkpoints restore-drill llama3-70b
          training-storage checkpoints advise llama3-70b --workload llama3-70b.yaml --failures 3 --over 10d
"""
_PROGRAM = "training-storage checkpoints"
_ACTIONS = {
    "list": "show the checkpoints of the hot tier and of the lake, and what the policy says of each",
    "promote": "bring to the lake what is due, and what is named",
    "prune": "remove from the hot tier what the policy no longer keeps there",
    "verify": "compare everything that was promoted with the lake, object by object",
    "restore-drill": "read a checkpoint back on the nodes, from the hot tier and from the lake, and time it",
    "advise": "say whether the job saves as often as it should, from what was observed",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    made = {}
    for action, summary in _ACTIONS.items():
        made[action] = actions.add_parser(action, help=summary, description=f"{summary[:1].upper()}{summary[1:]}.")
        made[action].add_argument("name", metavar="NAME", help="workload name, the prefix of its stacks")
    made["promote"].add_argument(
        "--path", dest="paths", metavar="PATH", action="append", default=[],
        help="a checkpoint below the checkpoint folder, such as run1/step-300; may be repeated",
    )  # fmt: skip
    made["promote"].add_argument("--last", action="store_true", help="the newest checkpoint of each run too")
    for action in ("promote", "prune"):
        made[action].add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    drill = made["restore-drill"]
    drill.add_argument("--path", metavar="PATH", help="the checkpoint to read (default: the newest on each side)")
    drill.add_argument(
        "--source", choices=("hot", "lake", "both"), default="both", help="where to read (default: both)"
    )
    drill.add_argument("--nodes", metavar="N", type=_count, help="nodes that read at most (default: all, as a restart)")
    advise = made["advise"]
    advise.add_argument(
        "--workload", metavar="FILE", type=file_name, required=True, help="workload file, for fleet and interval"
    )
    advise.add_argument(
        "--catalog", metavar="FILE", type=lambda name: Path(file_name(name)), action="append", default=[],
        help="catalog file that corrects or adds facts; may be given several times, a later one wins",
    )  # fmt: skip
    advise.add_argument("--failures", metavar="N", type=_failures, help="failures of the fleet that were seen")
    advise.add_argument("--over", metavar="TIME", type=length_of_time, help="how long they were counted, such as 10d")
    for each in made.values():
        each.add_argument("--region", type=region, help="region (default: the environment's)")
        each.add_argument("--profile", help="profile of the AWS configuration")
        add_format_argument(each)


def _count(text: str) -> int:
    from argparse import ArgumentTypeError

    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise ArgumentTypeError(f"{text!r} is no number from 1 to 1000")
    return int(text)


def _failures(text: str) -> int:
    from argparse import ArgumentTypeError

    if not text.isdecimal() or int(text) > 1_000_000:
        raise ArgumentTypeError(f"{text!r} is no number from 0 to 1000000")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Do what the action says, and say how it went."""
    for each in getattr(arguments, "paths", None) or [path for path in [getattr(arguments, "path", None)] if path]:
        if ".." in each.split("/") or not each.strip("/ "):
            raise UsageError(
                f"--path {each!r} is no checkpoint; allowed: its path below the checkpoint folder, such as "
                "run1/step-300, as list shows it",
                program=_PROGRAM,
            )
    if arguments.action == "advise" and (arguments.failures is None) != (arguments.over is None):
        raise UsageError("--failures and --over go together: failures are counted over a time", program=_PROGRAM)
    from training_storage.operations.aws import clients, make_session
    from training_storage.operations.deployment import find_lake

    session = make_session(arguments.region, arguments.profile)
    aws, lake = clients(session), find_lake(session, arguments.name)
    action: Callable[[argparse.Namespace, Aws, str], int] = {
        "list": _list,
        "promote": _act,
        "prune": _act,
        "verify": _verify,
        "restore-drill": _drill,
        "advise": _advise,
    }[arguments.action]
    return action(arguments, aws, lake)


def _print(arguments: argparse.Namespace, as_dict: dict[str, Any], text: str) -> None:
    print(json.dumps(as_dict, indent=2) if arguments.format == "json" else text)


def _list(arguments: argparse.Namespace, aws: Aws, lake: str) -> int:
    from training_storage.cli.nodes import NodesReporter
    from training_storage.cli.render_checkpoints import listing_as_dict, listing_as_text
    from training_storage.operations.checkpoints import list_checkpoints

    with NodesReporter(quiet=arguments.format == "json") as report:
        found = list_checkpoints(aws, arguments.name, lake, on_start=report.started, on_look=report.look)
    _print(arguments, listing_as_dict(found), listing_as_text(found, arguments.name))
    return 1 if found.errors else 0


def _act(arguments: argparse.Namespace, aws: Aws, lake: str) -> int:
    from training_storage.cli.nodes import NodesReporter
    from training_storage.cli.render_checkpoints import run_as_dict, run_as_text
    from training_storage.operations.checkpoints import act, require_answers

    argv = [arguments.action]
    argv += ["--last"] if getattr(arguments, "last", False) else []
    argv += ["--dry-run"] if arguments.dry_run else []
    argv += [each.rstrip("/") for each in getattr(arguments, "paths", ())]
    with NodesReporter(quiet=arguments.format == "json") as report:
        done = act(aws, arguments.name, lake, argv, on_start=report.started, on_look=report.look)
    require_answers(done, arguments.name)
    _print(arguments, run_as_dict(done), run_as_text(done, arguments.name, arguments.action))
    return EXIT_AWS if any((each.answer or {}).get("errors") for each in done.answers) else 0


def _verify(arguments: argparse.Namespace, aws: Aws, lake: str) -> int:
    from training_storage.cli.nodes import counting
    from training_storage.cli.render_checkpoints import verified_as_dict, verified_as_text
    from training_storage.operations.checkpoints import verify

    with counting("files compared", quiet=arguments.format == "json") as progress:
        found = verify(aws, arguments.name, lake, on_progress=progress)
    _print(arguments, verified_as_dict(found), verified_as_text(found, arguments.name, lake))
    return 0 if found.is_clean else 1


def _drill(arguments: argparse.Namespace, aws: Aws, lake: str) -> int:
    from training_storage.cli.nodes import NodesReporter
    from training_storage.cli.render_checkpoints import drills_as_dict, drills_as_text
    from training_storage.operations.checkpoints import restore_drill

    with NodesReporter(quiet=arguments.format == "json") as report:
        drills, skipped = restore_drill(
            aws,
            arguments.name,
            lake,
            path=arguments.path.rstrip("/") if arguments.path else None,
            source=arguments.source,
            nodes=arguments.nodes,
            on_start=report.started,
            on_look=report.look,
        )
    _print(arguments, drills_as_dict(drills, skipped), drills_as_text(drills, skipped, arguments.name))
    return 1 if any(each.in_time is False or each.missing for each in drills) else 0


def _advise(arguments: argparse.Namespace, aws: Aws, lake: str) -> int:
    from training_storage.cli.inputs import read_plan
    from training_storage.cli.nodes import NodesReporter
    from training_storage.cli.render_checkpoints import advice_as_text
    from training_storage.errors import RefusedError
    from training_storage.operations.advise import advise, observe
    from training_storage.operations.checkpoints import list_checkpoints

    plan = read_plan(arguments.workload, arguments.catalog)
    wanted, predicted = plan.workload.checkpoints, plan.prediction
    if wanted is None or predicted.checkpoint_interval_s is None or predicted.restore_s is None:
        raise RefusedError(
            f"{arguments.workload} has no checkpoints section, so there is no interval to advise on; "
            "fix: add one, or give the file that was deployed"
        )
    if plan.name != arguments.name:
        print(f"note: {arguments.workload} describes {plan.name}, not {arguments.name}", file=sys.stderr)
    with NodesReporter(quiet=arguments.format == "json") as report:
        found = list_checkpoints(aws, arguments.name, lake, on_start=report.started, on_look=report.look)
    told = advise(
        observe(found.hot, asynchronous=wanted.asynchronous),
        accelerators=plan.accelerators,
        configured_interval_s=predicted.checkpoint_interval_s,
        max_write_s=wanted.max_write_time.seconds,
        recovery_s=wanted.restart_time.seconds + predicted.restore_s,
        asynchronous=wanted.asynchronous,
        assumed_mtbf_h=predicted.mtbf_h,
        failures=arguments.failures,
        over_h=None if arguments.over is None else arguments.over.seconds / 3600,
    )
    _print(arguments, told.to_dict(), advice_as_text(told, arguments.name))
    return 1 if told.findings or told.gained_gpu_hours_per_day else 0
