"""The steps of local disks: every node that runs uploads what is due, and twice, so that a job that goes on is seen.

Each node answers with what lies on its disk and what became of it. The disks may go when every node that runs has
answered, everything that has to be in the lake is recorded and agrees with it, and what else lies there is left behind
by the policy, in no checkpoint, or named by whoever asks. A node that is gone has taken its disk along: what it had
told of it, and never brought, is named too.
"""

from __future__ import annotations

from typing import Any

from .. import places
from ..run_command import online_nodes, running_nodes
from . import proof as proofs
from .checks import shown
from .context import SHOWN, Context, Done, Refused, human
from .nodes import ONLINE_S, READY_S, command
from .sorting import CLASSES, HALF_WRITTEN, KEEP, LEFT

NO_SETTINGS = "the agent's settings"
"""How a node says that nothing of its workload lies on local disks, or anywhere else that the agent looks after."""

_LOOSE = "loose"
_UNSAVED = "unsaved"


def survey(ctx: Context) -> None:
    """Look which nodes there are; refuse where one cannot be asked."""
    nodes = _nodes(ctx)
    _refuse_lost(ctx, nodes)
    if ctx.action == "check":
        ctx.state["message"] = f"{len(nodes)} nodes would upload what is due from their local disks"
        raise Done


def export(ctx: Context) -> None:
    """Have every node upload what is due, the last checkpoint included, and judge what their disks hold then."""
    ctx.state.setdefault("valid_from", ctx.clock())
    answers = _flush(ctx, "flush")
    ctx.state["disks"] = _judged(ctx, answers)


def prove(ctx: Context) -> None:
    """Write the proof."""
    found = ctx.state["disks"]
    why = {**CLASSES, _LOOSE: "lie in no checkpoint, on local disks of nodes", "lost": "went with nodes that are gone"}
    left = {name: {**each, "why": why[name]} for name, each in found["classes"].items() if name != KEEP}
    made = proofs.Proof(
        kind="proof",
        workload=ctx.workload,
        hot_tier_id=ctx.hot_tier_id,
        written_at=ctx.clock(),
        valid_from=ctx.state["valid_from"],
        files=found["files"],
        bytes=found["bytes"],
        left=left,
    )
    proofs.write(ctx.aws, ctx.lake, made)
    ctx.state["proof"] = shown(made)


def before_compute(ctx: Context) -> None:
    """Look once more before the nodes go, which take their disks along.

    Raises:
        Refused: A checkpoint became due since the proof, or something is on a disk that may not go.
    """
    if ctx.state.get("flushed_again"):
        return
    before = (ctx.state.get("disks") or {}).get("promoted")
    answers = _flush(ctx, "flush-again")
    found = _judged(ctx, answers)
    new = [each for each in found["promoted"] if before is not None and each not in before]
    if new:
        raise Refused(
            f"checkpoints were written after the proof: stop the training job of {ctx.workload}, and run the "
            "release again",
            new,
        )
    ctx.state["flushed_again"] = True


# -- asking


def _flush(ctx: Context, name: str) -> dict[str, dict[str, Any]]:
    """Have all nodes upload what is due, and return their answers; none where nobody has to do with checkpoints."""
    held = (ctx.state.get("commands") or {}).get(name)
    nodes = held["nodes"] if held else _nodes(ctx)
    if not nodes:
        return {}
    try:
        answers = command(ctx, name, ["flush"], nodes)
    except Refused as refused:
        # One that was started by another deployment says nothing for the others.
        everybody = len(refused.blocking) >= min(len(nodes), SHOWN)
        nothing = NO_SETTINGS in refused.text and "is not there" in refused.text
        if nothing and everybody and ctx.read(places.status_key(ctx.workload)) is None:
            return {}
        raise
    return dict(zip(nodes, answers))


def _nodes(ctx: Context) -> list[str]:
    """Return all nodes that run.

    Raises:
        Again: One is not online yet.
        Refused: One cannot be asked.
    """
    running = running_nodes(ctx.aws, ctx.workload)
    silent = sorted(set(running) - set(online_nodes(ctx.aws, ctx.workload)))
    if silent:
        ctx.wait(
            "online",
            30,
            min(ONLINE_S, READY_S),
            f"nodes {', '.join(silent[:5])} run and take no commands, so that what lies on their local disks is not "
            "known. "
            "Repair Systems Manager on them, or terminate them if nothing on them is needed, and run the release again",
            silent,
        )
    return sorted(running)


# -- judging


