"""Tables about money: the lines of the bill, keeping or releasing the hot tier, and where each price comes from."""

from __future__ import annotations

from collections.abc import Sequence

from training_storage.catalog.model import Source
from training_storage.planner.model import Plan
from training_storage.planner.model_cost import Cost, CostLine
from training_storage.planner.words import number, seconds
from training_storage.report.summary import UNKNOWN
from training_storage.report.tables import Column, Row, Table, table
from training_storage.report.words import decimal, money, sentence, usd

_GROUPS = {"storage": "Storage", "compute": "Compute"}


def cost_table(cost: Cost) -> Table | None:
    """Return the bill: lines by group with their sums."""
    columns = [
        Column("What"),
        Column("Quantity", "measure"),
        Column("Unit price", "number"),
        Column("Hour", "number"),
        *([Column(f"Run of {seconds(cost.run_h * 3600)}", "number")] if cost.run_h is not None else []),
        Column("Month", "number"),
    ]
    sums = {
        "storage": (cost.storage_hourly, cost.storage_run, cost.storage_monthly),
        "compute": (cost.compute_hourly, cost.compute_run, cost.compute_monthly),
    }
    rows: list[Row] = []
    for group, name in _GROUPS.items():
        lines = [line for line in cost.lines if line.group == group]
        if not lines:
            continue
        rows.append(Row((name,), "group"))
        rows += [Row(_cells(line, cost)) for line in lines]
        known = _known(lines)
        rows.append(Row((f"{name} together{known}", "", "", *_amounts(sums[group], cost)), "sum"))
    if rows:
        everything = (cost.hourly, cost.run, cost.monthly)
        rows.append(Row((f"Everything{_known(cost.lines)}", "", "", *_amounts(everything, cost)), "sum"))
    return table("Lines of the bill, USD", tuple(columns), rows)


def _known(lines: Sequence[CostLine]) -> str:
    """Return what a sum leaves out; nothing where it has every line, or none and is not known itself."""
    unpriced = sum(line.unit_price is None for line in lines)
    return f", without the {number(unpriced)} not known" if 0 < unpriced < len(lines) else ""


def _cells(line: CostLine, cost: Cost) -> tuple[str, ...]:
    per = "a run" if line.once else "a month"
    price = UNKNOWN if line.unit_price is None else decimal(line.unit_price, 6)
    times = "x " if line.unit[:1].isdigit() else ""
    plural = "s" if line.unit == "hour" and line.quantity != 1 else ""
    quantity = f"{number(line.quantity)} {times}{line.unit}{plural}"
    return (
        sentence(line.label),
        quantity if "month" in line.unit else f"{quantity} {per}",
        price,
        *_amounts((line.hourly, line.run, line.monthly), cost),
    )


def _amounts(amounts: tuple[float | None, float | None, float | None], cost: Cost) -> tuple[str, ...]:
    hour, run, month = amounts
    return (_amount(hour), *((_amount(run),) if cost.run_h is not None else ()), _amount(month))


def _amount(value: float | None) -> str:
    return UNKNOWN if value is None else money(value)


def after_run_table(cost: Cost) -> Table | None:
    """Return keeping the hot tier between two runs beside releasing it; None without a hot tier of ours."""
    after = cost.after_run
    if after is None:
        return None

    def amount(value: float | None, per: str = "") -> str:
        return UNKNOWN if value is None else f"{usd(value)}{per}"

    def time(value: float | None) -> str:
        return UNKNOWN if value is None else seconds(value)

    break_even = None if after.break_even_h is None else after.break_even_h * 3600
    monthly = "" if after.keep_monthly is None else f"{usd(after.keep_monthly)} a month without training."
    rows = [
        Row(("Keeping it", amount(after.keep_hourly, " an hour"), monthly)),
        Row(("Loading again", amount(after.reload_usd), "After a release, before the next run.")),
        Row(("Time to load again", time(after.reload_s), "")),
        Row(("Releasing is cheaper", time(break_even), "Where two runs are further apart than this.")),
    ]
    columns = (Column("What"), Column("Value", "number"), Column("What it means"))
    return table("Keep or release the hot tier", columns, rows, hide_caption=True)


def source_table(plan: Plan) -> Table | None:
    """Return where each price comes from, with date and trust, and the facts of the instance type."""
    rows: list[Row] = []
    seen: set[str] = set()
    for line in plan.cost.lines:
        if line.item in seen:
            continue
        seen.add(line.item)
        row = plan.catalog.prices.price(line.item, plan.cost.region)
        price = UNKNOWN if line.unit_price is None else f"{decimal(line.unit_price, 6)} USD a {line.unit}"
        rows.append(Row((line.item, price, *_source(None if row is None else row.source, line.source))))
    facts = plan.compute.facts
    rows.append(Row((facts.name, "Facts of the instance type", *_source(facts.source, None))))
    columns = (Column("Item", "code"), Column("Value", "measure"), Column("Source"), Column("Date"), Column("Trust"))
    return table(f"Prices of {plan.cost.region} and facts, with their source", columns, rows, hide_caption=True)


def _source(source: Source | None, text: str | None) -> tuple[str, str, str]:
    if source is None:
        return (text or "No row: the item stays unpriced", "", "")
    return (source.text, source.date or UNKNOWN, source.trust)
