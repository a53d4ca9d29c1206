"""One field of a workload over many values: where the answer changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from training_storage.catalog import Catalog, default_catalog
from training_storage.errors import PlanError, Problem, WorkloadError
from training_storage.planner.planning import plan as make_plan
from training_storage.units import Duration
from training_storage.whatif.fields import NumericField, Quantity, find_field, refuse_conflict
from training_storage.whatif.figures import figures_of
from training_storage.whatif.model import Span, Sweep, SweepPoint
from training_storage.whatif.values import plain_number, values_of, written
from training_storage.workload.changing import Variations, given_values
from training_storage.workload.model import Workload

REFUSED = "refused"
"""Answer of a span without a plan."""

_REPORT_POINTS = 100
_REPORT_INSTANCES = 32
"""Fleets up to which a default sweep goes at least: beyond the 16 instances from which the hot tier is Lustre."""


def sweep(
    workload: Workload,
    field: str,
    values: str | Sequence[str | Quantity],
    *,
    catalog: Catalog | None = None,
    run_length: Duration | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Plan a workload for many values of one field.

    Each value is checked as if it stood in the workload file, and planned by itself: nothing is interpolated. A value
    that is refused is a point with its reasons.

    Args:
        workload: The workload; it stays as it is.
        field: A numeric field by its dotted path, or by the end of one where that is unambiguous: ``instance_count``.
        values: A range ``A..B``, ``A..B:STEP`` or ``A..B*FACTOR``, values with commas between them, or a sequence of
            values; with units as in the workload file. At most 10,000.
        catalog: Facts and prices. Left out: those that come with the package.
        run_length: How long one run trains. Left out: as ``plan`` takes it.
        progress: Called with the points that are done and all points, after each of them.

    Raises:
        ValidationError: The field is unknown or ambiguous, the range is none, or another key of the workload excludes
            the field.
        WorkloadError: The workload file would be refused at every value; the problems of the first.
    """
    facts = catalog if catalog is not None else default_catalog()
    found = find_field(field)
    wanted = values_of(found, values)
    refuse_conflict(found, given_values(workload), wanted[0])
    variations = Variations(workload, found.path, catalog=facts)
    points: list[SweepPoint] = []
    unreadable: tuple[Problem, ...] = ()
    refused_files = 0
    for number, value in enumerate(wanted, 1):
        try:
            made = make_plan(variations.at(value), catalog=facts, run_length=run_length)
        except WorkloadError as error:
            refused_files += 1
            unreadable = unreadable or error.problems
            points.append(_point(value, problems=error.problems))
        except PlanError as error:
            points.append(_point(value, problems=error.problems))
        else:
            points.append(
                SweepPoint(value=plain_number(value), text=written(value), figures=figures_of(made), problems=())
            )
        if progress is not None:
            progress(number, len(wanted))
    if refused_files == len(points):
        raise WorkloadError(unreadable)
    return Sweep(
        workload=workload.name,
        field=found.path,
        unit=found.unit,
        given=_given(workload, found),
        points=tuple(points),
        tiers=_spans(points, lambda point: REFUSED if point.figures is None else point.figures.hot),
        configurations=_spans(points, lambda point: REFUSED if point.figures is None else point.figures.configuration),
    )


def default_sweep(workload: Workload, *, catalog: Catalog | None = None, run_length: Duration | None = None) -> Sweep:
    """Return the sweep of a report: fleets from 1 instance to four times the workload's, at least to 32.

    A hundred even values and the workload's own; see ``sweep`` for the arguments.
    """
    now = workload.compute.instance_count
    most = max(4 * now, _REPORT_INSTANCES)
    counts = {1 + round((most - 1) * part / (_REPORT_POINTS - 1)) for part in range(_REPORT_POINTS)}
    return sweep(workload, "compute.instance_count", sorted({*counts, now}), catalog=catalog, run_length=run_length)


def _point(value: Quantity, *, problems: tuple[Problem, ...]) -> SweepPoint:
    return SweepPoint(value=plain_number(value), text=written(value), figures=None, problems=problems)


def _given(workload: Workload, field: NumericField) -> float | None:
    """Return what the workload has there, its default too, as a plain number; None for nothing and for a word."""
    value: object = workload
    for key in field.path.split("."):
        value = getattr(value, key, None)
    return None if value is None or isinstance(value, str | bool) else plain_number(value)  # type: ignore[arg-type]  # a numeric field holds a quantity or a word


def _spans(points: Sequence[SweepPoint], answer: Callable[[SweepPoint], str]) -> tuple[Span, ...]:
    found: list[Span] = []
    for index, point in enumerate(points):
        said = answer(point)
        start = found.pop() if found and found[-1].answer == said else None
        found.append(
            Span(
                answer=said,
                first=point.text if start is None else start.first,
                last=point.text,
                first_index=index if start is None else start.first_index,
                last_index=index,
            )
        )
    return tuple(found)
