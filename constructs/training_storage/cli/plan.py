"""``training-storage plan``: the choice, the numbers that drove it, what was rejected and why."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from training_storage.cli.inputs import add_workload_arguments, file_name, length_of_time, read_plan
from training_storage.cli.report import UsageError, report_output, width

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from training_storage.planner.model import Plan
    from training_storage.simulation import Simulation
    from training_storage.whatif.model import Sweep

HELP = """\
The same file, catalog and prices give the same plan; nobody is asked, and nothing is written but what -o
names. Exit code 2: the file has problems, or no legal plan does what it asks for.
"""
EXAMPLE = """\
example: training-storage plan examples/llama3-70b.yaml --run-length 14d
         training-storage plan examples/llama3-70b.yaml --what-if
         training-storage plan examples/llama3-70b.yaml --sweep instance_count=1..2000
         training-storage plan examples/llama3-70b.yaml --sweep "read_rate.per_accelerator=10 MB/s..2 GB/s"
         training-storage plan examples/llama3-70b.yaml --format html -o report.html
         training-storage plan examples/llama3-70b.yaml --rights > deploy-rights.json

values of --sweep: A..B (counts by 1, others in 50 even points), A..B:STEP, A..B*FACTOR or A,B,C, with units as
in the workload file, at most 10,000 points
"""
_FORMATS: Final = ("text", "json", "html")
_PROGRAM: Final = "training-storage plan"
_LONG_SWEEP: Final = 500
"""Points from which a sweep says on a terminal how far it is."""
_PIECE: Final = 1 << 16
"""Characters to print at once: an unbuffered stream says nothing of a piece that is taken in part; the next fails."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_workload_arguments(parser, _FORMATS)
    parser.add_argument(
        "--run-length",
        metavar="TIME",
        type=length_of_time,
        help="how long one run trains, such as 14d: the cost then has a run beside the hour and the month (default: "
        "that of a Capacity Block)",
    )
    parser.add_argument(
        "--what-if",
        action="store_true",
        help="one step up and down in throughput, capacity and tier: the keys to write, and from which reads it pays",
    )
    parser.add_argument(
        "--sweep",
        metavar="FIELD=RANGE",
        action="append",
        help="plan many values of one numeric field, and print, in place of the plan, where the answer changes",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="simulate one run with its failures, beside what is predicted",
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, help="seed of the simulation; the same seed gives the same run (default: 0)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=lambda name: None if name == "-" else file_name(name),
        help="write the result to this file, all of it or nothing (default, and -: standard output)",
    )
    parser.add_argument(
        "--rights",
        action="store_true",
        help="print, in place of the plan, an IAM policy (JSON): what the deploying role needs so that the services "
        "accept the tiers, then, from Sid SeeTheStacks on, what whoever runs checkpoints, preload and release needs",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the plan or what is asked for in its place, or write it to a file; return the exit code."""
    _check_usage(arguments)
    plan = read_plan(arguments.file, arguments.catalog, arguments.run_length)
    if arguments.rights:
        from training_storage.planner.rights import deploy_rights
        from training_storage.planner.rights_commands import command_rights

        policy = deploy_rights(plan, more=command_rights(plan))
        text = json.dumps(policy, indent=2) + "\n"
    else:
        text = {"text": _as_text, "json": _as_json, "html": _as_html}[arguments.format](plan, arguments)
    if arguments.output is None:
        for start in range(0, len(text), _PIECE):
            sys.stdout.write(text[start : start + _PIECE])
        return 0
    from training_storage.cli.output import write_whole

    try:
        write_whole(Path(arguments.output), text)
    except OSError as error:
        return report_output(arguments.output, error, as_json=arguments.format == "json")
    return 0


def _check_usage(arguments: argparse.Namespace) -> None:
    """Refuse options that say nothing together."""
    message = ""
    others = [
        name
        for name, given in (
            ("--what-if", arguments.what_if),
            ("--sweep", arguments.sweep),
            ("--simulate", arguments.simulate),
            ("--format html", arguments.format == "html"),
        )
        if given
    ]
    if arguments.rights and others:
        message = f"--rights prints a policy in place of the plan; leave {' and '.join(others)} out"
    elif arguments.seed is not None and not arguments.simulate:
        message = "--seed says nothing without --simulate"
    elif arguments.sweep and len(arguments.sweep) > 1:
        message = f"one --sweep at a time, and {len(arguments.sweep)} are given"
    elif arguments.sweep and not all(part.strip() for part in arguments.sweep[0].partition("=")):
        message = (
            f"argument --sweep: {arguments.sweep[0]!r} is not FIELD=RANGE, such as instance_count=1..2000 or "
            "dataset.size=10 TB..100 TB:10 TB"
        )
    elif arguments.output is not None:
        inputs = {"workload": [arguments.file], "catalog": arguments.catalog}
        same = ((kind, each) for kind, files in inputs.items() for each in files if _is_same(arguments.output, each))
        message = next((f"-o would write over the {kind} file {each}" for kind, each in same), "")
    if message:
        raise UsageError(message, program=_PROGRAM)


def _is_same(output: str, file: str | Path) -> bool:
    try:
        return Path(output).samefile(file)
    except OSError:
        return False


def _as_text(plan: Plan, arguments: argparse.Namespace) -> str:
    from training_storage.cli.render import render_plan
    from training_storage.cli.render_whatif import render_sweep, render_what_if
    from training_storage.whatif import steps

    columns = width() if arguments.output is None else 100
    color = arguments.output is None and _wants_color()
    found = _sweep(plan, arguments)
    parts = [
        render_plan(plan, width=columns, color=color, steps=() if arguments.what_if else steps(plan))
        if found is None
        else render_sweep(found, width=columns)
    ]
    if arguments.what_if:
        parts.append(render_what_if(plan, steps(plan), width=columns, color=color))
    simulation = _simulation(plan, arguments)
    if simulation is not None:
        from training_storage.cli.render_simulation import render_simulation

        parts.append(render_simulation(simulation, columns))
    return "\n".join(parts)


def _as_json(plan: Plan, arguments: argparse.Namespace) -> str:
    found, simulation = _sweep(plan, arguments), _simulation(plan, arguments)
    if found is None and simulation is None and not arguments.what_if:
        return plan.to_json()
    document: dict[str, Any] = plan.to_dict()
    if arguments.what_if:
        from training_storage.whatif import break_even, steps

        document["what_if"] = [
            {**step.to_dict(), "break_even": None if step.plan is None else break_even(plan, step).to_dict()}
            for step in steps(plan)
        ]
    if found is not None:
        document["sweep"] = found.to_dict()
    if simulation is not None:
        document["simulation"] = simulation.to_dict()
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _as_html(plan: Plan, arguments: argparse.Namespace) -> str:
    from training_storage.report import render_report
    from training_storage.whatif import default_sweep, steps

    found = _sweep(plan, arguments)
    if found is None:
        found = default_sweep(plan.workload, catalog=plan.catalog, run_length=arguments.run_length)
    return render_report(plan, steps=steps(plan), sweep=found, simulation=_simulation(plan, arguments))


def _sweep(plan: Plan, arguments: argparse.Namespace) -> Sweep | None:
    if not arguments.sweep:
        return None
    from training_storage.whatif import sweep

    field, _, values = arguments.sweep[0].partition("=")
    with _progress() as say:

        def told(done: int, total: int) -> None:
            if say is not None and total >= _LONG_SWEEP and done % (total // 100) == 0:
                say(f"planned {done:,} of {total:,} values")

        return sweep(
            plan.workload,
            field.strip(),
            values.strip(),
            catalog=plan.catalog,
            run_length=arguments.run_length,
            progress=told,
        )


def _simulation(plan: Plan, arguments: argparse.Namespace) -> Simulation | None:
    if not arguments.simulate:
        return None
    from training_storage.simulation import simulate

    with _progress() as say:
        return simulate(
            plan,
            seed=arguments.seed or 0,
            run_length=arguments.run_length,
            progress=None if say is None else lambda share: say(f"simulated {share:.0%}"),
        )


@contextmanager
def _progress() -> Iterator[Callable[[str], None] | None]:
    """Give what says on a terminal how far long work is; nothing of it stays, however the work ends."""
    if not sys.stderr.isatty():
        yield None
        return
    said = False

    def show(text: str) -> None:
        nonlocal said
        said = True
        sys.stderr.write(f"\r{text}")
        sys.stderr.flush()

    try:
        yield show
    finally:
        if said:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _wants_color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
