"""The steps of a file system: what it holds, what arrived in S3, whether anybody wrote, and the proof."""

from __future__ import annotations

import math
from typing import Any

from .. import places
from . import proof as proofs
from .checks import no_tasks, shown, still
from .compare import ManifestChangedError, compare_part
from .context import Again, Context, Done, Refused, human
from .nodes import command
from .sorting import BLOCKING, CLASSES, KEEP
from .tally import blocking

ARRIVING_S = 1_800.0
"""How long objects of links that export by themselves may take once the queue is empty."""
_STOP = "Stop what writes, and run the release again"


def survey(ctx: Context) -> None:
    """Have a node sort every file, and refuse where something would be lost."""
    state = ctx.state
    if not state.get("surveyed"):
        state["manifests"] = 0
        command(ctx, "survey", _argv(ctx, "survey", state["run"]))
        state["surveyed"] = state["run"]
    found = ctx.survey()
    _links(ctx, found["settings"]["links"])
    _refuse_losses(found)
    state["found"] = {name: {"files": each["files"], "bytes": each["bytes"]} for name, each in found["classes"].items()}
    if ctx.action == "check":
        keep = found["classes"].get(KEEP, {"files": 0, "bytes": 0})
        state["message"] = f"{keep['files']:,} files ({human(keep['bytes'])}) would have to be in S3 before a release"
        raise Done


def _argv(ctx: Context, name: str, run: str) -> list[str]:
    argv = [name, "--run", run, "--hot-tier-id", ctx.hot_tier_id]
    if ctx.state.get("mount_name"):
        argv += ["--mount-name", ctx.state["mount_name"]]
    return argv + [f"--leave={each}" for each in ctx.leave]


def _links(ctx: Context, links: list[dict[str, Any]]) -> None:
    """Make sure that the links a node knows of are those that FSx has."""
    from .checks import links_in_order

    there = {each["FileSystemPath"].strip("/") for each in links_in_order(ctx)}
    lost = [each["path"] for each in links if each["path"].strip("/") not in there]
    if lost:
        raise Refused(
            f"link {', '.join(lost)} of {ctx.hot_tier_id} is gone: nothing takes its files to S3. Deploy the hot "
            "stack again, "
            "and run the release again",
            lost,
        )


def _refuse_losses(found: dict[str, Any]) -> None:
    classes = found["classes"]
    lost = [name for name in BLOCKING if name in classes]
    if not lost:
        return
    told = "; ".join(
        f"{classes[name]['files']:,} files ({human(classes[name]['bytes'])}) {CLASSES[name]}" for name in lost
    )
    raise Refused(
        f"not everything would be in S3: {told}. Copy them to a folder that is exported, or name with --leave what "
        "may be "
        "lost",
        [
            f"{each['path']}: {each['files']:,} files, {human(each['bytes'])} ({each['class']})"
            for each in blocking(classes)
        ],
    )


def manifest(ctx: Context) -> None:
    """Have a node write the manifest, after the export."""
    state = ctx.state
    run = f"{state['run']}.{state.get('manifests', 0)}"
    command(ctx, f"manifest-{state.get('manifests', 0)}", _argv(ctx, "manifest", run))
    state["manifest"] = run
    found = ctx.index()
    _refuse_losses(found)
    state.update(part=0, agreed={"files": 0, "bytes": 0}, manifest_ended=found["ended_there"])


def compare(ctx: Context) -> None:
    """Compare the manifest with S3, part by part; a call compares as many as its time allows."""
    state = ctx.state
    index = ctx.index()
    parts = index["parts"]
    agreed = state.setdefault("agreed", {"files": 0, "bytes": 0})
    while state.setdefault("part", 0) < len(parts):
        try:
            seen = compare_part(ctx.aws, ctx.lake, parts[state["part"]], workers=ctx.workers)
        except ManifestChangedError as error:
            raise Refused(f"the manifest is not whole: {error}; let one release run, and start it again") from None
        if seen.wrong:
            _disagree(ctx, seen.wrong, [f"{path}: {told}" for path, told in seen.named.items()])
        agreed["files"] += seen.files
        agreed["bytes"] += seen.bytes
        state["part"] += 1
        if state["part"] < len(parts) and ctx.clock() >= ctx.deadline:
            raise Again(0)
    if agreed["files"] != index["keep_files"] or agreed["bytes"] != index["keep_bytes"]:
        raise Refused("the parts of the manifest do not add up to what its index says; run the release again")


def _disagree(ctx: Context, wrong: int, named: list[str]) -> None:
    text = (
        f"{wrong:,} files of {ctx.hot_tier_id} are not in S3 as they are on the file system. What changed after it was "
        "exported is exported by another release: run it again. What it names once more, FSx takes for exported: a "
        "file of which the time alone was changed, or whose object was deleted. Make it anew (cp -p FILE FILE.new && "
        "mv FILE.new FILE), or name it with --leave"
    )
    if not ctx.proven and any(each["exports"] for each in ctx.survey()["settings"]["links"]):
        ctx.state.update(part=0, agreed={"files": 0, "bytes": 0})
        ctx.wait("arriving", 60, ARRIVING_S, text, named)
    raise Refused(text, named)


def quiet(ctx: Context) -> None:
    """Make sure that nobody wrote from the begin of the export to the end of the manifest."""
    still(ctx, ctx.state["valid_from"], math.ceil(ctx.state["manifest_ended"] / 60) * 60, _STOP)


def prove(ctx: Context) -> None:
    """Write the proof."""
    index = ctx.index()
    left = {
        name: {"files": each["files"], "bytes": each["bytes"], "why": each["why"], "names": each["names"]}
        for name, each in index["classes"].items()
        if name != KEEP
    }
    if index["pointer_count"]:
        left["symbolic links"] = {
            "files": index["pointer_count"],
            "bytes": 0,
            "why": "names of other files, without data of their own",
            "names": index["pointers"],
        }
    made = proofs.Proof(
        kind="proof",
        workload=ctx.workload,
        hot_tier_id=ctx.hot_tier_id,
        written_at=ctx.clock(),
        valid_from=ctx.state["valid_from"],
        files=index["keep_files"],
        bytes=index["keep_bytes"],
        left=left,
        tasks=tuple(ctx.state.get("tasks") or ()),
        manifest=places.manifest_key(ctx.hot_tier_id),
    )
    proofs.write(ctx.aws, ctx.lake, made)
    ctx.state["proof"] = shown(made)


def quiet_again(ctx: Context) -> None:
    """Make sure, after the fleet is gone, that nobody wrote since the proof, and that no task is under way."""
    no_tasks(ctx, ours=False)
    needed = ctx.state.setdefault("fleet_gone", ctx.clock())
    still(ctx, ctx.state["valid_from"], needed, f"The file system stays. {_STOP}")
