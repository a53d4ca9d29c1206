"""Which tier, and how nodes see the data lake as files: contract section 2, first match wins.

Every option is noted with its reason, the ones that lost too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from training_storage.planner.draft import Draft
from training_storage.planner.links import dataset_source
from training_storage.planner.model import FileAccess, HotTier, Tiers
from training_storage.planner.s3_supply import S3Supply, judge_s3
from training_storage.planner.words import counted, mb_per_s, seconds

EXPRESS_ACCELERATORS = 1000
"""Accelerators from which object code goes to S3 Express One Zone (AWS China Summit 2026 guidance)."""

LUSTRE_INSTANCES = 16
"""Instances beyond which the hot tier is Lustre (the same guidance: S3 for about 1 to 16 instances)."""

Rule = Literal["given", "object-scale", "instances", "s3", "s3-files", "otherwise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierChoice:
    """Where the data is while the job runs.

    Attributes:
        tiers: What is printed.
        rule: Which rule of the contract decided on the hot tier.
        s3: What S3 gives without a hot tier.
        access_without_hot: How nodes would see the lake as files without a hot tier.
        s3_would_serve: Whether ``hot_tier: none`` would do everything: it is legal, and S3 serves what is asked for.
    """

    tiers: Tiers
    rule: Rule
    s3: S3Supply
    access_without_hot: FileAccess
    s3_would_serve: bool


def choose_tiers(draft: Draft) -> TierChoice:
    """Return hot tier and file access; options and reasons go to the draft, and what is refused to its problems."""
    workload = draft.workload
    posix = workload.dataset.interface == "posix"
    read_write = workload.dataset.access == "read-write"
    without_hot = _access_without_hot_tier(draft)
    s3 = judge_s3(
        draft.needs,
        draft.facts,
        draft.catalog,
        s3_files=without_hot == "s3-files",
        files=posix,
        saves_on_nvme=posix and draft.needs.saves is not None,
    )
    if without_hot == "s3-files" and draft.region.s3_files is None:
        draft.assume(f"the facts do not say whether {draft.region.name} has S3 Files; it counts as having it")
    writable = without_hot != "s3-files" or draft.region.s3_files is not False
    hot, rule = _hot_tier(draft, s3, writable=writable)
    if draft.told:
        _assume_one_prefix(draft, s3)
    _explain_hot_tier(draft, s3, hot, rule)
    if workload.file_access != "auto":
        access: FileAccess = workload.file_access
    elif hot == "none":
        access = without_hot
    else:
        access = "mountpoint" if posix else "none"
    if draft.told:
        _explain_file_access(draft, hot, access)
    _refuse_impossible(draft, hot, access, posix=posix, read_write=read_write)
    return TierChoice(
        tiers=Tiers(data_lake=True, hot=hot, file_access=access),
        rule=rule,
        s3=s3,
        access_without_hot=without_hot,
        s3_would_serve=s3.can_serve and (hot == "none" or _possible_without_hot(draft, without_hot)),
    )


def _possible_without_hot(draft: Draft, access: FileAccess) -> bool:
    """Whether ``hot_tier: none`` would be refused nothing, such as writes of the job into a Mountpoint mount."""
    apart = replace(draft, problems=[])
    dataset = draft.workload.dataset
    _refuse_impossible(
        apart, "none", access, posix=dataset.interface == "posix", read_write=dataset.access == "read-write"
    )
    return not apart.problems


def _access_without_hot_tier(draft: Draft) -> FileAccess:
    """How nodes would see the lake as files if there were no hot tier."""
    workload = draft.workload
    if workload.file_access != "auto":
        return workload.file_access
    if workload.dataset.interface == "object":
        return "none"
    return "s3-files" if workload.dataset.access == "read-write" else "mountpoint"


def _assume_one_prefix(draft: Draft, s3: S3Supply) -> None:
    """Say on what the number of requests rests, where it decides: S3 splits a bucket by itself as prefixes grow hot."""
    if any(each.gap == "opens" for each in s3.shortfalls):
        rates = draft.catalog.object_storage
        draft.assume(
            f"the data set counts as one prefix of the bucket, which serves {rates.get_requests_per_s_per_prefix:,} "
            "requests a second at least; S3 serves more once it has split a tree of several prefixes, when and how far "
            "is not published"
        )


def _zone_has_express(draft: Draft) -> bool:
    return draft.workload.availability_zone_id in draft.region.express_zone_ids


def _hot_tier(draft: Draft, s3: S3Supply, *, writable: bool) -> tuple[HotTier, Rule]:
    workload, needs = draft.workload, draft.needs
    if workload.hot_tier != "auto":
        return workload.hot_tier, "given"
    if workload.dataset.interface == "object" and needs.accelerators >= EXPRESS_ACCELERATORS:
        return ("express" if _zone_has_express(draft) else "lustre"), "object-scale"
    if needs.instances > LUSTRE_INSTANCES:
        return "lustre", "instances"
    if not s3.can_serve:
        return "lustre", "s3"
    if workload.file_access == "auto" and not writable:
        return "lustre", "s3-files"
    return "none", "otherwise"


def _explain_hot_tier(draft: Draft, s3: S3Supply, hot: HotTier, rule: Rule) -> None:
    needs = draft.needs
    accelerators = counted(needs.accelerators, "accelerator")
    zone = draft.workload.availability_zone_id
    verdict = _verdict(draft, s3)
    chosen = {
        "given": f"hot_tier is given; {verdict}",
        "object-scale": f"object interface and {accelerators}, {EXPRESS_ACCELERATORS:,} or more"
        + (f", and {zone} has no S3 Express" if hot == "lustre" else f"; {zone} has S3 Express"),
        "instances": f"{needs.instances:,} instances are more than {LUSTRE_INSTANCES}",
        "s3": verdict,
        "s3-files": f"the job writes in the data tree, and {draft.region.name} has no S3 Files",
        "otherwise": verdict,
    }[rule]
    for option in ("lustre", "express", "none"):
        if option == hot:
            draft.choose("hot-tier", option, chosen)
        elif rule == "given":
            draft.reject("hot-tier", option, f"hot_tier: {hot} is given")
        elif option == "lustre":
            draft.reject("hot-tier", option, _why_not_lustre(hot, accelerators, needs.instances))
        elif option == "express":
            draft.reject("hot-tier", option, _why_not_express(draft, hot))
        else:
            draft.reject("hot-tier", option, verdict if rule == "s3" else f"{chosen}; {verdict}")


def _are(count: float, what: str) -> str:
    return f"{counted(count, what)} {'is' if count == 1 else 'are'}"


def _why_not_lustre(hot: HotTier, accelerators: str, instances: int) -> str:
    if hot == "express":
        return f"object code on {accelerators} reads and saves through the S3 API and needs no file system"
    return f"{_are(instances, 'instance')} {LUSTRE_INSTANCES} or fewer, and S3 serves everything that is asked for"


def _why_not_express(draft: Draft, hot: HotTier) -> str:
    if draft.workload.dataset.interface == "posix":
        needs = "POSIX code (dataset.interface: posix) needs a file system"
        return f"{needs}: it stays on Lustre at any scale" if hot == "lustre" else f"{needs}, and has the lake as files"
    if draft.needs.accelerators < EXPRESS_ACCELERATORS:
        return f"{_are(draft.needs.accelerators, 'accelerator')} fewer than {EXPRESS_ACCELERATORS:,}"
    return f"{draft.workload.availability_zone_id} has no S3 Express"


def _verdict(draft: Draft, s3: S3Supply) -> str:
    """Whether S3 serves the workload without a hot tier, with the numbers that say so."""
    if s3.shortfalls:
        return f"S3 alone does not serve it: {'; '.join(shortfall.text for shortfall in s3.shortfalls)}"
    demand, parts = draft.needs.demand, []
    if demand.read_mb_per_s is not None:
        parts.append(f"reads {mb_per_s(demand.read_mb_per_s)} of {mb_per_s(s3.limits.restore.mb_per_s)}")
    saves, write_s, restore_s = draft.needs.saves, s3.outcome.checkpoint_write_s, s3.outcome.restore_s
    if saves is not None and write_s is not None and restore_s is not None:
        parts.append(f"a save {seconds(write_s)} of {seconds(saves.longest_write_s)}")
        parts.append(f"a restore {seconds(restore_s)} of {seconds(saves.max_restore_s)}")
    return f"S3 alone serves it: {', '.join(parts) or 'nothing is asked for that it could miss'}"


def _explain_file_access(draft: Draft, hot: HotTier, access: FileAccess) -> None:
    dataset = draft.workload.dataset
    given = draft.workload.file_access != "auto"
    writes = dataset.access == "read-write"
    beside = f" beside {hot}" if hot != "none" else ""
    no_files = "object code (dataset.interface: object) needs no files"
    reasons: dict[FileAccess, str] = {
        "none": no_files if dataset.interface == "object" else "POSIX code (dataset.interface: posix) needs files",
        "mountpoint": (
            f"POSIX code sees the lake as files{beside}"
            if hot == "lustre" or not writes
            else "a general purpose bucket has no rename, append or locks, and the job writes in the data tree "
            "(dataset.access: read-write)"
        ),
        "s3-files": (
            "the job renames, appends or locks in the data tree"
            if writes and hot == "none"
            else f"the job writes on {hot} (dataset.access: read-write)"
            if writes
            else "the job only reads the data tree (dataset.access: read-mostly); Mountpoint reads it faster and costs "
            "nothing"
        ),
    }
    if dataset.interface == "object":
        reasons["mountpoint"] = reasons["s3-files"] = no_files
    for option, reason in reasons.items():
        if option == access:
            draft.choose("file-access", option, "file_access is given" if given else reason)
        else:
            draft.reject("file-access", option, f"file_access: {access} is given" if given else reason)


def _refuse_impossible(draft: Draft, hot: HotTier, access: FileAccess, *, posix: bool, read_write: bool) -> None:
    workload, region = draft.workload, draft.region
    if hot == "express" and not _zone_has_express(draft):
        draft.refuse(
            f"{workload.availability_zone_id} has no S3 Express One Zone",
            path="hot_tier",
            value=workload.hot_tier,
            allowed=f"express in {', '.join(region.express_zone_ids)}"
            if region.express_zone_ids
            else f"no zone of {region.name}",
            fix=f"set hot_tier to auto or lustre, or choose another {'zone' if region.express_zone_ids else 'region'}",
        )
    if posix and hot == "none" and access == "none":
        draft.refuse(
            "nothing is mounted, and POSIX code needs files",
            path="file_access",
            value=workload.file_access,
            allowed="mountpoint or s3-files without a hot tier",
            fix="set file_access to auto, hot_tier to lustre, or dataset.interface to object",
        )
    if access == "mountpoint" and read_write and hot != "lustre":
        draft.refuse(
            "the job writes in the data tree; Mountpoint of a general purpose bucket has no rename, append or locks",
            path="file_access" if workload.file_access == "mountpoint" else "hot_tier",
            value=workload.file_access if workload.file_access == "mountpoint" else hot,
            allowed="s3-files, or mountpoint beside Lustre",
            fix="set file_access to s3-files, hot_tier to lustre, or dataset.access to read-mostly",
        )
    if access == "s3-files":
        _refuse_s3_files(draft, hot, read_write=read_write)
    if posix and hot == "none" and draft.needs.saves is not None and draft.facts.local_nvme_gb <= 0:
        draft.refuse(
            f"POSIX code without a hot tier saves to local NVMe, and {draft.facts.name} has none",
            path="hot_tier",
            value=hot,
            allowed="none on a type with local NVMe",
            fix="set hot_tier to lustre, or choose a type with local NVMe",
        )


def _refuse_s3_files(draft: Draft, hot: HotTier, *, read_write: bool) -> None:
    workload, region = draft.workload, draft.region
    if region.s3_files is False:
        draft.refuse(
            f"{region.name} has no S3 Files",
            path="file_access" if workload.file_access == "s3-files" else "hot_tier",
            value=workload.file_access if workload.file_access == "s3-files" else hot,
            allowed="none or mountpoint in this region",
            fix="set file_access to auto and hot_tier to lustre, or choose another region",
        )
    if not workload.data_lake.versioned:
        draft.refuse(
            "S3 Files needs a versioned bucket",
            path="data_lake.versioned",
            value=False,
            allowed="true with S3 Files",
            fix="leave data_lake.versioned out",
        )
    if not read_write or hot != "none":
        return
    if workload.s3_files.read_only:
        draft.refuse(
            "the job writes in the data tree, and S3 Files would be mounted read-only",
            path="s3_files.read_only",
            value=True,
            allowed="false with dataset.access: read-write",
            fix="leave s3_files.read_only out",
        )
    if dataset_source(workload)[0] is not None:
        draft.refuse(
            "the job writes in the data tree, and S3 Files serves the data lake only, not the bucket of dataset.source",
            path="dataset.source",
            value=workload.dataset.source,
            allowed="a prefix of the data lake",
            fix="set hot_tier to lustre, name that bucket as data_lake.bucket, or set dataset.access to read-mostly",
        )
