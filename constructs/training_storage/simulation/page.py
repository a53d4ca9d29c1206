"""Formulas against simulation, as a page: ``python -m training_storage.simulation.page > docs/simulation.md``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from training_storage.simulation.grid import Check, Grid, run_grid

_HEAD: Final = """# The simulation

`training-storage plan FILE --simulate` plays the plan event by event and puts what it measures beside the formulas of
the prediction. The same seed (`--seed N`) gives the same figures. This page is made from the code:
`python -m training_storage.simulation.page > docs/simulation.md`.

## What is simulated

**The data path, read by read.** Every accelerator has workers x prefetch slots. A slot starts a read, waits for its
first byte (and the open of a file), then for its turn on the link, whose rate is the accelerators' share of the tier's
supply, first come first served; where a rate of one request is published, a read is no faster than that. The unit is
then ready in the queue, and its slot is free again when the accelerator takes it. The accelerator takes one unit each
unit / rate seconds, or waits. At most 8 accelerators share a simulated link. The beginning is not measured.

**The run.** Training, saves, failures, restarts, restores. A synchronous save stalls training and is durable at its
end. An asynchronous save begins with a snapshot and is durable when it is written; training goes on. Failures come at
any moment alike (Poisson), in saves and restores too; each throws away what was trained since the newest durable
checkpoint was taken. Where saves and reads share the disks, reads get what a save leaves. Accelerators that wait for
data slow the run by the share that the data path measured.

**What is drawn.** Only failures, and latencies where they vary. Each has a stream of its own, so that a change of one
thing does not shift another. A plan whose run has few failures is simulated up to 100 times with seeds that follow from
the given one: `(chance)` marks a difference that three standard errors explain.

**What is bounded.** The number of events. Very many cycles of training and saving are taken several in one step, and
very many reads in flight in bundles, which changes no figure; with very many failures the simulation ends early and
says so.

**What it does not know.** Caches and read-ahead on the nodes, the order in which a file system serves reads and saves,
saves of which a part fails, failures that come in groups. It shares these gaps with the formulas: it checks that the
formulas follow from the model, not that the model is the world.
"""

_REASONS: Final = """Why not:

- Reads: the formula takes latency and supply each for itself. A read that has the link to itself takes both, one after
  the other. That counts where few reads are in flight or units are small: there the bytes of one unit take long beside
  the latency.
- Varying latency (exponential about the same mean): near balance a slow read is not made up for. A loader that hands
  units over in order waits for a slow read while those behind it are ready and keep their slots: it needs several
  times as many slots as the formula says.
- Stall: failures come before the next save more often than in it, so that saves have a smaller share of the time.
- Saves that share the throughput: the effective time is that of saves which take nothing from reads. The prediction has
  the data wait with saves beside it.
- Saves that take longer than the interval: the formula takes snapshots one save apart, also the first after a restore.
"""

_COLUMNS: Final = (
    "| cases | figure | compared | worst difference | formula | simulated | its case |\n|---|---|---|---|---|---|---|"
)


def simulation_page(grid: Grid) -> str:
    """Return the page as Markdown."""
    worst = max(grid.exact, key=_off)
    near = sum(_off(check) <= _ONE_PERCENT for check in grid.exact)
    lines = [
        _HEAD,
        "## Formulas against simulation\n",
        f"{grid.cases} cases were simulated and {len(grid.checks)} figures compared. In {len(grid.exact)} of them the "
        f"formula claims to be exact; {near} of those are within 1 %.\n",
        f"**The worst is {_percent(worst)}**: {worst.figure}, {_value(worst.closed_form)} by the formula and "
        f"{_value(worst.simulated)} simulated, {worst.inputs}.\n",
        "Shares of the time below 1 % are not compared. In most cases of a run the times between failures are spread "
        "evenly over their distribution, which takes chance out of the comparison; where they are drawn one by one, "
        "they are 10,000 independent draws.\n",
        *_table(grid.exact),
        "",
        "## Where the formulas do not claim to be exact\n",
        "A plan prints its formula there too; the simulation says how far it is off. The cases are chosen to show "
        "that, not to be likely.\n",
        *_table(grid.inexact),
        "",
        _REASONS,
    ]
    return "\n".join(lines)


_ONE_PERCENT: Final = 0.01


def _off(check: Check) -> float:
    return abs(check.difference)


def _table(checks: Sequence[Check]) -> list[str]:
    groups: dict[tuple[str, str], list[Check]] = {}
    for check in checks:
        groups.setdefault((check.group, check.figure), []).append(check)
    rows = [_COLUMNS]
    for (group, figure), members in groups.items():
        worst = max(members, key=_off)
        rows.append(
            f"| {group} | {figure} | {len(members)} | {_percent(worst)} | {_value(worst.closed_form)} | "
            f"{_value(worst.simulated)} | {worst.inputs} |"
        )
    return rows


def _percent(check: Check) -> str:
    text = f"{check.difference * 100:+.2f}"
    return "0 %" if text.strip("+-") == "0.00" else f"{text} %"


def _value(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


if __name__ == "__main__":
    sys.stdout.write(simulation_page(run_grid()))
