"""Ledgers in the lake: one object a series, with the numbers of its checkpoints. Replaced on condition only."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from .. import places
from ..aws import MISSING, TAKEN, Aws, code_of
from . import lake
from .model import Ledger
from .names import quoted

FORMAT = 1
_ROOT = "@root"
"""Name of the series of the root itself; no quoted path holds an ``@``."""


class LedgerTaken(RuntimeError):  # noqa: N818 - somebody else was ahead: no error, decide again
    """Somebody else has written the ledger since it was read: read it again, decide again."""


class LedgerDamagedError(ValueError):
    """A ledger that cannot be read. Without it nothing tells which checkpoints are key versions, so nothing goes on."""


def ledger_key(series: str) -> str:
    """Return the key of the ledger of a series."""
    return f"{places.LEDGERS}{quoted(series) or _ROOT}.json"


def encode(ledger: Ledger) -> bytes:
    """Return a ledger as JSON, for people too."""
    body: dict[str, Any] = {
        "format": FORMAT,
        "series": ledger.series,
        "last": ledger.last,
        "numbers": dict(sorted(ledger.numbers.items(), key=lambda each: (each[1], each[0]))),
        "pruning": dict(sorted(ledger.pruning.items())),
    }
    if ledger.pruning and ledger.pruned_by:
        body["pruned_by"] = ledger.pruned_by
    return (json.dumps(body, indent=1) + "\n").encode()


def decode(content: bytes, etag: str = "") -> Ledger:
    """Read what ``encode`` returned.

    Args:
        content: The object.
        etag: Its ETag.

    Raises:
        ValueError: It is no ledger.
    """
    try:
        body = json.loads(content.decode("utf-8"))
        _check_format(body["format"])
        ledger = Ledger(
            series=_typed(body["series"], str),
            numbers={name: _typed(number, int) for name, number in body["numbers"].items()},
            last=_typed(body["last"], int),
            pruning={path: _typed(fingerprint, str) for path, fingerprint in body["pruning"].items()},
            pruned_by=_typed(body.get("pruned_by", ""), str),
            etag=etag,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no ledger ({type(error).__name__}: {error})") from error
    if ledger.last < max(ledger.numbers.values(), default=0):
        raise ValueError(f"last is {ledger.last}, but {max(ledger.numbers.values())} was given")
    return ledger


def read_all(aws: Aws, bucket: str) -> dict[str, Ledger]:
    """Return all ledgers of a lake, by series.

    Raises:
        LedgerDamagedError: One cannot be read. It is never taken for a new one: checkpoints would get other numbers,
            and a key version could be pruned that is not in the lake.
        ClientError: S3 refused or failed.
    """
    s3 = aws("s3")
    keys = [each for each in lake.listing(aws, bucket, places.LEDGERS) if not each.endswith("/")]

    def read(key: str) -> Ledger | None:
        try:
            answer = s3.get_object(Bucket=bucket, Key=key)
        except Exception as error:
            if code_of(error) in MISSING:
                return None
            raise
        try:
            ledger = decode(answer["Body"].read(), answer["ETag"])
            if ledger_key(ledger.series) != key:
                raise ValueError(f"it is the ledger of {ledger.series!r}")  # noqa: TRY301 - told with the key below
        except ValueError as error:
            raise LedgerDamagedError(
                f"the ledger s3://{bucket}/{key} cannot be read: {error}; restore an earlier version of the object, "
                "or delete it to number the checkpoints of the series anew, from the records of promotions on"
            ) from error
        return ledger

    if not keys:
        return {}
    with ThreadPoolExecutor(max_workers=min(16, len(keys))) as pool:
        return {each.series: each for each in pool.map(read, keys) if each is not None}


def write(aws: Aws, bucket: str, ledger: Ledger) -> Ledger:
    """Write a ledger over exactly the one that was read, and return it with its new ETag.

    A write that took effect although its answer was lost, and was sent again, is recognised by what lies there.

    Raises:
        LedgerTaken: Somebody else was ahead.
        ClientError: S3 refused or failed.
    """
    s3 = aws("s3")
    place = {"Bucket": bucket, "Key": ledger_key(ledger.series)}
    body = encode(ledger)
    condition: dict[str, Any] = {"IfMatch": ledger.etag} if ledger.etag else {"IfNoneMatch": "*"}
    try:
        answer = s3.put_object(**place, Body=body, ContentType="application/json", **condition)
    except Exception as error:
        if code_of(error) not in (TAKEN | MISSING):
            raise
        try:
            there = s3.get_object(**place)
        except Exception as gone:
            if code_of(gone) not in MISSING:
                raise
        else:
            if there["Body"].read() == body:
                return replace(ledger, etag=there["ETag"])
        raise LedgerTaken(f"s3://{bucket}/{place['Key']} has changed since it was read; run it again") from error
    return replace(ledger, etag=answer["ETag"])


def _check_format(value: int) -> None:
    if value > FORMAT:
        raise ValueError(f"format {value}; known: {FORMAT}. A newer version of the agent wrote it")


def _typed(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
