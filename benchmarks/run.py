"""Measure what a user waits for, against what it costs anyway, and write the ratios to ``docs/benchmarks.md``.

``make bench`` calls it. Competitors take turns (A, B, A, B ...), so that what else the machine does meets both alike;
each figure is a median. Exit code 1 when a target is missed: here alone does time decide anything, no test looks at it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

from rich.console import Console
from rich.table import Table

from training_storage.planner import plan
from training_storage.workload import Workload, load_workload

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- figures: written by make bench -->", "<!-- end of figures -->"
EXAMPLE = "examples/llama3-70b.yaml"
BIN = Path(sys.executable).parent
COMMAND = str(BIN / "training-storage")

PLAN_SECONDS = 0.5
"""What `training-storage plan` may take, process start to process end."""
SYNTH_RATIO = 1.5
"""What our app may take, in times of the same resources written by hand."""
PLANS_PER_SECOND = 2_000
"""What one process must plan."""
SWEEP = "instance_count=1..2000"
SWEEP_SECONDS = 2.0
"""What that sweep may take, process start to process end."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the page.

    Attributes:
        what: What was measured.
        value: Its median.
        unit: ``s`` or ``1/s``.
        against: What it is set against.
        other: The median of that.
        target: The target in words; empty where there is none.
        met: Whether it is met; None where there is none.
    """

    what: str
    value: float
    unit: str
    against: str
    other: float
    target: str = ""
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        verdict = {True: "met", False: "missed", None: ""}[self.met]
        return (
            self.what,
            _amount(self.value, self.unit),
            self.against,
            _amount(self.other, self.unit),
            f"{self.value / self.other:.2f}",
            self.target,
            verdict,
        )


HEADS = ("what", "median", "set against", "median", "ratio", "target", "")


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Seconds of one process with all that it started: on the clock, and of processors."""

    wall: float
    processor: float


