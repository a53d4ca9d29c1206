"""Tables about speed: demand and limits, what training will see, the first pass over the data, saves and failures."""

from __future__ import annotations

from training_storage.planner.model import Plan
from training_storage.planner.model_prediction import FirstEpoch, LimitName, Prediction
from training_storage.planner.words import gib, mb_per_s, number, seconds
from training_storage.report.chart_limits import NAMES
from training_storage.report.summary import UNKNOWN, takes_from_reads
from training_storage.report.tables import Column, Row, Table, table
from training_storage.report.words import nearly, sentence, usd

_FIGURES = (Column("Figure"), Column("Value", "number"), Column("What it means"))


def limit_table(plan: Plan) -> Table | None:
    """Return every limit with its calculation, the tightest first."""
    asked = plan.demand.read_mb_per_s
    rows = [
        Row(
            (
                NAMES[limit.name],
                mb_per_s(limit.mb_per_s),
                UNKNOWN if not asked else f"{number(limit.mb_per_s / asked)} x",
                sentence(limit.because),
            )
        )
        for limit in plan.prediction.limits
    ]
    columns = (Column("Limit"), Column("Lets through", "number"), Column("Of the demand", "number"), Column("Why"))
    return table("What bounds reads, the tightest first", columns, rows)


def demand_table(plan: Plan) -> Table | None:
    """Return what is asked of the storage, beside what is planned for it."""
    demand, lustre, seen = plan.demand, plan.lustre, plan.prediction
    opens = None if lustre is None or lustre.metadata_iops is None else f"{number(2 * lustre.metadata_iops)} a second"
    capacity = None if lustre is None or lustre.storage_capacity_gib is None else gib(lustre.storage_capacity_gib)
    rows = [
        Row(("Reads of the fleet", _rate(demand.read_mb_per_s), mb_per_s(seen.read_supply_mb_per_s))),
        Row(("Reads of one instance", _rate(demand.read_mb_per_s_per_instance), "")),
        Row(("Reads of one accelerator", _rate(demand.read_mb_per_s_per_accelerator), "")),
        Row(("File opens", _known(demand.file_opens_per_s, " a second"), opens or "")),
        Row(("One checkpoint", _known(demand.checkpoint_gib, " GiB"), "")),
        Row(("Saves", _rate(demand.checkpoint_write_mb_per_s), _speed(demand.checkpoint_gib, seen.checkpoint_write_s))),
        Row(("Restores", _rate(demand.restore_read_mb_per_s), "")),
        Row(
            (
                "All together",
                _rate(demand.required_mb_per_s),
                "" if lustre is None else f"{mb_per_s(lustre.throughput_mb_per_s)} baseline",
            )
        ),
    ]
    if plan.tiers.hot != "none":
        rows.append(Row(("Hot capacity", gib(demand.hot_capacity_gib), capacity or "")))
    columns = (Column("What"), Column("Asked for", "number"), Column("Planned", "number"))
    return table("What is asked for, and what is planned", columns, rows)


def _speed(checkpoint_gib: float | None, write_s: float | None) -> str:
    return "" if not checkpoint_gib or not write_s else mb_per_s(checkpoint_gib * 2**30 / 1e6 / write_s)


def prediction_table(plan: Plan) -> Table | None:
    """Return what training will see."""
    from training_storage.whatif.figures import figures_of

    seen, beside = plan.prediction, takes_from_reads(plan.prediction)
    idle = figures_of(plan).idle_gpu_usd_per_hour  # with what saves take from reads, as steps and sweep count it
    rows = [
        Row(
            (
                "Data wait",
                _share(seen.data_wait_fraction),
                "Share of the time that accelerators wait for data: 1 - supply / demand, and 0 where supply is larger.",
            )
        ),
        *_while_saving(seen),
        Row(("Tightest limit", NAMES[seen.binds], f"It lets {mb_per_s(seen.read_supply_mb_per_s)} through.")),
        Row(
            (
                "Checkpoint stall",
                _share(seen.checkpoint_stall_fraction),
                "Share of the time that saves hold training up: nothing for saves that overlap with it.",
            )
        ),
        Row(
            (
                "Effective training time",
                UNKNOWN if (ratio := seen.effective_training_time_ratio) is None else nearly(ratio),
                "Share of the time that ends as progress, with waiting, saves, failures and restores taken off"
                f"{', but not what saves take from reads' if beside else ''}.{_at_worst(seen)}",
            )
        ),
        Row(
            (
                "Idle accelerators",
                UNKNOWN if idle is None else f"{usd(idle)} an hour",
                f"What waiting{', saves counted,' if beside else ''} and stalls cost, at the price of the fleet.",
            )
        ),
        Row(
            (
                "Lost accelerators",
                UNKNOWN if seen.lost_gpu_usd_per_hour is None else f"{usd(seen.lost_gpu_usd_per_hour)} an hour",
                "The same with what failures throw away and restarts and restores take"
                f"{', but not what saves take from reads' if beside else ''}.",
            )
        ),
        Row(
            (
                "Failures",
                f"{number(seen.failures_per_day)} a day",
                f"One in {seconds(seen.mtbf_h * 3600)}, over the whole fleet.",
            )
        ),
        Row(
            (
                "Work lost to a failure",
                _time(seen.lost_work_s_per_failure),
                "On average, since the last save that was complete; restart and restore come on top.",
            )
        ),
    ]
    return table("What training will see", _FIGURES, rows, hide_caption=True)