def _judged(ctx: Context, answers: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what lies on all disks, by class, where nothing speaks against their going.

    Raises:
        Refused: Something does.
    """
    _refuse_silent(ctx, answers)
    late = sorted(set(_nodes(ctx)) - set(answers)) if answers else []
    if late:
        raise Refused(
            f"nodes {', '.join(late[:5])} came while the others answered: what lies on their disks is not known. Stop "
            "the training job, and run the release again",
            late,
        )
    lost = _refuse_lost(ctx, list(answers))
    last = [each for answer in answers.values() for each in answer["checkpoints"]]
    seen = {(str(each["path"]), str(each.get("fingerprint", ""))): each for each in last}
    unsaved = sorted({str(each) for answer in answers.values() for each in answer["unsaved"]})
    _refuse(
        ctx,
        unsaved,
        "have to be in the lake and are not: see `training-storage checkpoints list {workload}`, run the release again "
        "when the nodes that hold them are well, or name what may be lost with --leave",
        _waits(answers),
    )
    half = sorted({path for (path, _), each in seen.items() if not each["complete"]})
    _refuse(
        ctx,
        half,
        "are half-written, as far as all nodes have told: finish or remove them, or name them with --leave",
        [f"{path} lacks {each['missing']}" for (path, _), each in sorted(seen.items()) if not each["complete"]],
    )
    classes: dict[str, dict[str, Any]] = {}
    for answer in answers.values():
        for name, each in answer["disk"]["classes"].items():
            _add(classes, {_UNSAVED: LEFT}.get(name, name), each)
        held = sum(each["files"] for each in answer["disk"]["classes"].values())
        if held != answer["disk"]["files"]:
            raise Refused("a node does not account for all files of its disk; run the release again")
    for name, each in lost.items():
        _add(classes, name, each)
    files, size = _verified(ctx, seen)
    promoted = sorted(f"{path}@{print_}" for (path, print_), each in seen.items() if each["promoted"])
    return {"files": files, "bytes": size, "classes": classes, "promoted": promoted}


def _refuse_silent(ctx: Context, answers: dict[str, dict[str, Any]]) -> None:
    silent = [node for node, answer in answers.items() if not {"disk", "checkpoints", "unsaved"} <= answer.keys()]
    if silent:
        raise Refused(
            f"nodes {', '.join(silent[:5])} do not say what lies on their disks: their agent is too old, or they had a "
            f"file system that went without a release. Deploy {ctx.workload}-compute again and replace them, or copy "
            f"what is needed and delete {ctx.workload}-compute",
            silent,
        )
    holds = any(answer["disk"]["files"] for answer in answers.values())
    if holds and not any(answer.get("elected") for answer in answers.values()):
        raise Refused(
            "no node could lead, so that nothing was promoted: see the agents' journals, and run the release again",
            [f"{node}: {answer.get('holder') or 'another node'} holds the lease" for node, answer in answers.items()],
        )


def _waits(answers: dict[str, dict[str, Any]]) -> list[str]:
    return sorted({str(each) for answer in answers.values() for each in answer.get("waiting") or ()})


def _refuse(ctx: Context, paths: list[str], what: str, more: list[str]) -> None:
    left = [each for each in paths if not _left(ctx, each)]
    if left:
        raise Refused(
            f"{len(left)} checkpoints on local disks {what.format(workload=ctx.workload)}",
            [next((each for each in more if each.startswith((path + ":", path + " "))), path) for path in left],
        )


def _verified(ctx: Context, seen: dict[tuple[str, str], dict[str, Any]]) -> tuple[int, int]:
    """Compare everything that has to be in the lake with its record and its objects; return files and bytes."""
    wanted = {name for name, each in seen.items() if (each["due"] or each["promoted"]) and not _left(ctx, name[0])}
    if not wanted:
        return 0, 0
    from ..checkpoints import records
    from ..checkpoints.verification import verify_all
    from .express_survey import settings_of

    damaged: list[str] = []
    known = records.read_all(ctx.aws, ctx.lake, damaged=damaged)
    mine = {(each.path, each.fingerprint): each for each in known if (each.path, each.fingerprint) in wanted}
    wrong = verify_all(ctx.aws, settings_of(ctx), list(mine.values()))
    bad = [
        path if (path, print_) not in mine else f"{path}: {wrong[records.record_key(path, print_)][0]}"
        for path, print_ in sorted(wanted)
        if (path, print_) not in mine or wrong[records.record_key(path, print_)]
    ]
    if bad:
        raise Refused(
            f"{len(bad)} checkpoints have no record of a promotion that agrees with the lake; run the release again, "
            "which promotes them anew",
            bad,
        )
    return sum(len(each.files) for each in mine.values()), sum(each.size for each in mine.values())


def _refuse_lost(ctx: Context, nodes: list[str]) -> dict[str, dict[str, int]]:
    """Return what went with nodes that are gone, by class, where all that mattered is named.

    Raises:
        Refused: Something was lost that nobody has named.
    """
    status = ctx.read(places.status_key(ctx.workload))
    if status is None:
        return {}  # no agent has run: nothing was ever seen
    from ..checkpoints.disks import told
    from ..checkpoints.parts import checkpoints, read_all
    from .express_survey import settings_of

    settings = settings_of(ctx)
    before = proofs.read(ctx.aws, ctx.lake, ctx.hot_tier_id)
    settled = before.written_at if before is not None else 0.0
    classes: dict[str, dict[str, int]] = {}
    lost: dict[str, str] = {}
    if not nodes and float(status.get("written_at") or 0) > settled:
        lost.update(_never_saved(status))
    parts = read_all(ctx.aws, ctx.lake, ctx.workload)
    # What an earlier release has proven or been told to leave is settled.
    gone = [each for each in parts if each.node not in nodes and each.told_at > settled]
    if gone and settings.policy is not None:
        from ..checkpoints import ledgers, records
        from ..checkpoints import status as statuses
        from ..checkpoints.policy import decide

        known = records.read_all(ctx.aws, ctx.lake, damaged=[])
        alive = [each for each in parts if each.node in nodes]
        verdicts = decide(
            checkpoints([*gone, *alive], 1, settings.checkpoints),
            known,
            ledgers.read_all(ctx.aws, ctx.lake),
            settings.policy,
            now_ns=int(ctx.clock() * 1e9),
            last=True,
        ).verdicts
        seen = [statuses.checkpoint_of(each) for each in verdicts]
        for part in gone:
            disk = told(part.files, seen, known)
            for path, each in disk["checkpoints"].items():
                if each["class"] in (_UNSAVED, HALF_WRITTEN):
                    lost[path] = f"{each['files']} files ({human(each['bytes'])}) of it went with {part.node}"
                    _add(classes, "lost", each)
    unnamed = sorted(path for path in lost if not _left(ctx, path))
    if unnamed:
        raise Refused(
            f"{len(unnamed)} checkpoints were on local disks of nodes that are gone, and are lost: what is left of "
            "them is not in the lake. Name them with --leave to go on without them",
            [f"{path}: {lost[path]}" for path in unnamed],
        )
    return classes


def _never_saved(status: dict[str, Any]) -> dict[str, str]:
    """Return what the last run of an agent saw and had not brought to the lake: due, the last one, or half-written."""
    why = {str(path): "it was never in the lake" for path in status.get("unsaved") or ()}
    last: dict[str, dict[str, Any]] = {}
    for each in status.get("checkpoints") or ():
        if not each.get("complete"):
            why[str(each["path"])] = f"it was half-written, and lacked {each.get('missing')}"
        elif each.get("modified_ns", 0) >= last.get(str(each.get("series")), {}).get("modified_ns", 0):
            last[str(each.get("series"))] = each
    lost = [str(each["path"]) for each in last.values() if not each.get("promoted")]
    why.update(dict.fromkeys(lost, "the last one of its series was never in the lake"))
    return why


def _add(classes: dict[str, dict[str, Any]], name: str, counts: dict[str, Any]) -> None:
    held = classes.setdefault(name, {"files": 0, "bytes": 0})
    held["files"] += counts["files"]
    held["bytes"] += counts["bytes"]


def _left(ctx: Context, path: str) -> bool:
    """Whether a checkpoint is named, as a path below the checkpoint folder or as nodes name it."""
    status = ctx.read(places.status_key(ctx.workload)) if "checkpoint_folder" not in ctx.state else None
    if status is not None:
        ctx.state["checkpoint_folder"] = str((status.get("settings") or {}).get("checkpoints") or "")
    folder = str(ctx.state.get("checkpoint_folder") or "").strip("/")
    for plain in filter(None, (each.strip("/") for each in ctx.leave)):
        for root in (folder, "checkpoints"):
            if root and (plain == root or plain.startswith(root + "/")):
                plain = plain[len(root) :].strip("/")
                break
        if not plain or path == plain or path.startswith(plain + "/"):
            return True
    return False