def main() -> int:
    """Measure, print, write the page; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="runs of each competitor (default: %(default)s)")
    parser.add_argument("--print-only", action="store_true", help="leave docs/benchmarks.md as it is")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    os.environ.pop("JSII_NODE", None)
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        figures = [
            *measure_plan(arguments.rounds, scratch),
            *measure_planner(arguments.rounds),
            *measure_synth(arguments.rounds, scratch),
        ]
    about = _about(arguments.rounds, load_before)
    show(figures, about)
    if not arguments.print_only:
        PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8"), figures, about), encoding="utf-8")
    return 0 if all(figure.met is not False for figure in figures) else 1


def measure_plan(rounds: int, scratch: Path) -> list[Figure]:
    """The command line, each run a process of its own, with a stand-in for Node that tells when it is started."""
    traces = scratch / "node-was-started"
    environment = _with_node_stub(scratch / "stub", traces)
    # Without this, an empty trace would only show that nobody looks for Node there.
    subprocess.run([sys.executable, "-c", "import aws_cdk; aws_cdk.App()"], env=environment, capture_output=True)
    if not traces.exists():
        raise SystemExit("error: a CDK app did not start the stand-in for Node, so the count would prove nothing")
    traces.unlink()
    spent = take_turns(
        {
            "python": lambda: run([sys.executable, "-c", "pass"], environment),
            "version": lambda: run([COMMAND, "--version"], environment),
            "text": lambda: run([COMMAND, "plan", EXAMPLE], environment),
            "json": lambda: run([COMMAND, "plan", EXAMPLE, "--format", "json"], environment),
            "sweep": lambda: run([COMMAND, "plan", EXAMPLE, "--sweep", SWEEP], environment),
        },
        rounds,
    )
    wall = {name: median(each.wall for each in runs) for name, runs in spent.items()}
    processor = {name: median(each.processor for each in runs) for name, runs in spent.items()}
    started = len(traces.read_text().splitlines()) if traces.exists() else 0
    return [
        Figure(
            what=f"`training-storage plan`, {started} Node processes",
            value=wall["text"],
            unit="s",
            against="`python -c pass`",
            other=wall["python"],
            target=f"{PLAN_SECONDS} s at most, no Node process",
            met=wall["text"] <= PLAN_SECONDS and started == 0,
        ),
        Figure(
            what="the same in seconds of processors",
            value=processor["text"],
            unit="s",
            against="`python -c pass`",
            other=processor["python"],
        ),
        Figure(
            what="`training-storage plan --format json`",
            value=wall["json"],
            unit="s",
            against="the same as text",
            other=wall["text"],
        ),
        Figure(
            what=f"`training-storage plan --sweep {SWEEP}`, 2,000 plans",
            value=wall["sweep"],
            unit="s",
            against="`training-storage plan`",
            other=wall["text"],
            target=f"{SWEEP_SECONDS:g} s at most",
            met=wall["sweep"] <= SWEEP_SECONDS,
        ),
        Figure(
            what="the same in seconds of processors",
            value=processor["sweep"],
            unit="s",
            against="`training-storage plan`",
            other=processor["text"],
        ),
        Figure(
            what="`training-storage --version`",
            value=wall["version"],
            unit="s",
            against="`python -c pass`",
            other=wall["python"],
        ),
    ]


def measure_planner(rounds: int) -> list[Figure]:
    """Plans a second in one process: every example and every worked example, loaded anew before each round."""
    documents = [case["workload"] for case in _golden() if case["answer"] is not None]
    examples = sorted((ROOT / "examples").glob("*.yaml"))

    def load() -> list[Workload]:
        return [*map(load_workload, examples), *map(Workload.model_validate, documents)]

    def planning() -> tuple[float, float]:
        workloads = load()
        start, used = time.perf_counter(), time.process_time()
        for workload in workloads:
            plan(workload)
        return len(workloads) / (time.perf_counter() - start), len(workloads) / (time.process_time() - used)

    def loading() -> tuple[float, float]:
        start, used = time.perf_counter(), time.process_time()
        loaded = len(load())
        return loaded / (time.perf_counter() - start), loaded / (time.process_time() - used)

    planning()
    planned, loaded = [], []
    for _ in range(4 * rounds):
        planned.append(planning())
        loaded.append(loading())
    rate, rate_of_processor = (median(each[which] for each in planned) for which in (0, 1))
    # A processor that is shared or throttled only ever slows a round down, so the fastest says what the code can do.
    fastest = max(each[0] for each in planned)
    loads, loads_of_processor = (median(each[which] for each in loaded) for which in (0, 1))
    return [
        Figure(
            what="plans a second, one process, workloads loaded before: the fastest round",
            value=fastest,
            unit="1/s",
            against="workloads read and checked a second: the fastest round",
            other=max(each[0] for each in loaded),
            target=f"{PLANS_PER_SECOND:,} a second at least",
            met=fastest >= PLANS_PER_SECOND,
        ),
        Figure(
            what="the same, median of the rounds",
            value=rate,
            unit="1/s",
            against="workloads read and checked a second, median",
            other=loads,
        ),
        Figure(
            what="plans a second of processor",
            value=rate_of_processor,
            unit="1/s",
            against="workloads read and checked a second of processor",
            other=loads_of_processor,
        ),
    ]


def measure_synth(rounds: int, scratch: Path) -> list[Figure]:
    """Our app against the bare one, and the deployment of what it makes into the emulator of this process."""
    # Loads what emulates AWS, which the rounds before are measured without.
    from training_storage.emulator import emulator

    apps = {"ours": "app.py", "bare": "benchmarks/bare_app.py"}

    def synth(name: str) -> Spent:
        folder = scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        return run([sys.executable, apps[name]], _app_environment(folder))

    def deploy() -> Spent:
        with emulator() as aws:
            start, used = time.perf_counter(), time.process_time()
            aws.deploy_assembly(scratch / "ours")
            return Spent(wall=time.perf_counter() - start, processor=time.process_time() - used)

    spent = take_turns({"ours": lambda: synth("ours"), "bare": lambda: synth("bare"), "deploy": deploy}, rounds)
    wall = {name: median(each.wall for each in runs) for name, runs in spent.items()}
    processor = {name: median(each.processor for each in runs) for name, runs in spent.items()}
    return [
        Figure(
            what="`python app.py` for `llama3-70b`",
            value=wall["ours"],
            unit="s",
            against="`benchmarks/bare_app.py`, the same resources in L1 by hand",
            other=wall["bare"],
            target=f"{SYNTH_RATIO} times at most",
            met=wall["ours"] <= SYNTH_RATIO * wall["bare"],
        ),
        Figure(
            what="the same in seconds of processors, Node and Python together",
            value=processor["ours"],
            unit="s",
            against="`benchmarks/bare_app.py`",
            other=processor["bare"],
        ),
        Figure(
            what="deployment of `llama3-70b` into the emulator, in one process",
            value=wall["deploy"],
            unit="s",
            against="`python app.py`",
            other=wall["ours"],
        ),
    ]


def take_turns(competitors: Mapping[str, Callable[[], Spent]], rounds: int) -> dict[str, list[Spent]]:
    """Run each once to warm up, then all of them in turn, round by round."""
    spent: dict[str, list[Spent]] = {name: [] for name in competitors}
    for number in range(rounds + 1):
        for name, competitor in competitors.items():
            used = competitor()
            if number:
                spent[name].append(used)
    return spent


def run(command: Sequence[str], environment: Mapping[str, str]) -> Spent:
    """Run a process to its end, and fail with what it said where it fails."""
    before, start = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    wall, after = time.perf_counter() - start, getrusage(RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command)} ended with {done.returncode}\n{done.stderr}")
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(wall=wall, processor=processor)


def with_figures(page: str, figures: Sequence[Figure], about: str) -> str:
    """Return the page with everything between the marks written anew."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise SystemExit(f"error: {PAGE.name} must hold {BEGIN!r} and {END!r} once each, in this order")
    rows = [HEADS, ("---",) * len(HEADS), *(figure.cells() for figure in figures)]
    lines = [BEGIN, "", *(f"| {' | '.join(row)} |" for row in rows), "", about, "", END]
    return page[: page.index(BEGIN)] + "\n".join(lines) + page[page.index(END) + len(END) :]


