"""What one run of the agent did, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .ledgers import LedgerTaken
from .model import Verdict
from .promotion import PromotionError
from .pruning import Kept


@dataclass
class RunResult:
    """What a run did.

    Attributes:
        node: The node.
        dry_run: Whether it only said what it would do.
        elected: Whether this node was the one to act; False where another node holds the lease.
        holder: The node that holds the lease, where it is another one.
        promoted: Checkpoints that were promoted, verified and recorded, or would be.
        pruned: Checkpoints that were removed from the hot tier, or would be.
        kept: Why checkpoints that were to be removed were kept after all, by path.
        waiting: Checkpoints on local disks of several nodes that wait for some of them, in words.
        checkpoints: What the status says of every checkpoint, as the run left it.
        unsaved: Paths of checkpoints that are due and not in the lake.
        errors: What went wrong.
    """

    node: str
    dry_run: bool = False
    elected: bool = True
    holder: str = ""
    promoted: list[dict[str, Any]] = field(default_factory=list)
    pruned: list[dict[str, Any]] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    unsaved: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return dict(vars(self))


def told(error: BaseException) -> str:
    """Return an error in words, with what it is where its text alone does not say."""
    text = str(error)
    if isinstance(error, (PromotionError, LedgerTaken, Kept)):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def short(verdict: Verdict, reason: str) -> dict[str, Any]:
    """Return what a result says of a checkpoint that something was done with."""
    checkpoint = verdict.checkpoint
    return {"path": checkpoint.path, "reason": reason, "files": len(checkpoint.files), "bytes": checkpoint.size}
