"""Find and judge 200 checkpoints with 100,000 files on a file system.

What ``training-storage checkpoints list`` and the plan of ``prune`` wait for on a node, set against ``find`` over the
same folder. Every tenth checkpoint is in the lake already, so that records and ledgers are read and compared too. Exit
code 1 where it takes more than two seconds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from training_storage.node.checkpoints.layouts import find_checkpoints
from training_storage.node.checkpoints.model import Checkpoint, Decision, Ledger, Policy, Record, RecordedFile
from training_storage.node.checkpoints.policy import decide
from training_storage.node.checkpoints.tree import LocalTree

CHECKPOINTS, FILES = 200, 100_000
SECONDS = 2.0
"""What finding and judging them may take."""
POLICY = Policy(keep_hot=3, promote_every=10)
_BEGIN_S, _EVERY_S = 1_700_000_000, 1_800


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Seconds, medians of the rounds.

    Attributes:
        find: ``find_checkpoints`` over the folder.
        decide: ``decide`` over what was found.
        walk: ``find FOLDER -type f -printf '%s %T@ %p'`` over the same.
    """

    find: float
    decide: float
    walk: float


def build(root: Path, checkpoints: int = CHECKPOINTS, files: int = FILES) -> None:
    """Write PyTorch checkpoints of one run, half an hour apart, with so many files in all."""
    each = files // checkpoints
    for step in range(checkpoints):
        folder = root / "run1" / f"step-{step}"
        folder.mkdir(parents=True)
        written = _BEGIN_S + step * _EVERY_S
        for number in range(each):
            name = ".metadata" if number == each - 1 else f"__{number}_0.distcp"
            path = folder / name
            path.write_bytes(b"x")
            os.utime(path, (written, written))


def look(
    root: Path, records: Sequence[Record], ledgers: Mapping[str, Ledger]
) -> tuple[list[Checkpoint], Decision, float, float]:
    """Return what one look finds and says, and the seconds of both."""
    start = time.perf_counter()
    found = find_checkpoints(LocalTree(str(root)))
    between = time.perf_counter()
    decision = decide(found, records, ledgers, POLICY, now_ns=time.time_ns())
    return found, decision, between - start, time.perf_counter() - between


def promoted(found: Sequence[Checkpoint]) -> list[Record]:
    """Return records of every tenth, as if they were in the lake."""
    return [
        Record(
            each.path, each.series, each.layout, each.step, number, each.fingerprint, "every", "upload", "", {},
            tuple(RecordedFile(file.path, file.size, file.modified_ns, "etag") for file in each.files),
        )
        for number, each in enumerate(sorted(found, key=lambda one: one.modified_ns), 1)
        if number % POLICY.promote_every == 0
    ]  # fmt: skip


def measure(root: Path, rounds: int, checkpoints: int = CHECKPOINTS, files: int = FILES) -> Measured:
    """Measure in turn, after one look that warms the cache and has to find everything."""
    found, decision, _, _ = look(root, (), {})
    records, ledgers = promoted(found), decision.ledgers
    whole = sum(each.complete for each in found)
    if whole != checkpoints or sum(len(each.files) for each in found) != files // checkpoints * checkpoints:
        raise SystemExit(f"error: {whole} complete checkpoints were found; {checkpoints} are there")
    if len(decision.to_promote) != checkpoints // POLICY.promote_every:
        raise SystemExit(f"error: {len(decision.to_promote)} are due; every tenth of {checkpoints} should be")
    spent: list[tuple[float, float, float]] = []
    for _ in range(rounds):
        _, decision, finding, deciding = look(root, records, ledgers)
        start = time.perf_counter()
        subprocess.run(["find", root, "-type", "f", "-printf", "%s %T@ %p\n"], check=True, capture_output=True)
        spent.append((finding, deciding, time.perf_counter() - start))
    if decision.to_promote or len(decision.to_prune) != checkpoints - POLICY.keep_hot:
        raise SystemExit(f"error: {len(decision.to_prune)} may go; {checkpoints - POLICY.keep_hot} should")
    find, judge, walk = (median(each) for each in zip(*spent, strict=True))
    return Measured(find=find, decide=judge, walk=walk)


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="looks (default: %(default)s)")
    parser.add_argument("--files", type=int, default=FILES, help="files in all (default: %(default)s)")
    parser.add_argument("--checkpoints", type=int, default=CHECKPOINTS, help="checkpoints (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        build(Path(place), arguments.checkpoints, arguments.files)
        measured = measure(Path(place), arguments.rounds, arguments.checkpoints, arguments.files)
    total = measured.find + measured.decide
    print(f"{arguments.checkpoints:,} checkpoints, {arguments.files:,} files, median of {arguments.rounds} looks:")
    print(f"  find_checkpoints {measured.find:.3f} s, decide {measured.decide:.3f} s, together {total:.3f} s")
    print(f"  find(1) over the same {measured.walk:.3f} s; target {SECONDS:g} s at most")
    return 0 if total <= SECONDS else 1


if __name__ == "__main__":
    raise SystemExit(main())
