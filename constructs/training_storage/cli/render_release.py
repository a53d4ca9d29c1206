"""A release as a reader sees it: what is proven, what goes and what stays, the question, and how it goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from training_storage.operations.release import Release
    from training_storage.operations.release_abandon import Loss
    from training_storage.operations.release_execution import Look

T = TypeVar("T")

STEPS: Final = {
    "preconditions": "looking at tasks, links and queues",
    "node": "making sure that a node is there to look at the files",
    "survey": "a node looks what has to be kept",
    "export": "FSx exports what is not in S3",
    "manifest": "a node lists what has to be kept",
    "compare": "comparing the list with S3, object by object",
    "quiet": "making sure that nobody wrote meanwhile",
    "prove": "writing the proof",
    "storage-node-off": "stopping the storage node",
    "delete-monitoring": "deleting the dashboard",
    "delete-compute": "deleting the fleet",
    "quiet-again": "making sure that nobody wrote after the proof",
    "empty-hot": "removing from the directory buckets what the proof covers",
    "delete-hot": "deleting the hot tier",
}
"""What a step does, in words; a test holds them to the steps of the machine."""

_OUTCOMES: Final = {
    "checked": "nothing stands in the way of a release; nothing was changed",
    "released": "released",
    "nothing-to-release": "there is nothing to release",
    "abandoned": "deleted without a proof",
    "not-confirmed": "nothing was deleted: nobody confirmed",
    "refused": "refused",
}
_SHOWN: Final = 20


def as_text(ended: Release, *, shown: bool) -> str:
    """Return a release as text.

    Args:
        ended: The release.
        shown: Whether its proof was shown already, with the question.
    """
    lines = [] if shown or ended.proof is None or ended.outcome == "abandoned" else [*_proof(ended.proof), ""]
    name = ended.deployed.name
    if ended.outcome == "refused":
        looked = ended.state.get("action") == "check"
        lines.append(f"{name}: refused, and nothing was deleted{'' if looked else ' that a proof does not cover'}")
        lines.append(f"  {ended.refused or 'the machine gave no reason'}")
        lines += [f"  blocks: {each}" for each in ended.blocking[:_SHOWN]]
        return "\n".join(lines)
    lines.append(f"{name}: {_OUTCOMES[ended.outcome]}")
    if ended.outcome == "checked":
        found = sorted((ended.state.get("found") or {}).items())
        lines += [f"  {kind:<15}  {_counted(each)}" for kind, each in found]
    if message := str(ended.state.get("message") or ended.state.get("note") or ""):
        lines.append(f"  {message}")
    if ended.outcome in ("released", "abandoned"):
        lines += [f"  deleted  {stack}" for stack in ended.deployed.stacks]
        lines += [f"  kept     {each}" for each in _kept(ended.state)]
        lake = ended.deployed.lake_bucket
        lines.append(f"  stays    the data lake s3://{lake}/, {name}-lake, and {name}-network if it is there")
    return "\n".join(lines)


def _kept(state: Mapping[str, Any]) -> list[str]:
    found = state.get("kept") or ()
    return [str(each) for each in found] if isinstance(found, list | tuple) else []


def _proof(proof: Mapping[str, Any]) -> list[str]:
    lines = [
        f"Proof of {proof.get('workload', '')}, hot tier {proof.get('hot_tier_id', '')}",
        f"  in S3            {_counted(proof)}, compared object by object",
        f"  unchanged since  {_moment(proof.get('valid_from'))}",
    ]
    if tasks := list(proof.get("tasks") or ()):
        lines.append(f"  exported by      {', '.join(str(each) for each in tasks[:_SHOWN])}")
    left = proof.get("left") or {}
    for number, (kind, found) in enumerate(sorted(left.items())):
        why = str(found.get("why") or "")
        lines.append(
            f"  {'left behind' if number == 0 else '':<15}  {kind}: {_counted(found)}{', ' + why if why else ''}"
        )
    if removes := proof.get("removes") or {}:
        count, buckets = int(removes.get("objects") or 0), [str(each) for each in removes.get("buckets") or ()]
        lines.append(
            f"  {'then removed':<15}  {count:,} object{'' if count == 1 else 's'}, "
            f"{_size(float(removes.get('bytes') or 0))}, in {len(buckets)} directory "
            f"bucket{'' if len(buckets) == 1 else 's'}, after the fleet is gone: {', '.join(buckets[:_SHOWN])}"
        )
    return lines


def _counted(found: Mapping[str, Any]) -> str:
    files, size = int(found.get("files") or 0), float(found.get("bytes") or 0)
    return f"{files:,} file{'' if files == 1 else 's'}, {_size(size)}"


def _size(size: float) -> str:
    unit = "B"
    for unit in ("B", "KB", "MB", "GB", "TB", "PB"):
        if size < 1000 or unit == "PB":
            break
        size /= 1000
    return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"


def _moment(seconds: object) -> str:
    if not isinstance(seconds, int | float):
        return "an unknown moment"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class Asking:
    """Asks before anything is deleted: the name of the workload has to be typed."""

    def __init__(self, name: str, *, yes: bool, quiet: bool) -> None:
        self._name, self._yes, self._quiet = name, yes, quiet
        self.shown = False
        self.said = ""

    def about_proof(self, proven: Release) -> bool:
        """Show the proof and what goes, and ask."""
        if not self._quiet:
            self._show(self._of_proof(proven))
        return self._asked("release")

    def about_loss(self, loss: Loss) -> bool:
        """Show what is given up, and ask."""
        if not self._quiet:
            self._show(self._of_loss(loss))
        return self._asked("abandon")

    def _of_proof(self, proven: Release) -> Iterator[str]:
        if proven.proof is not None:
            yield from _proof(proven.proof)
        deployed = proven.deployed
        for number, stack in enumerate(deployed.stacks):
            yield f"  {'goes' if number == 0 else '':<15}  {stack}"
        if nodes := int(proven.state.get("running") or 0):
            yield f"  {'':<15}  with {nodes} node{'s' if nodes > 1 else ''} of the fleet that run now: a job that is"
            yield f"  {'':<15}  between two saves looks like one that has ended, so make sure that it has"
        yield f"  {'stays':<15}  the data lake s3://{deployed.lake_bucket}/ and everything in it"

    def _of_loss(self, loss: Loss) -> Iterator[str]:
        yield f"Nothing proves that hot tier {loss.deployed.hot_tier_id} of {self._name} is in S3."
        yield "  lost             everything that is only there: what was not exported, promoted or uploaded"
        if loss.seen_at is None:
            yield "  checkpoints      unknown: no agent of its nodes has ever reported"
        else:
            yield f"  checkpoints      as the agent saw them at {_moment(loss.seen_at)}, not in S3 and due there:"
            yield from (f"                   {path}" for path in loss.unsaved[:_SHOWN])
            more = len(loss.unsaved) - _SHOWN
            yield f"                   {f'and {more} more' if more > 0 else '' if loss.unsaved else 'none'}".rstrip()
        for number, stack in enumerate(loss.deployed.stacks):
            yield f"  {'goes' if number == 0 else '':<15}  {stack}"
        yield f"  recorded         by {loss.by}, with the reason, in s3://{loss.deployed.lake_bucket}/.training-storage/release/"

    def _show(self, lines: Iterator[str]) -> None:
        print("\n".join(line for line in lines if line.strip()), flush=True)
        self.shown = True

    def _asked(self, what: str) -> bool:
        if self._yes:
            return True
        if self._quiet or not sys.stdin or not sys.stdin.isatty():
            self.said = f"nobody was asked, without a terminal; fix: read it, then run this with --yes to {what}"
            return False
        print(f"\nType {self._name} to {what} it, anything else to keep it: ", end="", file=sys.stderr, flush=True)
        typed = sys.stdin.readline().strip()
        self.said = f"{typed!r} is not {self._name}: nothing was deleted"
        return typed == self._name


class Progress:
    """What the machine is at, on standard error: one line a change, and a spinner on a terminal."""

    def __init__(self, name: str, *, quiet: bool) -> None:
        from rich.console import Console

        self._name, self._quiet = name, quiet
        self._console = Console(stderr=True, highlight=False)
        self._plain = quiet or not sys.stderr.isatty()
        self._status = self._console.status("looking")
        self._last = ""

    def __enter__(self) -> Progress:
        if not self._plain:
            self._status.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._status.stop()
        if isinstance(error, KeyboardInterrupt):
            print("stopped looking; the release goes on in AWS, and the same command joins it again", file=sys.stderr)

    def paused(self, ask: Callable[[T], bool]) -> Callable[[T], bool]:
        """Return a question that is asked without anything moving below it."""

        def asked(about: T) -> bool:
            self._status.stop()
            try:
                return ask(about)
            finally:
                if not self._plain:
                    self._status.start()

        return asked

    def started(self, action: str, joined: bool) -> None:
        """Say what begins."""
        what = {"check": "looking", "prove": "proving", "release": "releasing"}.get(action, action)
        self._say(f"{self._name}: {'joined the one that runs, ' if joined else ''}{what}")

    def look(self, look: Look) -> None:
        """Say which step it is at, and what that waits for."""
        text = f"{look.step}: {STEPS.get(look.step, '')}".rstrip(": ")
        self._say(f"{text}; {look.message}" if look.message else f"{text}; waiting" if look.waiting else text)

    def deleting(self, stack: str, status: str) -> None:
        """Say how a delete goes."""
        self._say(f"{stack}: {status}")

    def _say(self, text: str) -> None:
        if text == self._last or self._quiet:
            return
        self._last = text
        if self._plain:
            print(text, file=sys.stderr, flush=True)
        else:
            from rich.text import Text

            # Paths and words of AWS hold brackets, which are no markup.
            self._console.print(text, markup=False)
            self._status.update(Text(text))