def _at_worst(seen: Prediction) -> str:
    ratio, low = seen.effective_training_time_ratio, seen.effective_training_time_ratio_low
    if ratio is None or low is None or nearly(low) == nearly(ratio):
        return ""
    return f" {nearly(low)} where a save takes all that the disks give while it is written."


def _while_saving(seen: Prediction) -> list[Row]:
    if seen.data_wait_during_save_fraction is None:
        return []
    return [
        Row(
            (
                "Data wait during a save",
                _share(seen.data_wait_during_save_fraction),
                "An asynchronous save is spread over the time that it may take; reads get what it leaves of the disks.",
            )
        ),
        Row(
            ("Data wait, saves counted", _share(seen.data_wait_with_saves_fraction), "Each for its share of the time.")
        ),
    ]


def checkpoint_table(seen: Prediction) -> Table | None:
    """Return saves and restores; None without checkpoints."""
    if seen.checkpoint_mode is None:
        return None
    rows = [
        Row(
            (
                "Kind",
                sentence(seen.checkpoint_mode),
                "Synchronous saves stall training; asynchronous ones overlap with it.",
            )
        ),
        Row(("Interval", _time(seen.checkpoint_interval_s), "Training between two saves, as planned.")),
        Row(("One save", _time(seen.checkpoint_write_s), _bound(seen.checkpoint_write_bound_by))),
        Row(("One restore", _time(seen.restore_s), f"After a failure. {_bound(seen.restore_bound_by)}".strip())),
        Row(
            (
                "Interval by Young",
                _time(seen.recommended_checkpoint_interval_s),
                "The interval that loses least where saves stall: sqrt(2 x save x time between failures). "
                "Asynchronous saves lose less the more often they come.",
            )
        ),
        Row(
            (
                "Interval by Daly",
                _time(seen.daly_checkpoint_interval_s),
                "The same with the save itself taken off.",
            )
        ),
    ]
    return table("Checkpoints", _FIGURES, rows, hide_caption=True)


def first_epoch_table(first: FirstEpoch) -> Table | None:
    """Return the first pass over the data beside a later one, and what loading ahead would take."""
    added, storage = first.added_gpu_usd, first.preload_storage_usd
    rows = [
        Row(("Data of one pass", f"{number(first.read_gb)} GB", "")),
        Row(
            ("First pass", seconds(first.first_s), f"Files arrive from S3 at {mb_per_s(first.load_mb_per_s)} at most.")
        ),
        Row(("A later pass", seconds(first.steady_s), "")),
        Row(("Data wait in the first pass", nearly(first.data_wait_fraction), "")),
        Row(
            (
                "Added cost of accelerators",
                UNKNOWN if added is None else usd(added),
                "For the time by which the first pass is longer.",
            )
        ),
        Row(("Loading ahead", seconds(first.preload_s), "Without the fleet: the first pass is then like a later one.")),
        Row(
            (
                "Storage while loading ahead",
                UNKNOWN if storage is None else usd(storage),
                "What the file system costs until the fleet starts.",
            )
        ),
    ]
    return table("The first pass over the data", _FIGURES, rows, hide_caption=True)


def _bound(limit: LimitName | None) -> str:
    return "" if limit is None else f"As fast as this limit lets it: {NAMES[limit].lower().replace('s3', 'S3')}."


def _share(value: float | None) -> str:
    return UNKNOWN if value is None else nearly(value)


def _time(value: float | None) -> str:
    return UNKNOWN if value is None else seconds(value)


def _rate(value: float | None) -> str:
    return _known(value, " MB/s")


def _known(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else f"{number(value)}{unit}"
