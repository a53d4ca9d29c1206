"""Records of promotions in the lake: one object a checkpoint, in JSON lines that people can read.

The first line describes the checkpoint, every other line one of its files. An object is written once. It is replaced
only when it cannot be read, or when the checkpoint was promoted again because its objects in the lake were lost; where
the bucket keeps versions, the one before stays as a version.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .. import places
from ..aws import MISSING, TAKEN, Aws, code_of
from . import lake
from .model import Record, RecordedFile
from .names import quoted

FORMAT = 1
_READERS = 32


class RecordDamagedError(ValueError):
    """Records that cannot be read. What they proved counts as not promoted until they are written again.

    Attributes:
        keys: Keys of the objects.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        self.keys = tuple(problems)
        told = "; ".join(f"{key}: {problem}" for key, problem in problems.items())
        super().__init__(
            f"{len(problems)} of the records of promotions cannot be read ({told}); "
            "restore an earlier version of each object, or delete it: the checkpoint is then promoted again"
        )


def record_key(path: str, fingerprint: str) -> str:
    """Return the key of the record of a checkpoint.

    Args:
        path: Its folder below the root.
        fingerprint: Its fingerprint.
    """
    return f"{places.RECORDS}{quoted(path)}@{fingerprint}.jsonl"


def encode(record: Record) -> bytes:
    """Return a record as JSON lines."""
    lines = [{"format": FORMAT, **described(record)}, *(dict(vars(each)) for each in record.files)]
    return "".join(json.dumps(each) + "\n" for each in lines).encode()


def described(record: Record) -> dict[str, Any]:
    """Return what a record says of its checkpoint, files as their number: the first line, and what lists show."""
    return {
        "path": record.path,
        "series": record.series,
        "layout": record.layout,
        "step": record.step,
        "number": record.number,
        "fingerprint": record.fingerprint,
        "reason": record.reason,
        "method": record.method,
        "promoted_at": record.promoted_at,
        "metrics": dict(record.metrics),
        "files": len(record.files),
        "bytes": record.size,
    }


def decode(content: bytes) -> Record:
    """Read what ``encode`` returned.

    Raises:
        ValueError: It is no record, or not the whole of one.
    """
    try:
        header, *lines = [json.loads(line) for line in content.decode("utf-8").splitlines() if line.strip()]
        _check_format(header["format"])
        names = RecordedFile.__dataclass_fields__
        files = tuple(RecordedFile(**{name: each[name] for name in names if name in each}) for each in lines)
        record = Record(
            path=_text(header["path"]),
            series=_text(header["series"]),
            layout=_text(header["layout"]),
            step=_number(header["step"]),
            number=_number(header["number"]),
            fingerprint=_text(header["fingerprint"]),
            reason=_text(header["reason"]),
            method=_text(header["method"]),
            promoted_at=_text(header["promoted_at"]),
            metrics={str(name): float(value) for name, value in header["metrics"].items()},
            files=files,
        )
        told = (header["files"], header["bytes"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no record of a promotion ({type(error).__name__}: {error})") from error
    if (len(files), record.size) != told:
        raise ValueError(
            f"{len(files)} files with {record.size} bytes; the first line says {told[0]} with {told[1]} bytes"
        )
    return record


def read_all(aws: Aws, bucket: str, *, damaged: list[str] | None = None) -> list[Record]:
    """Return all records of a lake, by path and fingerprint.

    Args:
        aws: Clients.
        bucket: The lake.
        damaged: Takes the keys of records that cannot be read; what they proved is then not promoted, and nothing that
            rests on it is pruned. Left out: they are an error.

    Raises:
        RecordDamagedError: Some cannot be read, and ``damaged`` was left out.
        ClientError: S3 refused or failed.
    """
    keys = [each for each in lake.listing(aws, bucket, places.RECORDS) if not each.endswith("/")]

    def read(key: str) -> Record | str | None:
        content = lake.content(aws, bucket, key)
        if content is None:
            return None
        try:
            record = decode(content)
        except ValueError as error:
            return str(error)
        if record_key(record.path, record.fingerprint) != key:
            return f"it is the record of {record.path!r}"
        return record

    if not keys:
        return []
    with ThreadPoolExecutor(max_workers=min(_READERS, len(keys))) as pool:
        results = dict(zip(keys, pool.map(read, keys)))
    problems = {key: each for key, each in results.items() if isinstance(each, str)}
    if problems and damaged is None:
        raise RecordDamagedError(problems)
    if damaged is not None:
        damaged.extend(problems)
    return sorted(
        (each for each in results.values() if isinstance(each, Record)), key=lambda each: (each.path, each.fingerprint)
    )


def write(aws: Aws, bucket: str, record: Record) -> bool:
    """Write a record of a promotion that has been verified.

    Returns:
        Whether it was written; False where the same promotion is recorded already.

    Raises:
        ClientError: S3 refused or failed, or somebody else wrote the same record at the same moment.
    """
    s3 = aws("s3")
    place = {"Bucket": bucket, "Key": record_key(record.path, record.fingerprint)}
    content: dict[str, Any] = {"Body": encode(record), "ContentType": "application/x-ndjson"}
    try:
        s3.put_object(**place, **content, IfNoneMatch="*")
    except Exception as error:
        if code_of(error) not in TAKEN:
            raise
    else:
        return True
    try:
        there = s3.get_object(**place)
    except Exception as error:
        if code_of(error) not in MISSING:
            raise
        # Removed in the same moment: the next attempt decides.
        s3.put_object(**place, **content, IfNoneMatch="*")
        return True
    try:
        known = decode(there["Body"].read())
        if (known.path, known.fingerprint, known.files) == (record.path, record.fingerprint, record.files):
            return False
    except ValueError:  # damaged: what was verified just now replaces it
        pass
    s3.put_object(**place, **content, IfMatch=there["ETag"])
    return True


def _check_format(value: int) -> None:
    if value > FORMAT:
        raise ValueError(f"format {value}; known: {FORMAT}. A newer version of the agent wrote it")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise TypeError(f"{value!r} is no number")
    return value
