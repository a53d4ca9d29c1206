"""Rules of the links between the file system and S3, which no GPU waits for and that lose data silently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from training_storage.operations.diagnosis import borders
from training_storage.operations.diagnosis.finding import FAULT, Evidence, Finding, Rule, confidence, strength
from training_storage.units import format_seconds

if TYPE_CHECKING:
    from training_storage.operations.diagnosis.look import Look

_BROKEN = ("MISCONFIGURED", "FAILED")


def _links(look: Look) -> Sequence[Mapping[str, Any]]:
    return look.seen.facts.get("associations") or ()


def auto_import(look: Look) -> Finding | None:
    """A link imports new objects by itself, and its bucket does not tell it of any."""
    notified: Mapping[str, Any] = look.seen.facts.get("bucket_notification") or {}
    deaf = [
        each
        for each in _links(look)
        if each.get("import") and each.get("bucket") in notified and not notified[each["bucket"]].get("fsx")
    ]
    if not deaf:
        return None
    link = deaf[0]
    there = ", ".join(notified[link["bucket"]].get("ids") or ()) or "none"
    return Finding(
        id="auto-import-without-notification",
        title=f"new objects under {link.get('source', '')} never arrive at {link.get('path', '')}: the bucket lost the "
        "notification of FSx",
        kind=FAULT,
        confidence=confidence([1.0], [True]),
        evidence=(
            Evidence(name=f"link {link.get('path', '')} imports", observed=", ".join(link["import"])),
            Evidence(name=f"notifications of {link['bucket']}", observed=there),
        ),
        next_step="let FSx put it back: `aws fsx update-data-repository-association --association-id "
        f"{link.get('id', 'ID')} --s3 'AutoImportPolicy={{Events=[{','.join(link['import'])}]}}'`, then import what "
        f"was missed with `training-storage preload {look.seen.workload} --metadata`; whatever replaced the bucket's "
        "notifications has to keep the one named FSx",
        **look.gain(None),
    )


def export_queue(look: Look) -> Finding | None:
    """What was written does not arrive in S3."""
    ages = look.queue_ages("AutoExport")
    files = [value for each in look.seen.all("AWS/S3/Files ExportAge") for value in each.values]
    on_lustre = max(ages[-1:], default=0.0) >= max(files[-1:], default=0.0)
    seen = ages if on_lustre else tuple(files)
    if not seen or seen[-1] < borders.QUEUE_AGE_S:
        return None
    # A queue that works has a youngest message that gets younger now and then.
    growing = len(seen) >= 3 and all(b >= a for a, b in zip(seen[-6:], seen[-5:], strict=False))
    export = next((each for each in _links(look) if each.get("export")), {})
    return Finding(
        id="export-queue-stuck",
        title=f"files that were written {format_seconds(seen[-1])} ago have not arrived in S3",
        kind=FAULT,
        confidence=confidence(
            [strength(seen[-1], borders.QUEUE_AGE_S, 3 * borders.QUEUE_AGE_S)], [growing or None]
        ),
        evidence=(
            Evidence(
                name="oldest change that waits for export", observed=seen[-1], expected=borders.QUEUE_AGE_S, unit="s",
                against="border",
            ),
            Evidence(name="it was at the begin", observed=seen[0], unit="s"),
        ),
        next_step=(
            "see why FSx may not write: `aws fsx describe-data-repository-associations --association-ids "
            f"{export.get('id', 'ID')}` and `training-storage status {look.seen.workload}`; it is the bucket policy, "
            "the key policy, or files that FSx does not export; release nothing before the queue is empty"
            if on_lustre
            else "see `AWS/S3/Files ExportFailures` and the bucket's policy and key; release nothing before the queue "
            "is empty"
        ),
        **look.gain(None),
    )  # fmt: skip


def link_misconfigured(look: Look) -> Finding | None:
    """A link does not work."""
    broken = [each for each in _links(look) if each.get("lifecycle") in _BROKEN]
    if not broken:
        return None
    link = broken[0]
    return Finding(
        id="link-misconfigured",
        title=f"the link at {link.get('path', '')} is {link['lifecycle']}: nothing is imported or exported there",
        kind=FAULT,
        confidence=confidence([1.0], [True]),
        evidence=(
            Evidence(name=f"link {link.get('path', '')}", observed=str(link["lifecycle"])),
            *([Evidence(name="FSx says", observed=str(link["message"]))] if link.get("message") else []),
        ),
        next_step="mend what it names (the right to read, list and write the bucket, the bucket policy, the key "
        "policy, another notification of the same events), then `aws fsx update-data-repository-association "
        f"--association-id {link.get('id', 'ID')}`",
        **look.gain(None),
    )


RULES = (
    Rule(
        id="auto-import-without-notification",
        kind=FAULT,
        condition="a link imports events, and its bucket has no notification named `FSx`",
        step="`aws fsx update-data-repository-association`",
        needs=(),
        check=auto_import,
    ),
    Rule(
        id="export-queue-stuck",
        kind=FAULT,
        condition="the oldest change that waits for export is an hour old or more at the end",
        step="policies of bucket and key",
        needs=("AWS/FSx AgeOfOldestQueuedMessage",),
        check=export_queue,
    ),
    Rule(
        id="link-misconfigured",
        kind=FAULT,
        condition="a link is MISCONFIGURED or FAILED",
        step="mend it, then `aws fsx update-data-repository-association`",
        needs=(),
        check=link_misconfigured,
        explains=("export-queue-stuck", "auto-import-without-notification"),
    ),
)
