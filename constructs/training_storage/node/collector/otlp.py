"""Metrics that come by OTLP over HTTP in binary form, as Mountpoint for Amazon S3 sends them.

No more of protocol buffers than these messages need. A request is read as a whole or not at all.

Sources: opentelemetry-proto, ``metrics/v1/metrics.proto`` and ``common/v1/common.proto`` (numbers of the fields);
mountpoint-s3, ``metrics_otel.rs``: HTTP with binary bodies, deltas, exponential histograms.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Union

DELTA = 1
"""AGGREGATION_TEMPORALITY_DELTA: a point is what happened since the one before."""

MAX_POINTS = 10_000
"""More than Mountpoint has by far; a request of a megabyte could hold half a million, of some 200 bytes each here."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GAUGE, _SUM, _HISTOGRAM, _EXPONENTIAL = 5, 7, 9, 10

_Field = tuple[int, int, Union[int, bytes]]


class MalformedError(ValueError):
    """The bytes are no such message."""


@dataclass(frozen=True)
class Point:
    """One point of one metric.

    Attributes:
        name: Name of the metric.
        attributes: Attributes of the point; numbers as text.
        value: The value; of a histogram the sum of its values.
        count: Values in a histogram; 1 for others.
        temporality: ``DELTA``, 2 for sums since the start; 0 for gauges.
    """

    name: str
    attributes: dict[str, str]
    value: float
    count: int
    temporality: int


def parse_export(body: bytes) -> list[Point] | None:
    """Return the points of an ``ExportMetricsServiceRequest``; None where it is none.

    Args:
        body: Body of the request.
    """
    points: list[Point] = []
    try:
        for resource in _messages(body, 1):
            for scope in _messages(resource, 2):
                for metric in _messages(scope, 2):
                    points.extend(_metric(metric, MAX_POINTS - len(points)))
    except MalformedError:
        return None
    return points


def _metric(data: bytes, most: int) -> Iterator[Point]:
    name, kind, inner = "", 0, b""
    for number, wire, value in _fields(data):
        if number == 1:
            name = _text(wire, value)
        elif number in (_GAUGE, _SUM, _HISTOGRAM, _EXPONENTIAL):
            kind, inner = number, _part(wire, value)
    if not kind:
        return  # a kind that is newer, or a summary
    temporality, points = 0, []
    for number, wire, value in _fields(inner):
        if number == 1:
            points.append(_part(wire, value))
            if len(points) > most:
                raise MalformedError("too many points")
        elif number == 2 and kind != _GAUGE:
            temporality = _number(wire, value)
    for point in points:
        found = _point(name, kind, point, temporality)
        if found is not None:
            yield found


def _point(name: str, kind: int, data: bytes, temporality: int) -> Point | None:
    attributes: dict[str, str] = {}
    total: float | None = None
    count = 1 if kind in (_GAUGE, _SUM) else 0
    carries = {_GAUGE: 7, _SUM: 7, _HISTOGRAM: 9, _EXPONENTIAL: 1}[kind]
    for number, wire, value in _fields(data):
        if number == carries:
            attributes.update([_attribute(_part(wire, value))])
        elif kind in (_GAUGE, _SUM) and number == 4:
            total = _double(wire, value)
        elif kind in (_GAUGE, _SUM) and number == 6:
            total = float(struct.unpack("<q", _fixed64(wire, value))[0])
        elif kind in (_HISTOGRAM, _EXPONENTIAL) and number == 4:
            count = int(struct.unpack("<Q", _fixed64(wire, value))[0])
        elif kind in (_HISTOGRAM, _EXPONENTIAL) and number == 5:
            total = _double(wire, value)
    if kind in (_GAUGE, _SUM) and total is None:
        return None  # a point that says it has no value
    if total is None:
        total = 0.0
    if not math.isfinite(total):
        raise MalformedError("no finite number")
    return Point(name, attributes, total, count, temporality)


def _attribute(data: bytes) -> tuple[str, str]:
    key, text = "", ""
    for number, wire, value in _fields(data):
        if number == 1:
            key = _text(wire, value)
        elif number == 2:
            for inner, inner_wire, inner_value in _fields(_part(wire, value)):
                if inner == 1:
                    text = _text(inner_wire, inner_value)
                elif inner == 3:
                    text = str(_number(inner_wire, inner_value))
    return key, text


def _messages(data: bytes, wanted: int) -> Iterator[bytes]:
    for number, wire, value in _fields(data):
        if number == wanted:
            yield _part(wire, value)


def _fields(data: bytes) -> Iterator[_Field]:
    """Yield number, wire type and value of each field; groups, which nobody sends, are refused."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if number == 0:
            raise MalformedError("field 0")
        if wire == _VARINT:
            value, at = _varint(data, at)
        elif wire == _BYTES:
            length, at = _varint(data, at)
            value, at = _take(data, at, length)
        elif wire in (_FIXED64, _FIXED32):
            value, at = _take(data, at, 8 if wire == _FIXED64 else 4)
        else:
            raise MalformedError(f"wire type {wire}")
        yield number, wire, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise MalformedError("cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise MalformedError("a number of more than 64 bits")


def _take(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    if at + length > len(data):
        raise MalformedError("cut off")
    return data[at : at + length], at + length


def _part(wire: int, value: int | bytes) -> bytes:
    if wire != _BYTES or not isinstance(value, bytes):
        raise MalformedError("not a message")
    return value


def _text(wire: int, value: int | bytes) -> str:
    try:
        return _part(wire, value).decode()
    except UnicodeDecodeError:
        raise MalformedError("not UTF-8") from None


def _number(wire: int, value: int | bytes) -> int:
    if wire != _VARINT or not isinstance(value, int):
        raise MalformedError("not a number")
    return value


def _fixed64(wire: int, value: int | bytes) -> bytes:
    if wire != _FIXED64 or not isinstance(value, bytes):
        raise MalformedError("not 8 bytes")
    return value


def _double(wire: int, value: int | bytes) -> float:
    return float(struct.unpack("<d", _fixed64(wire, value))[0])
