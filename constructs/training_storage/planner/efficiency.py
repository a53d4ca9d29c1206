"""What failures and saves leave of the time: closed forms, exact for failures that come at any moment alike (Poisson).

Renewal argument: after each failure the run starts again from the last durable checkpoint, and what follows has no
memory of what was. With M the mean time between failures, R from a failure to training again, dt training between two
saves and w one save, all in seconds, e^(-R/M) of the failures find the run training again. Failures strike in saves,
restarts and restores too. ``docs/prediction.md`` has the derivation.
"""

from __future__ import annotations

import math

_MOST = 700.0
"""Exponents beyond this overflow a float; what is divided by such a number is 0."""

_FEW = 0.01
"""Below it two nearly equal numbers would be subtracted: the series is exact to the last digits there."""


def effective_ratio(
    *, interval_s: float, write_s: float, mtbf_s: float, recovery_s: float, asynchronous: bool
) -> float:
    """Return the share of the time that ends as training progress, 0 to 1, data wait not counted.

    Args:
        interval_s: Training between two saves; asynchronous saves are taken this far apart, or one save apart where
            that is longer.
        write_s: One save. A synchronous save stops training and is durable at its end; an asynchronous one overlaps
            with training and is durable as much later.
        mtbf_s: Mean time between failures of the fleet.
        recovery_s: From a failure to training again: restart and restore.
        asynchronous: Whether saves overlap with training.

    Returns:
        Synchronous: dt / (M e^(R/M) (e^((dt+w)/M) - 1)). Asynchronous: dt e^(-w/M) / (M e^(R/M) (e^(dt/M) - 1)).
    """
    if asynchronous:
        interval_s = max(interval_s, write_s)
    if interval_s <= 0:
        # Nothing but saves; where they take no time either, only recovery is lost.
        return _decay(recovery_s, mtbf_s) if write_s <= 0 else 0.0
    if asynchronous:
        kept = _shrink(interval_s, interval_s, mtbf_s) * _decay(write_s, mtbf_s)
    else:
        kept = _shrink(interval_s, interval_s + write_s, mtbf_s)
    return min(1.0, max(0.0, kept * _decay(recovery_s, mtbf_s)))


def lost_work_s(*, interval_s: float, write_s: float, mtbf_s: float, recovery_s: float, asynchronous: bool) -> float:
    """Return the training that one failure throws away on average, seconds; restart and restore not counted.

    A failure throws away what was trained since the newest durable checkpoint was taken, and nothing where it strikes
    before training goes on. Arguments as for ``effective_ratio``. The same renewal as there: of the mean time M between
    two failures, what is kept, saves, recovery and this make up the whole.

    Returns:
        Synchronous: e^(-R/M) (dt - M (dt/M - 1 + e^(-dt/M)) / (1 - e^(-(dt+w)/M))), near dt / 2 where failures are
        rare and saves short. Asynchronous: e^(-R/M) (M - dt e^(-w/M) / (e^(dt/M) - 1)), near dt / 2 + w.
    """
    if asynchronous:
        interval_s = max(interval_s, write_s)
    if interval_s <= 0:
        return 0.0
    x, found = interval_s / mtbf_s, _decay(recovery_s, mtbf_s)
    if asynchronous:
        if x > _MOST:
            return found * mtbf_s
        # 1 - h e^(-w/M) with h = x / (e^x - 1), as two parts of one sign: (1 - h) + h (1 - e^(-w/M)).
        grown = math.expm1(x)
        return found * mtbf_s * (_beyond_first_order(x) - x * math.expm1(-write_s / mtbf_s)) / grown
    whole = (interval_s + write_s) / mtbf_s
    ends = -math.expm1(-whole)
    if x < 1:
        return found * (interval_s - mtbf_s * _beyond_first_order(-x) / ends)
    # The same, so that two nearly equal intervals are not subtracted where few cycles end.
    return found * (-mtbf_s * math.expm1(-x) - interval_s * math.exp(-whole)) / ends


def _decay(time_s: float, mtbf_s: float) -> float:
    """Return e^(-t/M), the share of times without a failure in t; 0 where a float holds nothing so small."""
    return math.exp(-time_s / mtbf_s)


def _shrink(interval_s: float, cycle_s: float, mtbf_s: float) -> float:
    """Return dt / (M (e^(c/M) - 1)); 0 where the exponent leaves the range of floats."""
    exponent = cycle_s / mtbf_s
    return 0.0 if exponent > _MOST else interval_s / mtbf_s / math.expm1(exponent)


def _beyond_first_order(x: float) -> float:
    """Return e^x - 1 - x, without the loss of digits where x is small."""
    if abs(x) < _FEW:
        return x * x * (1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x / 720))))
    return math.expm1(x) - x