def show(figures: Sequence[Figure], about: str) -> None:
    """Print the figures."""
    table = Table()
    for head in HEADS:
        table.add_column(head)
    for figure in figures:
        table.add_row(*(cell.replace("`", "") for cell in figure.cells()))
    console = Console(width=None if sys.stdout.isatty() else 180)
    console.print(table)
    console.print(about)


def _about(rounds: int, load_before: float) -> str:
    node = subprocess.run(["node", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    if not node.startswith("v24."):
        raise SystemExit(f"error: Node 24 is what the figures are about, and node is {node}")
    return (
        f"Medians of {rounds} runs each. {platform.system()} {platform.machine()}, {os.cpu_count()} cores, load "
        f"average of one minute {load_before:.2f} before the run and {os.getloadavg()[0]:.2f} after it; Python "
        f"{platform.python_version()}, Node {node.removeprefix('v')}, aws-cdk-lib {version('aws-cdk-lib')}."
    )


def _with_node_stub(folder: Path, traces: Path) -> dict[str, str]:
    folder.mkdir()
    stub = folder / "node"
    stub.write_text(f'#!/bin/sh\necho started >>"{traces}"\nexit 1\n')
    stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    return os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "JSII_NODE": str(stub)}


def _app_environment(folder: Path) -> dict[str, str]:
    """What `cdk synth` would hand to an app: the context of cdk.json, the workload, and where the assembly goes."""
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"] | {"workload": EXAMPLE}
    return os.environ | {
        "CDK_CONTEXT_JSON": json.dumps(context),
        "CDK_OUTDIR": str(folder),
        "CDK_VALIDATION": "false",
    }


def _golden() -> list[dict[str, object]]:
    return list(json.loads((ROOT / "tests" / "data" / "golden_plans.json").read_text(encoding="utf-8"))["cases"])


def _amount(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if unit == "1/s" else f"{value:.3f} {unit}"


if __name__ == "__main__":
    sys.exit(main())
