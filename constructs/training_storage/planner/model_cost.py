"""What a plan costs, as lines like those of an invoice. USD; a month has 730 hours; an unknown price stays unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HOURS_PER_MONTH = 730.0
"""Hours of a month, as AWS bills it."""

Group = Literal["storage", "compute"]
Kind = Literal["storage", "throughput", "metadata", "requests", "transfer", "network", "gpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostLine:
    """One line.

    Attributes:
        item: Item of the price book such as ``lustre.PERSISTENT_2.SSD.500``.
        label: The same for people, with the calculation of the quantity where it is not plain.
        group: ``compute`` for the instances, ``storage`` for everything else that the plan makes or uses; summed apart.
        kind: What is paid for.
        quantity: Units in a month of continuous training; of a line that is paid ``once`` the units of one run.
        unit: Unit of the price, such as ``GiB-month``.
        unit_price: Price of one unit, USD; where it falls with the quantity the average over a month; None where it is
            not known.
        hourly: One hour of continuous training, USD; 0 for a line that is paid once; None where the price is not known.
        run: One run, USD; None where the price or the length of the run is not known.
        monthly: One month of continuous training, USD; a line that is paid once counts once.
        once: Whether it is paid once a run (loading the data) and not all the time.
        hot: Whether it ends when the hot tier is released.
        source: Where the price comes from, with date and trust; None without a row.
        trust: How sure the row is, as in the catalog; None without a row.
    """

    item: str
    label: str
    group: Group
    kind: Kind
    quantity: float
    unit: str
    unit_price: float | None
    hourly: float | None
    run: float | None
    monthly: float | None
    once: bool
    hot: bool
    source: str | None
    trust: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterRun:
    """Keeping the hot tier between two runs beside releasing it and loading it again.

    Attributes:
        keep_hourly: The hot tier while nobody trains, USD an hour.
        keep_monthly: The same for a month.
        reload_usd: What loading the data again costs before the next run: requests and upload, and a file system while
            it loads (a directory bucket is paid by what is in it already); None where a part is not known.
        reload_s: How long loading takes, seconds; None where it is not known, as for staging to directory buckets.
        break_even_h: Hours between two runs above which releasing is cheaper; None where a part is not known.
    """

    keep_hourly: float | None
    keep_monthly: float | None
    reload_usd: float | None
    reload_s: float | None
    break_even_h: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The bill. Totals are the sums of the lines whose price is known, None where no line of theirs is.

    Attributes:
        currency: ``USD``.
        region: Region whose price rows count; no row of another region stands in.
        run_h: Length of one run in hours; None where it is not known.
        lines: The lines, storage before compute.
        storage_hourly, storage_run, storage_monthly: Sums of the storage lines.
        compute_hourly, compute_run, compute_monthly: Sums of the compute lines.
        hourly, run, monthly: Sums of all lines.
        unpriced: Items without a price, in the order of the lines; they are in no sum.
        after_run: Keeping beside releasing; None without a hot tier of ours.
    """

    currency: str
    region: str
    run_h: float | None
    lines: tuple[CostLine, ...]
    storage_hourly: float | None
    storage_run: float | None
    storage_monthly: float | None
    compute_hourly: float | None
    compute_run: float | None
    compute_monthly: float | None
    hourly: float | None
    run: float | None
    monthly: float | None
    unpriced: tuple[str, ...]
    after_run: AfterRun | None
