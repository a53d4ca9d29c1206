"""Checkpoints on local disks of several nodes: each node has some of the files, one of them decides.

Nodes tell in the lake what they hold (``parts``). For what is complete and due in their union the elected one writes an
order. Every node uploads its own files below that path and writes a receipt with their list, also an empty one, and
holds back what makes the checkpoint complete. When as many receipts are there as the fleet has nodes, and together they
are exactly what was ordered, whoever holds that back uploads it; then the elected one proves all of it in the lake, and
records it. Removal goes the same way. A node that is gone leaves an order open: that stands in the status, and nothing
is removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Callable

from .. import places
from ..aws import TAKEN, Aws, code_of
from ..settings import Settings
from . import lake, parts, records
from .lease import LeaseLost
from .model import Checkpoint, FileEntry, Record, RecordedFile
from .names import quoted
from .promotion import Job, PromotionError, Report, iso, prove
from .promotion_upload import upload_files
from .pruning import Kept, finish_folder, remove_folder
from .tree import Tree
from .verification import verify

SKEW_NS = 5_000_000_000
"""How far clocks of nodes may be apart. A file newer than the checkpoint by more belongs to another save."""


@dataclass(frozen=True)
class Desk:
    """One node's view of the orders.

    Attributes:
        aws: Clients.
        settings: Settings of the agent.
        tree: The node's own disk.
        node: This node.
        clock: The time, seconds since 1970.
        sleep: Waits.
        report: Takes progress.
        since_ns: From when on its disk holds what was written, nanoseconds since 1970; None: as its disk says.
    """

    aws: Aws
    settings: Settings
    tree: Tree
    node: str
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    report: Report
    since_ns: int | None = None

    def put(self, key: str, body: dict[str, Any], **condition: str) -> bool:
        """Write an object; False where a condition was not met."""
        try:
            self.aws("s3").put_object(
                Bucket=self.settings.lake_bucket,
                Key=key,
                Body=(json.dumps(body, indent=1) + "\n").encode(),
                ContentType="application/json",
                **condition,
            )
        except Exception as error:
            if code_of(error) in TAKEN:
                return False
            raise
        return True

    def get(self, key: str) -> dict[str, Any] | None:
        """Return an object; None where there is none."""
        found = lake.content(self.aws, self.settings.lake_bucket, key)
        return None if found is None else dict(json.loads(found))

    def job(self, checkpoint: Checkpoint, last: frozenset[str] = frozenset()) -> Job:
        """Return the promotion of this node's part."""
        return Job(self.aws, self.settings, self.tree, checkpoint, self.clock, self.sleep, self.report, last)


