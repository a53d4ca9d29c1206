"""Values of a numeric field: ranges and lists as text, with units as the workload file has them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal

from training_storage.errors import Problem, ValidationError
from training_storage.units import GIB, SIZE_UNITS, Duration, Rate, Size, format_bytes
from training_storage.whatif.fields import NumericField, Quantity
from training_storage.workload.section import Refused, shorten

POINTS_MAX = 10_000
"""Points of one sweep at most."""
EVEN_POINTS = 50
"""Points of a range without a step, but of counts, which go by 1."""
_LARGEST, _SMALLEST, _LONGEST = 40, -400, 80
"""Powers of ten of the largest and the smallest number, and most digits: no field takes others, and with a thousand
million digits one reckons for ever."""


def plain_number(value: Quantity) -> float:
    """Return a value as a plain number: bytes, bytes per second, seconds, or as it is."""
    if isinstance(value, Size):
        return value.bytes
    if isinstance(value, Rate):
        return value.bytes_per_s
    return value.seconds if isinstance(value, Duration) else value


def written(value: Quantity) -> str:
    """Return a value as it stands in a workload file, exact: reading it gives the same value."""
    if isinstance(value, Size):
        return _bytes_text(value.bytes)
    if isinstance(value, Rate):
        return f"{_bytes_text(value.bytes_per_s)}/s"
    if isinstance(value, Duration):
        return _seconds_text(value.seconds)
    short = f"{value:g}".replace("e+", "e")
    return short if float(short) == value and isinstance(value, float) else _digits(Decimal(repr(value)))


def _bytes_text(value: float) -> str:
    whole_gib = value % GIB == 0 and value % 10**9 != 0
    unit = "GiB" if value and whole_gib else format_bytes(value).split()[-1]
    return f"{_digits(Decimal(repr(value)) / SIZE_UNITS[unit])} {unit}"


def _seconds_text(value: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if value >= length and value % length == 0:
            return f"{_digits(Decimal(repr(value)) / length)}{unit}"
    return f"{_digits(Decimal(repr(value)))}s"


def _digits(value: Decimal) -> str:
    return f"{value.normalize():f}"


def parse_values(field: NumericField, text: str) -> tuple[Quantity, ...]:
    """Return the values of a range.

    Args:
        field: The field that they are for.
        text: ``A..B`` (counts by 1, others in 50 even points), ``A..B:STEP``, ``A..B*FACTOR``, or ``A,B,C``. Units are
            those of the file; the first value of a range may leave it to the last one.

    Raises:
        ValidationError: The text is no range, a value has no unit or the wrong one, the range runs downwards, or it has
            more than 10,000 points.
    """
    if ".." not in text:
        given = [part.strip() for part in text.split(",")]
        if len(given) > POINTS_MAX:
            raise _too_many(field, text, len(given), "give fewer values, or a range with a step")
        return tuple(_quantity(field, _number(field, part, text)) for part in given)
    low_text, _, rest = text.partition("..")
    high_text, step, factor = _split_step(rest)
    if "," in text or ".." in rest:
        raise _bad_range(field, text, "is no range", "one range, or values with commas between them")
    high = _number(field, high_text, text)
    low = _number(field, low_text, text, unit_of=high_text)
    if low > high:
        raise _bad_range(field, text, "runs downwards", f"the smaller value first: {high_text.strip()}..{low_text}")
    if factor is not None:
        return _geometric(field, text, low, high, factor)
    if step is not None:
        width = _number(field, step, text, unit_of=high_text)
        if width <= 0:
            raise _bad_range(field, text, "has a step that leads nowhere", "a step above 0")
        return _stepped(field, text, low, high, width)
    if field.kind == "count":
        return _stepped(field, text, low, high, Decimal(1))
    return _even(field, low, high)


def _split_step(text: str) -> tuple[str, str | None, str | None]:
    """Return the end of a range, and its step or its factor."""
    end, colon, step = text.partition(":")
    if colon:
        return end, step, None
    end, star, factor = text.partition("*")
    return end, None, factor if star else None


def _number(field: NumericField, text: str, whole: str, *, unit_of: str = "") -> Decimal:
    """Return a value as a plain number: bytes, seconds, or as it is."""
    said = text.strip()
    letters = unit_of.strip().lstrip("0123456789.eE+- ") if unit_of else ""
    if field.kind in ("count", "number"):
        value = _decimal(said)
        if value is None:
            raise _bad_range(field, whole, f"has {shorten(said)!r}, which is no number", field.form)
        _check_digits(field, value, said, whole)
        if field.kind == "count" and value != value.to_integral_value():
            raise _bad_range(field, whole, f"has {said!r}, which is no whole number", field.form)
        return value
    if letters and said.replace(".", "", 1).isdecimal():
        said = f"{said} {letters}"
    kinds: dict[str, type[Size] | type[Rate] | type[Duration]] = {"size": Size, "rate": Rate, "duration": Duration}
    try:
        value = Decimal(repr(plain_number(kinds[field.kind].parse(said))))
    except ValueError as error:
        raise _bad_range(field, whole, f"has {shorten(said)!r}, which is {error}", field.form) from None
    _check_digits(field, value, said, whole)
    return value


def _decimal(text: str) -> Decimal | None:
    """Return a number; None for what is none."""
    try:
        value = Decimal(text)
    except ArithmeticError:
        return None
    return (value or Decimal(0)) if value.is_finite() else None  # no minus before a zero


def _check_digits(field: NumericField, value: Decimal, said: str, whole: str) -> None:
    """Refuse what is so large or so small that reckoning with it would take as long as it is."""
    small = not value or _SMALLEST <= value.adjusted() <= _LARGEST
    if not small or len(value.as_tuple().digits) > _LONGEST:
        raise _bad_range(field, whole, f"has {shorten(said)!r}, which no field takes", field.form)


def _stepped(field: NumericField, text: str, low: Decimal, high: Decimal, width: Decimal) -> tuple[Quantity, ...]:
    count = int((high - low) / width) + 1
    if count > POINTS_MAX:
        wider = _quantity(
            field, _round_up((high - low) / (POINTS_MAX - 1), whole=field.kind in ("count", "size", "rate"))
        )
        advice = f"a larger step: {text.partition(':')[0]}:{written(wider).replace(',', '')}"
        raise _too_many(field, text, count, advice)
    return tuple(_quantity(field, low + width * number) for number in range(count))


def _round_up(value: Decimal, *, whole: bool) -> Decimal:
    """Return a number with two digits that is at least as large; a whole one where only those are values."""
    digits = value.adjusted() - 1
    unit = Decimal(1).scaleb(max(digits, 0) if whole else digits)
    return Decimal(math.ceil(value / unit)) * unit


def _geometric(field: NumericField, text: str, low: Decimal, high: Decimal, said: str) -> tuple[Quantity, ...]:
    factor = _decimal(said.strip())
    if factor is None or factor <= 1:
        what = f"has the factor {shorten(said.strip())!r}"
        raise _bad_range(field, text, what, "a factor above 1 behind the *, such as *2")
    _check_digits(field, factor, said.strip(), text)
    if low <= 0:
        raise _bad_range(field, text, "starts at 0, which no factor leaves", "a first value above 0")
    if (high / low).ln() / factor.ln() > POINTS_MAX:
        count = int((high / low).ln() / factor.ln()) + 1
        raise _too_many(field, text, count, "give a larger factor")
    grain = Decimal(1) if field.kind == "count" else _grain(field)
    rounded: list[Decimal] = []
    value = low
    while value <= high:
        # What is no multiple of the grain is refused anyway. Elsewhere nobody writes all the digits of a product: a
        # thousandth of the way to the next one is too little to tell.
        unit = grain or Decimal(1).scaleb((value * (factor - 1)).adjusted() - 3)
        whole = grain is None and value == value.to_integral_value()
        near = value if whole or value == low else (value / unit).to_integral_value() * unit
        rounded.append(min(near, high))
        value = value * factor
    return tuple(_quantity(field, each) for each in dict.fromkeys(rounded))


def _even(field: NumericField, low: Decimal, high: Decimal) -> tuple[Quantity, ...]:
    """Return 50 even points, each rounded to what a person would write; both ends stay as they are."""
    if low == high:
        return (_quantity(field, low),)
    grain = _grain(field)
    width = (high - low) / (EVEN_POINTS - 1)
    rounded: list[Decimal] = []
    for number in range(1, EVEN_POINTS - 1):
        value = low + width * number
        unit = grain or Decimal(1).scaleb(width.adjusted() - 3)
        rounded.append((value / unit).to_integral_value() * unit)
    return tuple(_quantity(field, value) for value in dict.fromkeys((low, *rounded, high)))


def _grain(field: NumericField) -> Decimal | None:
    """Return the step of values that the field takes, such as whole GiB or whole days; None where it takes all."""
    for kind, unit, taken, refused in (
        ("size", GIB, Size(2 * GIB), Size(2 * GIB + GIB // 2)),
        ("duration", 86400, Duration(40 * 86400), Duration(40 * 86400 + 43200)),
        ("duration", 86400, Duration(3 * 86400), Duration(3 * 86400 + 43200)),
    ):
        if field.kind == kind and _takes(field, taken) and not _takes(field, refused):
            return Decimal(unit)
    return None


def _takes(field: NumericField, value: Quantity) -> bool:
    try:
        field.field.read(value)
    except Refused:
        return False
    return True


def _quantity(field: NumericField, value: Decimal) -> Quantity:
    whole = value == value.to_integral_value()
    plain: int | float = int(value) if whole else float(value)
    if field.kind == "size":
        return Size(plain)
    if field.kind == "rate":
        return Rate(plain)
    if field.kind == "duration":
        return Duration(plain)
    return int(value) if field.kind == "count" else float(value)


def values_of(field: NumericField, values: str | Sequence[str | Quantity]) -> tuple[Quantity, ...]:
    """Return values given as a range, as texts of the file or as values of the model: ascending, each once.

    Raises:
        ValidationError: As ``parse_values``; or there is no value, or one of another kind.
    """
    if isinstance(values, str):
        return _ascending(parse_values(field, values))
    found: list[Quantity] = []
    for value in values:
        if isinstance(value, str):
            found.extend(parse_values(field, value))
        elif isinstance(value, bool) or not isinstance(value, _types(field)):
            raise ValidationError(
                Problem(what="is no value of this field", path=field.path, value=value, allowed=field.form)
            )
        else:
            found.append(value)
    if not found:
        raise ValidationError(Problem(what="has no values", path=field.path, allowed=field.form))
    if len(found) > POINTS_MAX:
        raise _too_many(field, f"{len(found):,} values", len(found), "give fewer values")
    return _ascending(found)


def _ascending(values: Iterable[Quantity]) -> tuple[Quantity, ...]:
    """Return values in their order: ranges of answers say something only so."""
    return tuple(sorted(dict.fromkeys(values), key=plain_number))


def _types(field: NumericField) -> tuple[type, ...]:
    return {"count": (int,), "number": (int, float), "size": (Size,), "rate": (Rate,), "duration": (Duration,)}[
        field.kind
    ]


def _bad_range(field: NumericField, text: str, what: str, allowed: str) -> ValidationError:
    return ValidationError(Problem(what=what, path=field.path, value=shorten(text), allowed=allowed))


def _too_many(field: NumericField, text: str, count: int, advice: str) -> ValidationError:
    return ValidationError(
        Problem(
            what=f"has {count:,} points",
            path=field.path,
            value=shorten(text),
            allowed=f"{POINTS_MAX:,} points at most",
            fix=advice,
        )
    )
