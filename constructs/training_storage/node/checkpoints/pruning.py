"""Remove checkpoints from the hot tier, so that a process killed at any line loses nothing and leaves nothing behind.

The ledger says first what is to be removed. Then everything that allows it is looked at once more: the objects in the
lake, the checkpoint, those that are newer. On a file system the folder is renamed out of sight, looked at there, where
nobody writes to it any more, and renamed again to a name that says so; only that name is ever removed. In directory
buckets a list of the objects is written first, and each goes on condition that it is still what was listed. The entry
of the ledger goes last.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable

from .. import places
from ..aws import MISSING, TAKEN, Aws, code_of
from ..settings import Settings
from . import lake, ledgers
from .layouts import find_checkpoints, removal_order
from .model import Checkpoint, Decision, FileEntry, Ledger, Record, Verdict
from .names import quoted
from .records import decode, encode
from .removals import ExportedRemovals
from .tree import LocalTree, Tree
from .verification import verify

TRASH = places.HIDDEN + "/trash"
GONE = ".gone"
"""Ending of folders in the trash that were looked at there: nothing else is ever removed from it."""
_NO_CONDITION = frozenset({"NotImplemented", "InvalidArgument", "501"})


class Kept(Exception):  # noqa: N818 - what happened, and no failure of the program
    """A checkpoint is not removed, and why.

    Attributes:
        ledger: The ledger as it lies in the lake now; None where it was not touched.
    """

    ledger: Ledger | None = None


class Pruner:
    """Removes checkpoints of one hot tier.

    Args:
        aws: Clients.
        settings: Settings of the agent.
        tree: The hot tier.
        decide: The policy, asked once more of a series: of its checkpoints and its ledger.
        check: Raises where this node may not act any more; called before each act.
        clock: The time, seconds since 1970.
    """

    def __init__(
        self,
        aws: Aws,
        settings: Settings,
        tree: Tree,
        decide: Callable[[Sequence[Checkpoint], Ledger], Decision],
        check: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._aws = aws
        self._settings = settings
        self._tree = tree
        self._decide = decide
        self._check = check
        self._clock = clock
        self._exported = ExportedRemovals(aws, settings)

    # -- one checkpoint

    def prune(self, verdict: Verdict, record: Record | None, ledger: Ledger) -> Ledger:
        """Remove one checkpoint.

        Args:
            verdict: What the policy says of it.
            record: The record that proves it; None for one that need not be in the lake.
            ledger: The ledger of its series, as it was read or written last.

        Returns:
            The ledger as it lies in the lake now.

        Raises:
            Kept: Something speaks against it.
            LedgerTaken: Somebody else has written the ledger.
            ClientError: S3 refused or failed.
            OSError: The file system did.
        """
        checkpoint = verdict.checkpoint
        if not checkpoint.path:
            raise Kept("the root itself is never removed")
        self._check()
        if record is not None:
            self._refuse_exported(checkpoint)
        if not isinstance(self._tree, LocalTree):
            self._write_list(verdict, record)
        begun = replace(
            ledger,
            pruning={**ledger.pruning, checkpoint.path: checkpoint.fingerprint},
            pruned_by=self._settings.workload,
        )
        ledger = ledgers.write(self._aws, self._settings.lake_bucket, begun)
        try:
            self._look_once_more(verdict, record, ledger)
            self._check()
            self._remove(checkpoint)
        except Kept as kept:
            self._check()
            kept.ledger = self._ended(ledger, checkpoint.path)
            raise
        self._check()
        return self._ended(ledger, checkpoint.path)

    def _refuse_exported(self, checkpoint: Checkpoint) -> None:
        link = self._exported.link_of(checkpoint.path)
        if link:
            raise Kept(
                f"{checkpoint.path} is kept: the link of {link} exports removals, so that removing it here would "
                "delete in S3 what was promoted; fix: take deleted out of that link's export events"
            )

    def _look_once_more(self, verdict: Verdict, record: Record | None, ledger: Ledger) -> None:
        checkpoint = verdict.checkpoint
        if verdict.due and record is None:
            raise Kept(f"{checkpoint.path} is due ({verdict.due}) and nothing proves that it is in the lake")
        if record is not None:  # also of one that is not due any more: somebody may rely on it
            wrong = verify(self._aws, self._settings, record)
            if wrong:
                more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
                fix = "" if verdict.due else "; fix: promote it again by hand"
                raise Kept(
                    f"{checkpoint.path} is kept: what was promoted is no longer in the lake: {wrong[0]}{more}{fix}"
                )
        fresh = find_checkpoints(Below(self._tree, checkpoint.series))
        # The entry that announces this very removal is no sign of one that was interrupted.
        others = {path: each for path, each in ledger.pruning.items() if path != checkpoint.path}
        now = self._decide(fresh, replace(ledger, pruning=others)).by_path().get(checkpoint.path)
        if now is None or now.checkpoint.fingerprint != checkpoint.fingerprint:
            raise Kept(f"{checkpoint.path} changed since it was looked at; the next run looks at it anew")
        if not now.prune or now.due != verdict.due:
            raise Kept(f"{checkpoint.path} is kept after all: {now.because}")
        if not checkpoint.complete:
            self._refuse_arriving(checkpoint)

    def _refuse_arriving(self, checkpoint: Checkpoint) -> None:
        """Keep what somebody is copying in: files keep their old times then, and only the folders tell."""
        policy = self._settings.policy
        if not isinstance(self._tree, LocalTree) or policy is None:
            return
        still_s = self._clock() - _named_at(self._tree, checkpoint.path)
        if still_s < policy.incomplete_expires_after_s:
            raise Kept(
                f"{checkpoint.path} is kept: names in it changed {max(0, still_s):.0f} s ago: it may be on its way in"
            )

    def _ended(self, ledger: Ledger, path: str) -> Ledger:
        rest = {each: fingerprint for each, fingerprint in ledger.pruning.items() if each != path}
        return ledgers.write(self._aws, self._settings.lake_bucket, replace(ledger, pruning=rest))

    def _remove(self, checkpoint: Checkpoint) -> None:
        if isinstance(self._tree, LocalTree):
            remove_folder(self._tree, checkpoint)
        else:
            self._remove_objects(removal_order(checkpoint))

    # -- what a killed run left

    def finish(self, known: Mapping[str, Ledger]) -> tuple[dict[str, Ledger], dict[str, str]]:
        """End, or take back, removals that were interrupted.

        Args:
            known: Ledgers by series, as they were read.

        Returns:
            The ledgers as they lie in the lake now, and by path why a removal is still open.

        Raises:
            LedgerTaken: Somebody else has written a ledger.
            ClientError: S3 refused or failed.
        """
        now = dict(known)
        left: dict[str, str] = {}
        for series, ledger in known.items():
            if ledger.pruned_by not in ("", self._settings.workload):
                continue
            still = dict(ledger.pruning)
            for path, fingerprint in ledger.pruning.items():
                self._check()
                try:
                    self._finish_one(path, fingerprint)
                except (Kept, OSError) as error:
                    left[path] = str(error)
                else:
                    del still[path]
            if still != dict(ledger.pruning):
                self._check()
                now[series] = ledgers.write(self._aws, self._settings.lake_bucket, replace(ledger, pruning=still))
        return now, left

    def _finish_one(self, path: str, fingerprint: str) -> None:
        if isinstance(self._tree, LocalTree):
            finish_folder(self._tree, path, fingerprint)
            return
        written = self._read_list(path, fingerprint)
        if written is None:
            return  # it had not begun
        listed = [FileEntry(*each) for each in written["files"]]
        there = {each.path: each for each in self._tree.files(path)}
        # Its time too: a marker that was written anew with the same bytes belongs to another checkpoint.
        rest = [each for each in listed if there.get(each.path) == each]
        if not rest or len(rest) == len(listed):
            return  # ended, or not begun: the policy decides anew
        if written["record"] is not None:
            wrong = verify(self._aws, self._settings, decode(written["record"].encode()))
            if wrong:
                raise Kept(f"the rest of {path} is kept: what was promoted is no longer in the lake: {wrong[0]}")
        self._remove_objects(rest)

    # -- directory buckets

    def _remove_objects(self, entries: Iterable[FileEntry]) -> None:
        for entry in entries:
            self._check()
            self._remove_object(entry)

    def _remove_object(self, entry: FileEntry) -> None:
        tree: Any = self._tree
        s3 = self._aws("s3")
        where = {"Bucket": tree.bucket_of(entry.path), "Key": tree.key_of(entry.path)}
        try:
            s3.delete_object(**where, IfMatch=f'"{entry.etag}"')
        except Exception as error:
            code = code_of(error)
            if code in MISSING:
                return
            if code not in TAKEN | _NO_CONDITION:
                raise
            there = lake.look(self._aws, where["Bucket"], where["Key"])
            if there is None:
                return  # gone, by a request whose answer got lost
            same = (there.size, int(there.uploaded) * 1_000_000_000, there.etag)
            if same != (entry.size, entry.modified_ns, entry.etag):
                raise Kept(f"{entry.path} was written again while its checkpoint was being removed") from error
            if code in TAKEN:
                raise
            s3.delete_object(**where)

    def _write_list(self, verdict: Verdict, record: Record | None) -> None:
        checkpoint = verdict.checkpoint
        order = removal_order(checkpoint)
        body = {
            "path": checkpoint.path,
            "fingerprint": checkpoint.fingerprint,
            "record": None if record is None else encode(record).decode(),
            "files": [[each.path, each.size, each.modified_ns, each.etag] for each in order],
        }
        self._aws("s3").put_object(
            **self._list(checkpoint.path, checkpoint.fingerprint),
            Body=json.dumps(body).encode(),
            ContentType="application/json",
        )

    def _read_list(self, path: str, fingerprint: str) -> dict[str, Any] | None:
        where = self._list(path, fingerprint)
        found = lake.content(self._aws, where["Bucket"], where["Key"])
        return None if found is None else dict(json.loads(found))

    def _list(self, path: str, fingerprint: str) -> dict[str, str]:
        # Without its entry in the ledger nobody reads a list. Nodes may not delete here: a lifecycle rule does.
        return {"Bucket": self._settings.lake_bucket, "Key": f"{places.PRUNING}{quoted(path)}@{fingerprint}.json"}


class Below:
    """A tree of one series only: one look at it costs no look at all the others."""

    def __init__(self, tree: Tree, folder: str) -> None:
        self._tree = tree
        self._folder = folder
        if isinstance(tree, LocalTree):
            self.root = tree.root

    @property
    def links(self) -> Mapping[str, str]:
        """Symbolic links that the tree has met."""
        return self._tree.links if isinstance(self._tree, LocalTree) else {}

    def files(self, under: str = "") -> Iterator[FileEntry]:
        """Yield every file of the series."""
        return self._tree.files(under or self._folder)

    def read(self, path: str, limit: int = 1 << 20) -> bytes:
        """Return the first bytes of a file."""
        return self._tree.read(path, limit)

    def remove(self, path: str) -> None:
        """Remove one file."""
        self._tree.remove(path)


# -- file systems


def remove_folder(tree: LocalTree, checkpoint: Checkpoint) -> None:
    """Remove the folder of a checkpoint, where it still holds exactly the files that the checkpoint was found with.

    Raises:
        Kept: It does not, or holds symbolic links, which are in no record; the folder is where it was.
        OSError: The file system refuses.
    """
    source = Path(tree.root, checkpoint.path)
    trash = trash_of(tree, checkpoint.path, checkpoint.fingerprint)
    trash.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.rename(trash)
    except FileNotFoundError:
        raise Kept(f"{checkpoint.path} is gone already") from None
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise Kept(
            f"{checkpoint.path} is kept: it can't be moved to {TRASH}, because it is another file system or belongs to "
            "another quota project; fix: give both the same, or remove it by hand"
        ) from error
    why = _not_it(trash, checkpoint)
    if why:
        _put_back(trash, source)
        raise Kept(f"{checkpoint.path} is kept: {why}")
    gone = _gone(trash)
    trash.rename(gone)
    shutil.rmtree(gone)


def finish_folder(tree: LocalTree, path: str, fingerprint: str) -> None:
    """End an interrupted removal of a folder, or take it back where it was not yet looked at in the trash.

    Raises:
        Kept: It is in the trash, and something else has taken its place meanwhile.
        OSError: The file system refuses.
    """
    trash = trash_of(tree, path, fingerprint)
    if _gone(trash).is_dir():
        shutil.rmtree(_gone(trash))
    if trash.is_dir():
        _put_back(trash, Path(tree.root, path))


def trash_of(tree: LocalTree, path: str, fingerprint: str) -> Path:
    """Return where a folder lies while it is being removed: in the same file system, and known by what it is."""
    name = hashlib.sha256(f"{path}@{fingerprint}".encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return Path(tree.root, TRASH, name)


def _named_at(tree: LocalTree, path: str) -> float:
    """Return when a name was last made, changed or removed in a folder or below it, seconds since 1970."""
    whole = os.path.join(tree.root, path)  # noqa: PTH118 - names that are no UTF-8 stay what they are
    return max((os.lstat(folder).st_mtime for folder, _, _ in os.walk(whole)), default=0.0)


def _gone(trash: Path) -> Path:
    return trash.with_name(trash.name + GONE)


def _not_it(folder: Path, checkpoint: Checkpoint) -> str:
    """Return why a folder is not the checkpoint; empty where it is."""
    there = LocalTree(str(folder))
    inner = lake.inside(checkpoint.path)
    files = tuple(replace(each, path=inner + each.path) for each in there.files())
    if replace(checkpoint, files=files).fingerprint != checkpoint.fingerprint:
        return "it changed while it was being removed"
    if there.links:
        return f"it holds a symbolic link, {sorted(there.links)[0]}, which is in no copy of it; fix: remove it by hand"
    return ""


def _put_back(trash: Path, place: Path) -> None:
    if place.exists() or place.is_symlink():
        raise Kept(f"{place} was made again while the former one was being removed; the former one lies in {trash}")
    place.parent.mkdir(parents=True, exist_ok=True)
    trash.rename(place)


def strangers(tree: Tree, known: Mapping[str, Ledger]) -> list[str]:
    """Return folders of the trash that no ledger names; they are never removed."""
    if not isinstance(tree, LocalTree):
        return []
    named = {
        trash_of(tree, path, fingerprint).name + ending
        for ledger in known.values()
        for path, fingerprint in ledger.pruning.items()
        for ending in ("", GONE)
    }
    try:
        there = sorted(each.name for each in Path(tree.root, TRASH).iterdir())
    except OSError:
        return []
    return [f"{TRASH}/{each}" for each in there if each not in named]
