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
    ages, on_lustre = _ages(look, "AutoExport", "AWS/S3/Files ExportAge")
    export = next((each for each in _links(look) if each.get("export")), {})
    return _stuck(
        look,
        "export-queue-stuck",
        "files that were written {} ago have not arrived in S3",
        ages,
        "see why FSx may not write: `aws fsx describe-data-repository-associations --association-ids "
        f"{export.get('id', 'ID')}`; it is the bucket policy, the key policy, or files that FSx does not export; "
        "release nothing before the queue is empty"
        if on_lustre
        else "see `AWS/S3/Files ExportFailures`, the bucket's policy and its key; release nothing before the queue is "
        "empty",
    )


def import_queue(look: Look) -> Finding | None:
    """What is new in S3 does not arrive on the file system."""
    ages, on_lustre = _ages(look, "AutoImport", "AWS/S3/Files ImportAge")
    link = next((each for each in _links(look) if each.get("import")), {})
    return _stuck(
        look,
        "import-queue-stuck",
        "objects that are new since {} have not arrived on the file system",
        ages,
        "let fewer objects change at once under the linked prefix, and bring those that wait in one task: "
        f"`training-storage preload {look.seen.workload} --metadata --path {link.get('path', '/datasets')}`; FSx stops "
        "importing by itself where the queue gets 14 days old"
        if on_lustre
        else "see `AWS/S3/Files ImportFailures`, and the rights of the file system's role on bucket and key",
    )


def _ages(look: Look, publisher: str, of_files: str) -> tuple[tuple[float, ...], bool]:
    """Return the ages of the older queue, period by period, and whether it is that of Lustre."""
    lustre = look.queue_ages(publisher)
    files = tuple(value for each in look.seen.all(of_files) for value in each.values)
    return (lustre, True) if max(lustre[-1:], default=0.0) >= max(files[-1:], default=0.0) else (files, False)


def _stuck(look: Look, rule: str, title: str, ages: Sequence[float], step: str) -> Finding | None:
    if not ages or ages[-1] < borders.QUEUE_AGE_S:
        return None
    # The oldest message of a queue that works gets younger now and then.
    growing = len(ages) >= 3 and all(later >= earlier for earlier, later in zip(ages[-6:], ages[-5:], strict=False))
    return Finding(
        id=rule,
        title=title.format(format_seconds(ages[-1])),
        kind=FAULT,
        confidence=confidence(
            [strength(ages[-1], borders.QUEUE_AGE_S, 3 * borders.QUEUE_AGE_S)], [growing or None]
        ),
        evidence=(
            Evidence(
                name="oldest change that waits", observed=ages[-1], expected=borders.QUEUE_AGE_S, unit="s",
                against="border",
            ),
            Evidence(name="it was at the begin", observed=ages[0], unit="s"),
        ),
        next_step=step,
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
        id="import-queue-stuck",
        kind=FAULT,
        condition="the oldest change that waits for import is an hour old or more at the end",
        step="bring it in one task with `training-storage preload NAME --metadata`",
        needs=("AWS/FSx AgeOfOldestQueuedMessage",),
        check=import_queue,
    ),
    Rule(
        id="link-misconfigured",
        kind=FAULT,
        condition="a link is MISCONFIGURED or FAILED",
        step="mend it, then `aws fsx update-data-repository-association`",
        needs=(),
        check=link_misconfigured,
        explains=("export-queue-stuck", "import-queue-stuck", "auto-import-without-notification"),
    ),
)
