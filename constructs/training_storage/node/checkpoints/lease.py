"""Who runs the agent: one node at a time, until its lease ends, and no longer than it knows of.

Two places for a lease. On Lustre a folder of the file system holds one file a turn, ``lease-0000000042.json``, made
by a hard link, which only one node can make; the newest counts, so that a lease that ran out can be taken by one node
only, and by none that saw an older state. ``flock`` is the second belt: a holder that lives is never taken for a dead
one. Without a shared file system the lease is an object of the lake, replaced on condition.

A lease that is lost is found out before the next act, not after it: callers call ``check`` before each.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable

from .. import places
from ..aws import MISSING, TAKEN, Aws, code_of
from ..settings import Settings

SECONDS = 600.0
"""How long a lease lasts without being renewed: longer than any single act between two checks."""
LOOK_S = 5.0
"""How often ``check`` looks whether the lease is still this one's: another process of the same node may take it."""
FOLDER = places.HIDDEN + "/lease"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_FLOCK = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK})


class LeaseLost(RuntimeError):  # noqa: N818 - what happened, as in ``LedgerTaken``
    """Another node runs the agent now, or this one no longer knows that none does: it stops where it is."""


@dataclass(frozen=True)
class Held:
    """What a lease says.

    Attributes:
        holder: The node.
        until: Seconds since 1970.
        renewed: When it was taken or renewed, seconds since 1970.
        mark: Tells leases of one node apart.
    """

    holder: str
    until: float
    renewed: float
    mark: str


class Lease:
    """A lease of one node; a place to keep it is a subclass.

    Args:
        holder: This node.
        clock: The time, seconds since 1970.
        seconds: How long it lasts.
    """

    def __init__(self, holder: str, clock: Callable[[], float] = time.time, seconds: float = SECONDS) -> None:
        self.holder = holder
        self.seconds = seconds
        self._clock = clock
        self._held: Held | None = None
        self._looked = 0.0
        self.other: Held | None = None
        """The lease of the node that was ahead, after an ``acquire`` that failed."""

    def acquire(self) -> bool:
        """Take the lease where none holds it.

        Raises:
            ClientError: S3 refused or failed.
            OSError: The file system did.
        """
        there = self._read()
        if there is not None and there.until > self._clock() and there.holder != self.holder:
            self.other = there
            return False
        taken = self._next(self.seconds)
        if not self._write(taken):
            self.other = self._read()
            return False
        self._held, self._looked = taken, taken.renewed
        return True

    def check(self, *, look: bool = False) -> None:
        """Make sure that the lease is held, and renew it when half of it is over.

        Args:
            look: Look at it now, also where that was done a moment ago.

        Raises:
            LeaseLost: It is not, or nobody knows.
        """
        held = self._held
        if held is None:
            raise LeaseLost("the lease is not held")
        now = self._clock()
        if now >= held.until:
            self._held = None
            raise LeaseLost(f"the lease ended {now - held.until:.0f} s ago, before it was renewed")
        old = now - held.renewed >= self.seconds / 2
        if not look and not old and 0 <= now - self._looked < LOOK_S:
            return
        try:
            there = self._read()
            ours = there is not None and there.mark == held.mark
            if ours and old:
                renewed = self._next(self.seconds)
                ours = self._write(renewed)
                held = renewed
        except LeaseLost:
            raise
        except Exception as error:
            # It is held for a while yet; only an end that comes near makes a failure to renew it matter.
            if held.until - now > self.seconds / 4:
                return
            self._held = None
            raise LeaseLost(f"the lease cannot be renewed: {error}") from error
        if not ours:
            self._held = None
            raise LeaseLost(f"the lease is {there.holder if there else 'nobody'}'s now")
        self._held, self._looked = held, now

    def release(self) -> None:
        """Give the lease back; one that cannot be given back ends by itself."""
        held, self._held = self._held, None
        try:
            if held is not None:
                there = self._read()
                if there is not None and there.mark == held.mark:
                    self._write(self._next(0.0))
        except Exception:  # noqa: S110 - it ends by itself
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Let go of what a process holds, without a word to anybody."""

    def _next(self, seconds: float) -> Held:
        now = self._clock()
        return Held(self.holder, now + seconds, now, uuid.uuid4().hex)

    def _read(self) -> Held | None:
        raise NotImplementedError

    def _write(self, held: Held) -> bool:
        """Write a lease over exactly the one that was read last; False where somebody was ahead."""
        raise NotImplementedError


class FileLease(Lease):
    """A lease in a folder of a shared file system.

    Args:
        root: The folder that holds checkpoints.
        holder: This node.
        clock: The time, seconds since 1970.
        seconds: How long it lasts.
    """

    def __init__(
        self, root: str, holder: str, clock: Callable[[], float] = time.time, seconds: float = SECONDS
    ) -> None:
        super().__init__(holder, clock, seconds)
        self._folder = Path(root, FOLDER)
        self._turn = 0
        self._lock = -1

    def acquire(self) -> bool:
        """Take the lease where none holds it.

        Raises:
            OSError: The file system refuses.
        """
        # Not the root: where that is gone, the file system is not mounted, and a lease beside it binds nobody.
        self._folder.parent.mkdir(exist_ok=True)
        self._folder.mkdir(exist_ok=True)
        if not self._belt():
            self.other = self._read()
            return False
        taken = super().acquire()
        if not taken:
            self.close()
        return taken

    def close(self) -> None:
        """Let go of the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _belt(self) -> bool:
        """Lock a file for as long as this process lives; False where another living one has it."""
        if self._lock >= 0:
            return True
        descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _NO_FLOCK:
                os.close(descriptor)
                if isinstance(error, BlockingIOError):
                    return False
                raise
        self._lock = descriptor
        return True

    def _turns(self) -> list[int]:
        try:
            there = os.listdir(self._folder)  # noqa: PTH208 - names alone: a link to nowhere is a turn too
        except FileNotFoundError:
            return []
        names = (each[6:-5] for each in there if each.startswith("lease-") and each.endswith(".json"))
        return sorted(int(each) for each in names if each.isdigit())

    def _path(self, turn: int) -> Path:
        return self._folder / f"lease-{turn:010d}.json"

    def _read(self) -> Held | None:
        for _ in range(10):
            turns = self._turns()
            self._turn = turns[-1] if turns else 0
            if not turns:
                return None
            found = self._held_by(self._path(self._turn))
            if found is not None:
                return found
        raise LeaseLost("the lease changes hands faster than it can be read")

    def _held_by(self, path: Path) -> Held | None:
        """Read a turn; None where it is over. One whose node died before it was on disk lasts as long as any other."""
        try:
            written = path.lstat().st_mtime
            text = os.readlink(path) if path.is_symlink() else path.read_text(encoding="utf-8")  # noqa: PTH115 - no path
        except FileNotFoundError:
            return None
        try:
            return Held(**json.loads(text))
        except (ValueError, TypeError):
            return Held("unknown", written + self.seconds, written, "")

    def _write(self, held: Held) -> bool:
        mine = self._turn + 1
        try:
            self._make(self._path(mine), json.dumps(asdict(held)), held.mark)
        except FileExistsError:
            return False
        turns = self._turns()
        if turns[-1] != mine:  # this turn was over long ago: its number was free again
            self._path(mine).unlink(missing_ok=True)
            return False
        self._turn = mine
        for each in turns[:-1]:
            with suppress(FileNotFoundError):
                self._path(each).unlink()
        return True

    def _make(self, path: Path, text: str, mark: str) -> None:
        """Make a file with its whole content, where none is; a symbolic link that says it where no byte fits any more.

        Names and links lie on the metadata servers. Without a lease nobody would remove what fills the file system.
        """
        draft = self._folder / f"draft-{mark}"
        try:
            draft.write_text(text, encoding="utf-8")
            os.link(draft, path)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            path.symlink_to(text)
        finally:
            draft.unlink(missing_ok=True)


