"""Commands that outlive whoever sent them: the same call finds the one that runs, and joins it.

What runs is written down before it is sent, so that a sender that dies in between loses nothing: the next one sees that
no node has answered, and sends the same command again. A node that got it twice does nothing twice.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Callable

from . import places
from .aws import MISSING, TAKEN, Aws, code_of
from .run_command import DELIVERY_S, LONGEST_S, MOST_INSTANCES, NodeAnswer, poll, send, sent_as

OLDEST_S = LONGEST_S + DELIVERY_S
"""A call that is older is over, whatever became of it: Systems Manager has ended it."""


@dataclass(frozen=True)
class Call:
    """A command that was sent, or is about to be.

    Attributes:
        command_id: Where its answers lie.
        ssm_command_id: As ``run_command.send`` returned it; empty until it is known.
        instance_ids: The nodes.
        begun_at: Seconds since 1970.
        finished: Whether somebody has seen its end.
    """

    command_id: str
    ssm_command_id: str
    instance_ids: tuple[str, ...]
    begun_at: float
    finished: bool = False


def call_key(workload: str, argv: Sequence[str]) -> str:
    """Return where the lake keeps the call of these arguments.

    Args:
        workload: The workload's name.
        argv: Subcommand and arguments, without those that name nodes.
    """
    return f"{places.CALLS}{_digest(workload, argv)}.json"


def start_or_join(
    aws: Aws,
    bucket: str,
    workload: str,
    argv: Sequence[str],
    nodes: Callable[[], Sequence[str]],
    *,
    timeout_s: float,
    clock: Callable[[], float],
    for_nodes: Callable[[Sequence[str]], Sequence[str]] = lambda _: (),
) -> tuple[Call, bool]:
    """Send a command, or find the one with the same arguments that is not over.

    Args:
        aws: Clients.
        bucket: The data lake.
        workload: The workload's name.
        argv: Subcommand and arguments that make two calls the same.
        nodes: Returns the nodes to ask; called only where nothing is joined.
        timeout_s: Seconds after which the command is ended.
        clock: Seconds since 1970.
        for_nodes: Returns more arguments, for the nodes that are asked.

    Returns:
        The call, and whether it was joined.
    """
    key = call_key(workload, argv)
    while True:
        found, etag = _read(aws, bucket, key)
        if found is not None and not found.finished and clock() - found.begun_at < OLDEST_S:
            known = found.ssm_command_id or sent_as(aws, found.command_id, found.begun_at, found.instance_ids)
            # Of several requests only some may have been made: who has begun does not tell that all were asked.
            if known or (len(found.instance_ids) <= MOST_INSTANCES and _heard(aws, bucket, found)):
                joined = replace(found, ssm_command_id=known)
                if joined != found:
                    _write(aws, bucket, key, joined, etag)
                return joined, True
            command_id = found.command_id
        else:
            # No answer of an earlier call may be taken for one of this.
            command_id = f"{argv[0]}-{_digest(workload, argv)}-{int(clock())}-{secrets.token_hex(3)}"
        chosen = tuple(nodes())
        call = Call(command_id, "", chosen, clock())
        written = _write(aws, bucket, key, call, etag)
        if written is None:
            continue  # somebody else was ahead
        sent = send(aws, chosen, [*argv, *for_nodes(chosen)], command_id=command_id, timeout_s=timeout_s)
        call = Call(command_id, sent, chosen, call.begun_at)
        _write(aws, bucket, key, call, written)
        return call, False


def current(aws: Aws, bucket: str, workload: str, argv: Sequence[str]) -> Call | None:
    """Return the last call of these arguments; None where there was none."""
    return _read(aws, bucket, call_key(workload, argv))[0]


def look(aws: Aws, bucket: str, call: Call) -> tuple[NodeAnswer, ...]:
    """Look once at what the nodes of a call have to say; see ``run_command.poll``."""
    return poll(aws, bucket, call.command_id, call.ssm_command_id, call.instance_ids)


def finish(aws: Aws, bucket: str, workload: str, argv: Sequence[str], call: Call) -> None:
    """Note that the end of a call was seen: the next one of its kind is new."""
    key = call_key(workload, argv)
    found, etag = _read(aws, bucket, key)
    if found is None or found.command_id != call.command_id or found.finished:
        return
    _write(aws, bucket, key, replace(found, finished=True), etag)


def _heard(aws: Aws, bucket: str, call: Call) -> bool:
    """Return whether any node has begun with a call."""
    page = aws("s3").list_objects_v2(Bucket=bucket, Prefix=f"{places.ANSWERS}{call.command_id}/", MaxKeys=1)
    return bool(page.get("Contents"))


def _digest(workload: str, argv: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps([workload, *argv]).encode()).hexdigest()[:20]


def _read(aws: Aws, bucket: str, key: str) -> tuple[Call | None, str]:
    try:
        found = aws("s3").get_object(Bucket=bucket, Key=key)
    except Exception as error:
        if code_of(error) in MISSING:
            return None, ""
        raise
    try:
        held: dict[str, Any] = json.loads(found["Body"].read())
        held["instance_ids"] = tuple(held["instance_ids"])
        return Call(**held), found["ETag"]
    except (ValueError, KeyError, TypeError):
        return None, found["ETag"]


def _write(aws: Aws, bucket: str, key: str, call: Call, etag: str) -> str | None:
    """Write where nobody else has written meanwhile; return the new ETag, or None."""
    condition = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
    try:
        made = aws("s3").put_object(
            Bucket=bucket,
            Key=key,
            Body=json.dumps(asdict(call), indent=2).encode(),
            ContentType="application/json",
            **condition,
        )
    except Exception as error:
        if code_of(error) in TAKEN:
            return None
        raise
    return str(made["ETag"])
