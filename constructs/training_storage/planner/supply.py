"""What a tier delivers, and what that means for training: data wait, save and restore time, stall.

Used to judge tiers and for the warnings that compare them.
"""

from __future__ import annotations

from dataclasses import dataclass

from training_storage.planner.demand import Needs
from training_storage.units import MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What binds on one tier.

    Attributes:
        read_mb_per_s: Reads of the whole fleet, MB/s.
        write_mb_per_s: Saves, MB/s.
        restore_mb_per_s: Restores, MB/s.
        granted_share: Share of the file opens (Lustre) or read requests (S3) that is granted; above 1 nothing is held
            back; None where they are not known or do not bind.
    """

    read_mb_per_s: float
    write_mb_per_s: float
    restore_mb_per_s: float
    granted_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the limits of a tier mean for the workload; None where a part of the demand is not known.

    Attributes:
        data_wait_fraction: Share of the time that accelerators wait for data.
        checkpoint_write_s: How long one save takes, seconds.
        checkpoint_stall_fraction: Share of the time that saves stall training.
        restore_s: How long a restore takes, seconds.
        recommended_checkpoint_interval_s: Interval that loses least time, seconds.
        mtbf_h: Mean time between failures of the fleet, hours.
    """

    data_wait_fraction: float | None
    checkpoint_write_s: float | None
    checkpoint_stall_fraction: float | None
    restore_s: float | None
    recommended_checkpoint_interval_s: float | None
    mtbf_h: float


def outcome(needs: Needs, limits: Limits) -> Outcome:
    """Return what the limits mean for the workload; the smallest of what binds counts, never a product."""
    wait: float | None = None
    read = needs.demand.read_mb_per_s
    if read is not None:
        supply = limits.read_mb_per_s
        if limits.granted_share is not None:
            supply = min(supply, read * limits.granted_share)
        wait = max(0.0, 1 - supply / read) if read > 0 else 0.0
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
    write_s = saves.checkpoint_bytes / MB / limits.write_mb_per_s
    return Outcome(
        data_wait_fraction=wait,
        checkpoint_write_s=write_s,
        checkpoint_stall_fraction=saves.stall_fraction(write_s),
        restore_s=saves.checkpoint_bytes * saves.restore_readers / MB / limits.restore_mb_per_s,
        recommended_checkpoint_interval_s=saves.recommended_interval_s(write_s),
        mtbf_h=needs.mtbf_h,
    )
