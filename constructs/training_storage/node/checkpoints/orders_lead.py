"""What the elected node does for checkpoints on local disks of several nodes: orders, proofs of the union, removals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Callable

from . import lake, records
from .layouts import find_checkpoints
from .model import Checkpoint, FileEntry, Record, RecordedFile, Verdict
from .orders import Desk, Order, Served, open_orders, order_key
from .promotion import PromotionError, completing, iso, prove
from .promotion_upload import upload_files
from .verification import verify


def ask(desk: Desk, verdicts: Iterable[Verdict], check: Callable[[], None]) -> None:
    """Write an order for every checkpoint that is due and not in the lake; one that is there is left.

    Raises:
        ClientError: S3 refused or failed.
    """
    for verdict in verdicts:
        if verdict.due and not verdict.promoted and verdict.checkpoint.complete:
            check()
            _write(desk, verdict, "promote")


def _write(desk: Desk, verdict: Verdict, act: str) -> None:
    checkpoint = verdict.checkpoint
    key = order_key(checkpoint.path, checkpoint.fingerprint)
    body = {
        "act": act,
        "path": checkpoint.path,
        "fingerprint": checkpoint.fingerprint,
        "series": checkpoint.series,
        "layout": checkpoint.layout,
        "step": checkpoint.step,
        "number": verdict.number,
        "due": verdict.due,
        "because": verdict.because,
        "written_ns": checkpoint.modified_ns,
        "last": sorted(completing(checkpoint)),
        "leader": desk.node,
        "nodes": desk.settings.nodes,
    }
    there = desk.get(key + "order.json")
    if there is None:
        desk.put(key + "order.json", body, IfNoneMatch="*")
    elif there["act"] != act and there["act"] == "promote":
        desk.put(key + "order.json", body)  # a removal that has been ordered is never taken back


def collect(desk: Desk, verdicts: Sequence[Verdict], check: Callable[[], None]) -> Served:
    """Record what every node has uploaded.

    Returns:
        The records that were written, and what went wrong.

    Raises:
        ClientError: The orders cannot be listed.
    """
    due = {
        (each.checkpoint.path, each.checkpoint.fingerprint): each
        for each in verdicts
        if each.due and not each.promoted and each.checkpoint.complete
    }
    served = Served()
    for order in open_orders(desk):
        verdict = due.get(order.name)
        if verdict is None or order.body["act"] != "promote" or len(order.receipts) < desk.settings.nodes:
            continue
        check()
        try:
            record = _collected(desk, order, verdict)
            check()
            records.write(desk.aws, desk.settings.lake_bucket, record)
        except PromotionError as error:
            served.errors.append(str(error))
        else:
            served.records.append(record)
    return served


def _collected(desk: Desk, order: Order, verdict: Verdict) -> Record:
    checkpoint = verdict.checkpoint
    receipts = [desk.get(f"{order.key}receipts/{node}.json") for node in sorted(order.receipts)]
    union: dict[str, RecordedFile] = {}
    for receipt in receipts:
        for given in (receipt or {"files": []})["files"]:
            one = RecordedFile(**given)
            other = union.setdefault(one.path, one)
            if (other.size, other.checksum) != (one.size, one.checksum):
                raise PromotionError(
                    f"{one.path} lies on two nodes with different contents; fix: let one node write it, or give each "
                    "its own name"
                )
    entries = {each.path: FileEntry(each.path, each.size, each.modified_ns) for each in union.values()}
    last = completing(checkpoint)
    entries.update({each.path: each for each in checkpoint.files if each.path in last})
    lacks = _lacks(desk, checkpoint, entries)
    if lacks:
        raise PromotionError(f"{checkpoint.path} is not whole although every node has answered: it lacks {lacks}")
    own = tuple(each for each in checkpoint.files if each.path in last)
    record = Record(
        path=checkpoint.path,
        series=checkpoint.series,
        layout=checkpoint.layout,
        step=checkpoint.step,
        number=verdict.number,
        fingerprint=checkpoint.fingerprint,
        reason=verdict.due,
        method="upload",
        promoted_at=iso(desk.clock()),
        metrics=dict(checkpoint.metrics),
        files=tuple(union.values()),
    )
    wrong = verify(desk.aws, desk.settings, record)
    if wrong:
        raise PromotionError(f"{checkpoint.path} is not in S3 although every node has answered: {wrong[0]}")
    job = desk.job(checkpoint, last)
    proven, missing = prove(job, own, upload_files(job, own))
    if missing:
        first, code = sorted(missing.items())[0]
        raise PromotionError(f"{first} is not in S3 after the upload: {code}", missing)
    now = replace(checkpoint, files=lake.hot_files(desk.tree, checkpoint))
    if now.fingerprint != checkpoint.fingerprint:
        raise PromotionError(f"{checkpoint.path} changed while it was being promoted; nothing is recorded")
    return replace(record, files=(*union.values(), *proven))


class _Union:
    """A checkpoint as all nodes together hold it, for the question whether it is whole."""

    def __init__(self, desk: Desk, checkpoint: Checkpoint, entries: dict[str, FileEntry]) -> None:
        self._desk = desk
        self._path = checkpoint.path
        inner = lake.inside(checkpoint.path)
        beside = (each for each in desk.tree.files(checkpoint.series) if not each.path.startswith(inner))
        depth = lake.inside(checkpoint.series)
        self._entries = {each.path: each for each in beside if "/" not in each.path[len(depth) :]}
        self._local = set(self._entries) | {each.path for each in checkpoint.files}
        self._entries.update(entries)

    def files(self, under: str = "") -> Iterator[FileEntry]:
        prefix = lake.inside(under)
        return iter([each for path, each in self._entries.items() if path.startswith(prefix)])

    def read(self, path: str, limit: int = 1 << 20) -> bytes:
        if path in self._local:
            return self._desk.tree.read(path, limit)
        place = lake.place_of(self._desk.settings, path)
        answer = self._desk.aws("s3").get_object(Bucket=place.bucket, Key=place.key)
        return bytes(answer["Body"].read(limit))

    def remove(self, path: str) -> None:
        raise NotImplementedError(path)


def _lacks(desk: Desk, checkpoint: Checkpoint, entries: dict[str, FileEntry]) -> str:
    found = {each.path: each for each in find_checkpoints(_Union(desk, checkpoint, entries))}
    whole = found.get(checkpoint.path)
    if whole is None:
        return "everything"
    return "" if whole.complete else whole.missing


def release(desk: Desk, verdicts: Sequence[Verdict], known: Sequence[Record], check: Callable[[], None]) -> list[str]:
    """Order the removal of what the policy lets go: complete checkpoints only.

    A half-written one may be complete with the files of another node.

    Returns:
        What speaks against some.

    Raises:
        ClientError: S3 refused or failed.
    """
    proofs = {(each.path, each.fingerprint): each for each in known}
    errors: list[str] = []
    for verdict in verdicts:
        checkpoint = verdict.checkpoint
        if not verdict.prune or not checkpoint.complete:
            continue
        check()
        proof = proofs.get((checkpoint.path, checkpoint.fingerprint))
        if verdict.due or proof is not None:
            wrong = ["there is no record of it"] if proof is None else verify(desk.aws, desk.settings, proof)
            if wrong:
                errors.append(f"{checkpoint.path} is kept: {wrong[0]}")
                continue
        _write(desk, verdict, "prune")
    return errors


def close(desk: Desk, verdicts: Sequence[Verdict], check: Callable[[], None]) -> list[str]:
    """Close what every node has done, and say what is waited for.

    Returns:
        A line for each open order.

    Raises:
        ClientError: S3 refused or failed.
    """
    now = {each.checkpoint.path: each.checkpoint for each in verdicts}
    proven = {(each.checkpoint.path, each.checkpoint.fingerprint) for each in verdicts if each.promoted}
    waiting: list[str] = []
    for order in open_orders(desk):
        path, fingerprint = order.name
        act = order.body["act"]
        answered = order.removed if act == "prune" else order.receipts
        there = now.get(path)
        replaced = act == "promote" and there is not None and there.fingerprint != fingerprint
        done = act == "prune" and len(answered) >= desk.settings.nodes
        if done or replaced:
            check()
            desk.put(order.key + "closed.json", {"why": "done" if done else "written again", "by": desk.node})
        elif len(answered) < desk.settings.nodes:
            has = ", ".join(sorted(answered)) or "none"
            lacking = desk.settings.nodes - len(answered)
            waiting.append(
                f"{path}: waiting for receipts of {lacking} of {desk.settings.nodes} nodes to {act} it (there: {has})"
            )
        elif order.name not in proven:
            waiting.append(f"{path}: every node has answered; it is not recorded yet")
    return waiting
