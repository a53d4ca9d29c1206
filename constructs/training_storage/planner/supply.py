"""What a tier delivers, and what that means for training: data wait, save and restore time, stall.

Used to judge tiers and for the warnings that compare them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from training_storage.planner.demand import Needs
from training_storage.planner.latency import ReadTime
from training_storage.planner.model_prediction import LimitName
from training_storage.planner.words import number
from training_storage.units import MB


class Term(NamedTuple):
    """One thing that bounds a rate; a plan makes many and prints few, so that its text is made when it is asked for.

    Attributes:
        name: Which.
        mb_per_s: What it lets through for the whole fleet, MB/s.
        form: The calculation, with ``{}`` for each of its numbers.
        numbers: Those.
    """

    name: LimitName
    mb_per_s: float
    form: str
    numbers: tuple[float, ...]

    def because(self) -> str:
        """Return the calculation with its numbers."""
        return self.form.format(*map(number, self.numbers))


def tightest(terms: tuple[Term, ...]) -> Term:
    """Return the smallest; of equal ones the first."""
    return min(terms, key=_mb_per_s)


def _mb_per_s(term: Term) -> float:
    return term.mb_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What binds on one tier.

    Attributes:
        reads: Everything that bounds reads of the whole fleet; causes stand before what they cause, for ties.
        write: What binds saves.
        restore: What binds restores.
        read_time: How long one read takes; None where the loader is not known.
    """

    reads: tuple[Term, ...]
    write: Term
    restore: Term
    read_time: ReadTime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the limits of a tier mean for the workload; None where a part of the demand is not known.

    Attributes:
        data_wait_fraction: Share of the time that accelerators wait for data.
        checkpoint_write_s: How long one save takes, seconds.
        checkpoint_stall_fraction: Share of the time that saves stall training.
        restore_s: How long a restore takes, seconds.
        recommended_checkpoint_interval_s: Interval that loses least time to saves that stall (Young), seconds.
        mtbf_h: Mean time between failures of the fleet, hours.
    """

    data_wait_fraction: float | None
    checkpoint_write_s: float | None
    checkpoint_stall_fraction: float | None
    restore_s: float | None
    recommended_checkpoint_interval_s: float | None
    mtbf_h: float


def latency_terms(needs: Needs, time: ReadTime | None) -> tuple[Term, ...]:
    """Return the limit of the reads in flight (Little's law); nothing where the loader or the latency is not known."""
    if time is None or time.seconds is None or needs.reads_in_flight is None:
        return ()
    unit_mb = time.unit_bytes / MB
    return (
        Term(
            "latency",
            needs.reads_in_flight * unit_mb / time.seconds,
            f"{{}} read{'' if needs.reads_in_flight == 1 else 's'} in flight x {{}} MB, each {{}} s",
            (needs.reads_in_flight, unit_mb, time.seconds),
        ),
    )


def data_wait(read_mb_per_s: float | None, supply_mb_per_s: float) -> float | None:
    """Return the share of the time that accelerators wait for data; None where reads are not known."""
    if read_mb_per_s is None:
        return None
    return max(0.0, 1 - supply_mb_per_s / read_mb_per_s) if read_mb_per_s > 0 else 0.0


def outcome(needs: Needs, limits: Limits) -> Outcome:
    """Return what the limits mean for the workload; the smallest of what binds counts, never a product."""
    wait = data_wait(needs.demand.read_mb_per_s, tightest(limits.reads).mb_per_s)
    saves = needs.saves
    if saves is None:
        return Outcome(
            data_wait_fraction=wait,
            checkpoint_write_s=None,
            checkpoint_stall_fraction=None,
            restore_s=None,
            recommended_checkpoint_interval_s=None,
            mtbf_h=needs.mtbf_h,
        )
    write_s = saves.checkpoint_bytes / MB / limits.write.mb_per_s
    return Outcome(
        data_wait_fraction=wait,
        checkpoint_write_s=write_s,
        checkpoint_stall_fraction=saves.stall_fraction(write_s),
        restore_s=saves.checkpoint_bytes * saves.restore_readers / MB / limits.restore.mb_per_s,
        recommended_checkpoint_interval_s=saves.recommended_interval_s(write_s),
        mtbf_h=needs.mtbf_h,
    )
