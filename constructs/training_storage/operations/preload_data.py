"""Load the data of a workload's files into its file system, from nodes, before anybody reads them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from training_storage.errors import Problem, RefusedError, ValidationError
from training_storage.node import places, preload_steps
from training_storage.node.preload_model import combine
from training_storage.node.preload_reasons import is_path
from training_storage.operations.aws import aws_errors, clients
from training_storage.operations.deployment import find_hot_tier, find_lake
from training_storage.operations.node_commands import LOOK_S, NodeRun, choose_nodes, run_on_nodes

if TYPE_CHECKING:
    from boto3.session import Session

    from training_storage.node.aws import Aws
    from training_storage.node.run_command import NodeAnswer

DEFAULT_NODES: Final = preload_steps.MOST_NODES
"""FSx does the work, and a node only asks for it: a few keep its queue full."""

_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PreloadResult:
    """How a preload ended, or where it stands.

    Attributes:
        run: What each node said.
        counts: Sums over nodes; see ``training_storage.node.preload_model.combine``.
    """

    run: NodeRun
    counts: dict[str, Any]

    @property
    def is_clean(self) -> bool:
        """Whether every file is there."""
        return not self.counts["failed"] and all(each.state == "done" for each in self.run.answers)


def read_list(file: Path) -> bytes:
    """Read a list of paths and return it as it goes to the lake: every path once, in order.

    Args:
        file: One path a line: with the mount (``/fsx/datasets/a.tar``) or below it (``datasets/a.tar``). Bytes that are
            no UTF-8 stay as they are.

    Raises:
        ValidationError: The file cannot be read, names nothing, or has lines that are no path; every one of the first
            20 is named.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ValidationError(
            Problem(what=f"cannot be read: {error.strerror}", path="--list", value=str(file), fix="check the path")
        ) from error
    problems: list[Problem] = []
    kept: dict[bytes, None] = {}
    for number, line in enumerate(content.split(b"\n"), 1):
        name = line.removesuffix(b"\r")
        if not name.strip():
            continue
        text = name.decode("utf-8", "surrogateescape")
        if is_path(text):
            kept[name] = None
        elif len(problems) < _SHOWN:
            problems.append(
                Problem(
                    what="is no path of a file below the mount",
                    value=text.encode("utf-8", "backslashreplace").decode(),
                    allowed="one path a line, without .., . or empty parts, and without a slash at its end",
                    file=str(file),
                    line=number,
                )
            )
    if not problems and not kept:
        problems.append(Problem(what="names no file", path="--list", value=str(file), allowed="one path a line"))
    if problems:
        raise ValidationError(problems)
    return b"\n".join(kept) + b"\n"


def preload_data(
    session: Session,
    name: str,
    *,
    paths: Sequence[str] = (),
    listed: bytes | None = None,
    nodes: int | None = DEFAULT_NODES,
    dry_run: bool = False,
    wait: bool = True,
    on_start: Callable[[tuple[str, ...], bool], None] | None = None,
    on_look: Callable[[tuple[NodeAnswer, ...]], None] | None = None,
    aws: Aws | None = None,
    sleep: Callable[[float], Any] = time.sleep,
    clock: Callable[[], float] = time.time,
    look_s: float = LOOK_S,
) -> PreloadResult:
    """Load data from nodes; the same call joins a preload that runs.

    Args:
        session: Session of the account and region.
        name: Workload name.
        paths: Directories or files. Left out: the directories of links that import, without that of checkpoints.
        listed: Paths in place of them, as ``read_list`` returns them.
        nodes: So many nodes at most share the work; all that are online where None.
        dry_run: Count what would be loaded, on one node.
        wait: Follow to the end. False: send and return.
        on_start: Called with the nodes, and whether the command was joined.
        on_look: Called with each look.
        aws: Clients. Left out: those of the session.
        sleep: Replaced in tests.
        clock: Replaced in tests.
        look_s: Seconds between two looks.

    Raises:
        RefusedError: Nothing is deployed, no node is online, or the nodes refuse: the data does not fit.
        AwsError: AWS refused or failed.
    """
    find_hot_tier(session, name)
    lake = find_lake(session, name)
    aws = aws or clients(session)
    if listed is None:
        argv = preload_steps.arguments(paths)
    else:
        digest = hashlib.sha256(listed).hexdigest()[:32]
        with aws_errors("PutObject"):
            aws("s3").put_object(Bucket=lake, Key=places.list_key(digest), Body=listed, ContentType="text/plain")
        argv = ["preload", "--list-key", places.list_key(digest)]
    if dry_run:
        argv.append("--dry-run")
    with aws_errors("DescribeInstances"):
        run = run_on_nodes(
            aws, name, lake, argv,
            nodes=lambda: choose_nodes(aws, name, 1 if dry_run else nodes),
            for_nodes=lambda chosen: ["--among", ",".join(chosen)],
            wait=wait, told_later=not dry_run, look_s=look_s,
            on_start=on_start, on_look=on_look, sleep=sleep, clock=clock,
        )  # fmt: skip
    refused = [each for each in run.answers if each.state == "refused"]
    if run.over and len(refused) == len(run.answers):
        raise RefusedError("; ".join(dict.fromkeys(each.message for each in refused)))
    return PreloadResult(run=run, counts=combine([each.answer or each.progress or {} for each in run.answers]))