class ObjectLease(Lease):
    """A lease in the lake.

    Args:
        aws: Clients.
        bucket: The lake.
        name: Id of the hot tier.
        holder: This node.
        clock: The time, seconds since 1970.
        seconds: How long it lasts.
    """

    def __init__(
        self,
        aws: Aws,
        bucket: str,
        name: str,
        holder: str,
        clock: Callable[[], float] = time.time,
        seconds: float = SECONDS,
    ) -> None:
        super().__init__(holder, clock, seconds)
        self._aws = aws
        self._where = {"Bucket": bucket, "Key": f"{places.LEASES}{name}.json"}
        self._etag = ""

    def _read(self) -> Held | None:
        try:
            answer = self._aws("s3").get_object(**self._where)
        except Exception as error:
            if code_of(error) not in MISSING:
                raise
            self._etag = ""
            return None
        self._etag = answer["ETag"]
        try:
            return Held(**json.loads(answer["Body"].read()))
        except (ValueError, TypeError):
            # Nobody can say whose it is: it lasts as long as any other, and is then taken over.
            written = answer["LastModified"].timestamp()
            return Held("unknown", written + self.seconds, written, "")

    def _write(self, held: Held) -> bool:
        condition: dict[str, Any] = {"IfMatch": self._etag} if self._etag else {"IfNoneMatch": "*"}
        body = json.dumps(asdict(held)).encode()
        try:
            answer = self._aws("s3").put_object(**self._where, Body=body, ContentType="application/json", **condition)
        except Exception as error:
            if code_of(error) not in TAKEN | MISSING:
                raise
            there = self._read()  # an answer that got lost, and the request sent again, looks like this too
            return there is not None and there.mark == held.mark
        self._etag = answer["ETag"]
        return True


def lease_of(aws: Aws, settings: Settings, node: str, clock: Callable[[], float] = time.time, root: str = "") -> Lease:
    """Return the lease of a hot tier, not taken yet.

    Args:
        aws: Clients.
        settings: Settings of the agent.
        node: This node.
        clock: The time, seconds since 1970.
        root: Where the checkpoint folder lies on this machine. Left out: where the settings say.
    """
    if settings.tier == "lustre":
        return FileLease(root or settings.checkpoints, node, clock)
    return ObjectLease(aws, settings.lake_bucket, settings.hot_tier_id, node, clock)
