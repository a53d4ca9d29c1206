"""What the elected node does for checkpoints on local disks of several nodes: orders, proofs of the union, removals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Callable

from . import records
from .model import Record, Verdict
from .orders import Desk, Order, Served, is_whole, open_orders, order_key, receipts_of, union_of
from .parts import UNTOLD
from .promotion import PromotionError, completing, iso
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
    key = order_key(desk.settings, checkpoint.path, checkpoint.fingerprint)
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
            if record is None:
                continue
            check()
            records.write(desk.aws, desk.settings.lake_bucket, record)
        except PromotionError as error:
            served.errors.append(str(error))
        else:
            served.records.append(record)
    return served


def _collected(desk: Desk, order: Order, verdict: Verdict) -> Record | None:
    checkpoint = verdict.checkpoint
    receipts = receipts_of(desk, order)
    if len(receipts) < desk.settings.nodes:
        return None
    union = union_of(receipts)
    if not is_whole(order, receipts):
        raise PromotionError(
            f"{checkpoint.path}: what the nodes have uploaded is not what they had told; they look again"
        )
    if any(each["held_back"] for each in receipts):
        return None  # whoever holds it back sees now that all else is there
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
        files=tuple(union[path] for path in sorted(union)),
    )
    wrong = verify(desk.aws, desk.settings, record)
    if wrong:
        desk.put(order.key + "order.json", {**order.body, "round": order.round + 1})
        raise PromotionError(
            f"{checkpoint.path} is not in S3 although every node has answered: {wrong[0]}; they are asked once more"
        )
    return record


def release(desk: Desk, verdicts: Sequence[Verdict], known: Sequence[Record], check: Callable[[], None]) -> list[str]:
    """Order the removal of what the policy lets go: complete checkpoints only.

    A half-written one may be complete with the files of a node that has not told of them.

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


def close(desk: Desk, verdicts: Sequence[Verdict], check: Callable[[], None], *, prune: bool = True) -> list[str]:
    """Close what every node has done, and say what is waited for.

    Args:
        desk: This node.
        verdicts: What the policy says.
        check: Raises where this node may not act any more.
        prune: Whether removals are waited for too.

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
        replaced = act == "promote" and there is not None and there.complete and there.fingerprint != fingerprint
        done = act == "prune" and len(answered) >= desk.settings.nodes
        if done or replaced:
            check()
            desk.put(order.key + "closed.json", {"why": "done" if done else "written again", "by": desk.node})
        elif act == "prune" and not prune:
            continue
        elif len(answered) < desk.settings.nodes:
            has = ", ".join(sorted(answered)) or "none"
            lacking = desk.settings.nodes - len(answered)
            waiting.append(
                f"{path}: waiting for receipts of {lacking} of {desk.settings.nodes} nodes to {act} it (there: {has})"
            )
        elif order.name not in proven:
            waiting.append(f"{path}: every node has answered; it is not recorded yet")
    waiting += [f"{path}: waiting for {each.missing}" for path, each in now.items() if each.missing.startswith(UNTOLD)]
    return waiting
