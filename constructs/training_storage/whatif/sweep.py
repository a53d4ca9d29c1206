"""One field of a workload over many values: where the answer changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from training_storage.catalog import Catalog, default_catalog
from training_storage.errors import PlanError, Problem, WorkloadError
from training_storage.planner.planning import plan_figures
from training_storage.units import Duration
from training_storage.whatif.fields import NumericField, Quantity, find_field, refuse_conflict
from training_storage.whatif.figures import figures_of
from training_storage.whatif.model import Figures, Span, Sweep, SweepPoint
from training_storage.whatif.values import plain_number, values_of, written
from training_storage.workload.changing import Variations, given_values
from training_storage.workload.model import Workload

REFUSED = "refused"
"""Answer of a span without a plan."""

Answer = Callable[[SweepPoint], str]

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
    that is refused is a point with its reasons. Where the hot tier changes between two whole numbers that are not
    neighbours, the two at which it does are looked for by halving, and are points too, beyond those that are asked for.

    Args:
        workload: The workload; it stays as it is.
        field: A numeric field by its dotted path, or by the end of one where that is unambiguous: ``instance_count``.
        values: A range ``A..B``, ``A..B:STEP`` or ``A..B*FACTOR``, values with commas between them, or a sequence of
            values; with units as in the workload file. At most 10,000; they are taken in ascending order, each once.
        catalog: Facts and prices. Left out: those that come with the package.
        run_length: How long one run trains. Left out: as ``plan`` takes it.
        progress: Called with the points that are done and all that are asked for, after each of them.

    Raises:
        ValidationError: The field is unknown or ambiguous, the range is none, or another key of the workload excludes
            the field.
        WorkloadError: The workload file would be refused at every value; the problems of the first.
    """
    return _planned(workload, field, values, catalog, run_length, progress, border=_tier)


def _planned(
    workload: Workload,
    field: str,
    values: str | Sequence[str | Quantity],
    catalog: Catalog | None,
    run_length: Duration | None,
    progress: Callable[[int, int], None] | None = None,
    *,
    border: Answer,
) -> Sweep:
    facts = catalog if catalog is not None else default_catalog()
    found = find_field(field)
    wanted = values_of(found, values)
    refuse_conflict(found, given_values(workload), wanted[0])
    answers = _Answers(workload, found, catalog=facts, run_length=run_length)
    points: list[SweepPoint] = []
    for number, value in enumerate(wanted, 1):
        points.append(answers.at(value))
        if progress is not None:
            progress(number, len(wanted))
    if answers.refused_files == len(points):
        raise WorkloadError(points[0].problems)
    if found.kind == "count":
        points = answers.with_borders(points, border)
    return Sweep(
        workload=workload.name,
        field=found.path,
        unit=found.unit,
        given=_given(workload, found),
        points=tuple(points),
        tiers=_spans(points, _tier),
        configurations=_spans(points, _configuration),
    )


class _Answers:
    """The plans of one field's values, as points."""

    def __init__(
        self, workload: Workload, field: NumericField, *, catalog: Catalog, run_length: Duration | None
    ) -> None:
        self._variations = Variations(workload, field.path, catalog=catalog)
        self._catalog = catalog
        self._run_length = run_length
        self.refused_files = 0
        """Values that a workload file may not have."""

    def at(self, value: Quantity, *, asked: bool = True) -> SweepPoint:
        """Return the answer for a value."""
        figures: Figures | None = None
        problems: tuple[Problem, ...] = ()
        try:
            made = plan_figures(self._variations.at(value), catalog=self._catalog, run_length=self._run_length)
        except WorkloadError as error:
            self.refused_files += 1
            problems = error.problems
        except PlanError as error:
            problems = error.problems
        else:
            figures = figures_of(made)
        return SweepPoint(
            value=plain_number(value), text=written(value), figures=figures, problems=problems, asked=asked
        )

    def with_borders(self, points: Sequence[SweepPoint], answer: Answer) -> list[SweepPoint]:
        """Return points of whole numbers with the two neighbours at which the answer changes, where it does.

        Found by halving, so that between two points whose answer changes to and fro one of the changes is found.
        """
        found = list(points[:1])
        for after in points[1:]:
            while answer(found[-1]) != answer(after) and after.value - found[-1].value > 1:
                low, high = self._border(found[-1], after, answer)
                found += [each for each in (low, high) if found[-1].value < each.value < after.value]
            found.append(after)
        return found

    def _border(self, low: SweepPoint, high: SweepPoint, answer: Answer) -> tuple[SweepPoint, SweepPoint]:
        """Return two neighbouring whole numbers, the first with the answer of the lower end, the second without."""
        while high.value - low.value > 1:
            between = self.at((int(low.value) + int(high.value)) // 2, asked=False)
            low, high = (between, high) if answer(between) == answer(low) else (low, between)
        return low, high


def _tier(point: SweepPoint) -> str:
    return REFUSED if point.figures is None else point.figures.hot


def _configuration(point: SweepPoint) -> str:
    return REFUSED if point.figures is None else point.figures.configuration


def default_sweep(workload: Workload, *, catalog: Catalog | None = None, run_length: Duration | None = None) -> Sweep:
    """Return the sweep of a report: fleets from 1 instance to four times the workload's, at least to 32.

    A hundred even values, the workload's own, and the ones at which the configuration changes; see ``sweep`` for the
    arguments.
    """
    now = workload.compute.instance_count
    most = max(4 * now, _REPORT_INSTANCES)
    counts = {1 + round((most - 1) * part / (_REPORT_POINTS - 1)) for part in range(_REPORT_POINTS)}
    values = sorted({*counts, now})
    return _planned(workload, "compute.instance_count", values, catalog, run_length, border=_configuration)


def _given(workload: Workload, field: NumericField) -> float | None:
    """Return what the workload has there, its default too, as a plain number; None for nothing and for a word."""
    value: object = workload
    for key in field.path.split("."):
        value = getattr(value, key, None)
    return None if value is None or isinstance(value, str | bool) else plain_number(value)  # type: ignore[arg-type]  # a numeric field holds a quantity or a word


def _spans(points: Sequence[SweepPoint], answer: Answer) -> tuple[Span, ...]:
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