@dataclass
class Served:
    """What a node did for the orders."""

    pruned: list[dict[str, Any]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


@dataclass(frozen=True)
class Order:
    """An order and what nodes have answered.

    Attributes:
        key: Prefix of everything about it.
        body: The order; ``act`` is ``promote`` or ``prune``.
        receipts: Names of the nodes that have uploaded their part.
        removed: Names of the nodes that have removed it.
    """

    key: str
    body: dict[str, Any]
    receipts: frozenset[str]
    removed: frozenset[str]

    @property
    def name(self) -> tuple[str, str]:
        """Path and fingerprint of the checkpoint, as the elected node sees it."""
        return self.body["path"], self.body["fingerprint"]

    @property
    def round(self) -> int:
        """How often it was ordered anew, because what had been uploaded was lost in the lake."""
        return int(self.body.get("round", 0))

    @property
    def prunes(self) -> bool:
        """Whether it orders a removal."""
        return bool(self.body["act"] == "prune")


def is_spread(settings: Settings) -> bool:
    """Whether checkpoints of this workload lie in parts on several nodes."""
    return settings.tier == "nvme" and settings.nodes > 1


def order_key(settings: Settings, path: str, fingerprint: str) -> str:
    """Return the prefix of an order and its receipts; nodes of another workload have no part in it."""
    return f"{places.hot_tier_folder(places.ORDERS, settings.hot_tier_id)}{quoted(path)}@{fingerprint}/"


def open_orders(desk: Desk) -> list[Order]:
    """Return the orders that are not closed.

    Raises:
        ClientError: S3 refused or failed.
    """
    found: dict[str, dict[str, set[str]]] = {}
    mine = places.hot_tier_folder(places.ORDERS, desk.settings.hot_tier_id)
    for key in lake.listing(desk.aws, desk.settings.lake_bucket, mine):
        prefix, _, name = key.rpartition("/")
        folder = prefix.rpartition("/")[2]
        base = prefix[: -len(folder)] if folder in ("receipts", "removed") else prefix + "/"
        kinds = found.setdefault(base, {"receipts": set(), "removed": set(), "": set()})
        kinds[folder if folder in ("receipts", "removed") else ""].add(name[: -len(".json")])
    bases = [base for base, kinds in found.items() if "order" in kinds[""] and "closed" not in kinds[""]]
    bodies = lake.in_parallel(lambda base: desk.get(base + "order.json"), bases)
    return [
        Order(base, body, frozenset(found[base]["receipts"]), frozenset(found[base]["removed"]))
        for base, body in zip(bases, bodies)
        if body is not None
    ]


@dataclass(frozen=True)
class Together:
    """What all nodes hold together.

    Attributes:
        parts: What each holds that counts.
        orders: The orders that are not closed.
        checkpoints: The checkpoints of the union, by path.
    """

    parts: list[parts.Part]
    orders: list[Order]
    checkpoints: list[Checkpoint]


def look_together(desk: Desk, own: parts.Part | None = None) -> Together:
    """Return what all nodes hold together, as they told it; this one as it is now.

    Args:
        desk: This node.
        own: What this node holds. Left out: it is looked at.

    Raises:
        ClientError: S3 refused or failed.
        OSError: A folder cannot be read.
    """
    told = parts.read_all(desk.aws, desk.settings.lake_bucket, desk.settings.hot_tier_id)
    told = parts.with_own(told, own or parts.look(desk))
    open_ = open_orders(desk)
    counted = parts.counted(told, open_, desk.clock())
    return Together(counted, open_, parts.checkpoints(counted, desk.settings.nodes, desk.settings.checkpoints))


# -- every node


def serve(desk: Desk, *, promote: bool = True, prune: bool = True) -> Served:
    """Do this node's part of every open order.

    Args:
        desk: This node.
        promote: Upload what was asked for.
        prune: Remove what was let go.

    Returns:
        What it did; what goes wrong with one order stops no other.

    Raises:
        ClientError: The orders cannot be listed.
        LeaseLost: This node leads, and no longer knows that it does.
    """
    served = Served()
    for order in open_orders(desk):
        if prune if order.body["act"] == "prune" else promote:
            _serve(desk, order, served)
    return served


def _serve(desk: Desk, order: Order, served: Served) -> None:
    try:
        if order.body["act"] == "prune":
            removed = _remove_own(desk, order)
            served.pruned += [removed] if removed else []
        else:
            _upload_own(desk, order)
    except LeaseLost:
        raise  # a part is brought without a lease too, by the next run: one that leads says that it stopped
    except (PromotionError, Kept) as error:
        served.errors.append(str(error))
    except Exception as error:  # one order stops no other
        served.errors.append(f"{order.body['path']}: {type(error).__name__}: {error}")


def _own(desk: Desk, order: Order) -> Checkpoint:
    """Return what this node has of a checkpoint."""
    path = order.body["path"]
    files = tuple(sorted(desk.tree.files(path), key=lambda each: each.path))
    late = [each.path for each in files if each.modified_ns > order.body["written_ns"] + SKEW_NS]
    if late:
        raise Kept(f"{path} was written again after it was complete ({late[0]}); this node leaves it alone")
    newest = max((each.modified_ns for each in files), default=0)
    return Checkpoint(path, order.body["series"], order.body["layout"], None, False, "", False, newest, files)


def _upload_own(desk: Desk, order: Order) -> None:
    path = order.body["path"]
    own = _own(desk, order)
    key = f"{order.key}receipts/{desk.node}.json"
    receipt = desk.get(key) if desk.node in order.receipts else None
    if receipt is not None and receipt["fingerprint"] == own.fingerprint and receipt["round"] == order.round:
        held = {each["path"] for each in receipt["held_back"]}
        if not held or not is_whole(order, receipts_of(desk, order)):
            return
        # All else of all nodes is in the lake: what makes the checkpoint complete may go there too.
        entries, before = tuple(each for each in own.files if each.path in held), receipt["files"]
        back: list[FileEntry] = []
    else:
        if not own.files and parts.since_of(desk) > order.body["written_ns"]:
            return  # nobody knows what its predecessor's disk held: the order stays open
        last = frozenset(order.body["last"])
        entries, before = tuple(each for each in own.files if each.path not in last), []
        back = [each for each in own.files if each.path in last]
    job = desk.job(own)
    sums = upload_files(job, entries)
    proven, wrong = prove(job, entries, sums)
    if wrong:
        first, code = sorted(wrong.items())[0]
        raise PromotionError(f"{first} is not in S3 after the upload: {code}", wrong)
    if _own(desk, order).fingerprint != own.fingerprint:
        raise PromotionError(f"{path} changed while it was being uploaded")
    desk.put(
        key,
        {
            "node": desk.node,
            "path": path,
            "fingerprint": own.fingerprint,
            "round": order.round,
            "files": [*before, *(dict(vars(each)) for each in proven)],
            "held_back": [{"path": each.path, "size": each.size, "modified_ns": each.modified_ns} for each in back],
            "written_at": iso(desk.clock()),
        },
    )


def receipts_of(desk: Desk, order: Order) -> list[dict[str, Any]]:
    """Return the receipts of an order, but those from before its objects were lost in the lake."""
    found = lake.in_parallel(lambda node: desk.get(f"{order.key}receipts/{node}.json"), sorted(order.receipts))
    return [each for each in found if each is not None and each["round"] == order.round]


def union_of(receipts: Iterable[Mapping[str, Any]]) -> dict[str, RecordedFile]:
    """Return what all nodes have uploaded, and what they hold back, by path; the newest of a file of several nodes.

    Raises:
        PromotionError: Two of them have files of one name with different contents.
    """
    union: dict[str, RecordedFile] = {}
    for receipt in receipts:
        held = [RecordedFile(**each, etag="") for each in receipt["held_back"]]
        for one in (*(RecordedFile(**each) for each in receipt["files"]), *held):
            other = union.setdefault(one.path, one)
            sums = {one.checksum, other.checksum} - {""}
            if other.size != one.size or len(sums) > 1:
                raise PromotionError(
                    f"{one.path} lies on two nodes with different contents; fix: let one node write it, or give each "
                    "its own name"
                )
            if (one.modified_ns, bool(one.etag)) > (other.modified_ns, bool(other.etag)):
                union[one.path] = one
    return union


def is_whole(order: Order, receipts: list[dict[str, Any]]) -> bool:
    """Whether all nodes have answered, and together have exactly the files that were ordered."""
    if len(receipts) < order.body["nodes"]:
        return False
    files = tuple(FileEntry(each.path, each.size, each.modified_ns) for each in union_of(receipts).values())
    bare = Checkpoint(order.body["path"], order.body["series"], order.body["layout"], None, True, "", False, 0, ())
    return replace(bare, files=files).fingerprint == order.name[1]


def _remove_own(desk: Desk, order: Order) -> dict[str, Any] | None:
    if desk.node in order.removed:
        return None
    path = order.body["path"]
    tree: Any = desk.tree
    key = f"{order.key}receipts/{desk.node}.json"
    receipt = desk.get(key)
    if receipt is not None:
        finish_folder(tree, path, receipt["fingerprint"])
    own = _own(desk, order)
    if own.files:
        if receipt is None:
            if order.body["due"]:
                _refuse_unrecorded(desk, order, own)
            receipt = {
                "node": desk.node,
                "path": path,
                "fingerprint": own.fingerprint,
                "files": [],
                "held_back": [],
                "round": 0,
            }
            desk.put(key, receipt)
        elif receipt["fingerprint"] != own.fingerprint:
            raise Kept(f"{path} changed after {desk.node} had uploaded it; it is kept")
        if order.body["due"] or receipt["files"]:
            _still_in_lake(desk, order)
        remove_folder(tree, own)
        parts.tell(desk)  # before anybody takes the order for done
    desk.put(
        f"{order.key}removed/{desk.node}.json",
        {"node": desk.node, "files": len(own.files), "bytes": own.size, "written_at": iso(desk.clock())},
    )
    return {"path": path, "reason": order.body["because"], "files": len(own.files), "bytes": own.size}


def _refuse_unrecorded(desk: Desk, order: Order, own: Checkpoint) -> None:
    """Keep what the record does not name, where there is no receipt: receipts pass, the record stays."""
    known = {(each.path, each.size, each.modified_ns) for each in _record_of(desk, order).files}
    lacks = [each.path for each in own.files if (each.path, each.size, each.modified_ns) not in known]
    if lacks:
        raise Kept(f"{own.path} is kept: {desk.node} has no receipt for {lacks[0]}, and the record does not name it")


def _record_of(desk: Desk, order: Order) -> Record:
    path, fingerprint = order.name
    found = lake.content(desk.aws, desk.settings.lake_bucket, records.record_key(path, fingerprint))
    if found is None:
        raise Kept(f"{path} is kept: nothing proves that it is in the lake")
    return records.decode(found)


def _still_in_lake(desk: Desk, order: Order) -> None:
    """Verify the whole checkpoint in the lake directly before any part of it is removed."""
    wrong = verify(desk.aws, desk.settings, _record_of(desk, order))
    if wrong:
        raise Kept(f"{order.body['path']} is kept: what was promoted is no longer in the lake: {wrong[0]}")
