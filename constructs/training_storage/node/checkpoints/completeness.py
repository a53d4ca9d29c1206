"""When a checkpoint is complete, layout by layout. Every rule stands on what its writer does last.

Each function returns what is missing, in words; empty for a complete one. In doubt something is missing: a complete
checkpoint that is taken for a half-written one stays where it is, the other way round would be a loss.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Callable

from .folders import Folder, Reader
from .model import FileEntry

MARKERS = ("COMPLETE", ".complete", "_SUCCESS", "DONE")
METRICS = "metrics.json"
TRAINER_STATE = "trainer_state.json"
MEGATRON_POINTER = "latest_checkpointed_iteration.txt"
DEEPSPEED_POINTER = "latest"

_LIGHTNING = "checkpoint"
_UNFINISHED = "-unfinished"

SKEW_NS = 2_000_000_000
"""Clocks of nodes that write one checkpoint together may differ by so much; nobody saves twice within that time."""

_APART_NS = 300_000_000_000
_SHARD = re.compile(r"__(\d+)_(\d+)\.distcp$")
_MODEL_STATES = re.compile(r"^(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)(?:_\d+)?_model_states\.pt$")
_OPTIMIZER_STATES = re.compile(r"zero_pp_rank_(\d+)_mp_rank_(\d+)(?:_\d+)?_optim_states\.pt$")
_MEGATRON_RANK = re.compile(r"^mp_rank_(\d+)(?:_(\d+))?(?:_(\d+))?$")
_RNG = re.compile(r"^rng_state_(\d+)\.pth$")
_WEIGHTS = (
    "model.safetensors",
    "pytorch_model.bin",
    "adapter_model.safetensors",
    "adapter_model.bin",
    "pytorch_model_fsdp.bin",
)
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_WRITTEN_BEFORE_STATE = re.compile(
    r"^(?:model.*\.safetensors|pytorch_model.*\.bin|(?:generation_|preprocessor_)?config\.json|optimizer.*\.(?:pt|bin)"
    r"|(?:scheduler|scaler)\.pt|training_args\.bin|tokenizer.*|special_tokens_map\.json|rng_state\.pth)$"
    r"|\.distcp$|_states\.pt$"
)
_ITERATION = re.compile(r"^iter_(\d+)$")
_NUMBER = re.compile(r"(\d+)\D*$")


_Parts = dict[str, FileEntry]


def number_of(name: str) -> int | None:
    """Return the last number in a name: 300 for ``step-300`` and for ``epoch=2-step=300.ckpt``."""
    found = _NUMBER.search(name)
    return int(found.group(1)) if found else None


def dcp(folder: Folder) -> str:
    """PyTorch Distributed Checkpoint.

    Every rank writes ``__RANK_N.distcp`` (also one without data: it may be empty); when all have told the coordinator,
    it writes ``.metadata.tmp``, syncs, and renames it to ``.metadata``: ``FileSystemWriter.write_data`` and ``finish``
    in ``torch/distributed/checkpoint/filesystem.py``. ``.metadata`` is a pickle and is not opened. A save over an
    older one leaves the old ``.metadata`` in place until the end, hence the comparison of times.
    """
    shards = [(found, each) for name, each in folder.files.items() for found in [_SHARD.search(name)] if found]
    metadata = folder.files.get(".metadata")
    if metadata is None:
        return f".metadata, which PyTorch writes last ({len(shards)} shards are there)"
    if metadata.size == 0:
        return ".metadata is empty"
    if "common.pt" in folder.files and "metadata.json" not in folder.files:
        return "metadata.json, which Megatron writes last into the folder"
    if not shards:
        return "shards (__RANK_N.distcp): there is none beside .metadata"
    parts: dict[int, set[int]] = {}
    for found, _ in shards:
        parts.setdefault(int(found.group(1)), set()).add(int(found.group(2)))
    lacks = _gap(parts)
    if lacks is not None:
        return f"shards of rank {lacks} (__{lacks}_N.distcp)"
    for rank in sorted(rank for rank, numbers in parts.items() if max(numbers) >= len(numbers)):
        lacks = _gap(parts[rank])
        if lacks is not None:
            return f"shard __{rank}_{lacks}.distcp"
    if not any(each.size for _, each in shards):
        return "content: all shards are empty"
    return _written_after(metadata, (each for _, each in shards), ".metadata")


def deepspeed(folder: Folder, parent: Folder, reader: Reader) -> str:
    """DeepSpeed.

    All ranks write model states, then optimizer shards, into the folder of the tag; after a barrier rank 0 writes the
    tag into ``latest`` beside it: ``DeepSpeedEngine.save_checkpoint`` in ``deepspeed/runtime/engine.py``, names from
    ``_get_ckpt_name`` and ``_get_zero_ckpt_name``. A folder newer than what ``latest`` names is not finished. An older
    one may be what a killed job left: how many ranks there were stands only in pickles, so it has to hold the same
    files as the one that ``latest`` names.
    """
    lacks = _behind_pointer(folder, parent.files.get(DEEPSPEED_POINTER), reader, "latest", "DeepSpeed")
    if lacks:
        return lacks
    for name, each in sorted(folder.files.items()):
        if each.size == 0 and name.endswith("_states.pt"):
            return f"content of {name}: it is empty"
    models: dict[int, set[int]] = {}
    partitioned = False
    for name in folder.files:
        found = _MODEL_STATES.match(name)
        if found:
            partitioned = partitioned or found.group(1) is not None
            models.setdefault(int(found.group(2)), set()).add(int(found.group(1) or 0))
    if not models:
        return "model states (mp_rank_NN_model_states.pt)"
    lacking = _gap(models)
    if lacking is not None:
        return f"model states of rank {lacking} (mp_rank_{lacking:02d}_model_states.pt)"
    shards: dict[int, set[int]] = {}
    for name in folder.files:
        found = _OPTIMIZER_STATES.search(name)
        if found:
            shards.setdefault(int(found.group(2)), set()).add(int(found.group(1)))
    everyone = set().union(*shards.values(), *(models.values() if partitioned else ()))
    count = max(everyone, default=-1) + 1
    for rank in sorted(models):
        for kind, there in (("optimizer", shards), ("model", models if partitioned else None)):
            if there is None or not shards:
                continue
            gap = next((n for n in range(count) if n not in there.get(rank, ())), None)
            if gap is not None:
                return f"{kind} states zero_pp_rank_{gap}_mp_rank_{rank:02d}"
    return _like_the_named(folder, parent, reader.text(parent.files.get(DEEPSPEED_POINTER)) or "", _states)


def megatron(folder: Folder, parent: Folder, reader: Reader) -> str:
    """Megatron-LM.

    When all ranks are done, rank 0 writes the iteration, or ``release``, into ``latest_checkpointed_iteration.txt``:
    ``save_checkpoint`` in ``megatron/training/checkpointing.py``. Inside, a distributed checkpoint gets
    ``metadata.json`` after everything else (``save`` in ``megatron/core/dist_checkpointing/serialization.py``;
    ranks without data write no shard there); the older kind has ``mp_rank_TP[_PP[_EP]]/model_optim_rng.pt`` and says
    nowhere how many: it has to hold the same as the one that the pointer file names.
    """
    lacks = _behind_pointer(folder, parent.files.get(MEGATRON_POINTER), reader, MEGATRON_POINTER, "Megatron")
    if lacks:
        return lacks
    shards = [name for name in folder.files if name.endswith(".distcp")]
    if shards or ".metadata" in folder.files or "metadata.json" in folder.files:
        if shards and not _size(folder, ".metadata"):
            return ".metadata, or its content"
        if "metadata.json" in folder.files:
            if reader.json(folder.files["metadata.json"]) is None:
                return "content of metadata.json: it is no JSON object"
            return "" if len(folder.files) + len(folder.folders) > 1 else "everything but metadata.json"
        if "common.pt" in folder.files:
            return "metadata.json, which Megatron writes last into the folder"
        return dcp(folder)
    ranks: dict[int, set[int]] = {}
    for name, inner in folder.folders.items():
        found = _MEGATRON_RANK.match(name)
        if not found:
            continue
        if not any(_size(inner, file) for file in ("model_optim_rng.pt", "model_rng.pt")):
            return f"{name}/model_optim_rng.pt, or its content"
        empty = next((each.path for each in inner.below() if each.size == 0), None)
        if empty:
            return f"content of {empty}: it is empty"
        ranks.setdefault(int(found.group(1)), set()).add(int(found.group(2) or 0))
    if not ranks:
        return "weights: neither mp_rank_NN folders nor a distributed checkpoint with metadata.json"
    lacking = _gap(ranks)
    if lacking is not None:
        return f"mp_rank_{lacking:02d}"
    stages = set().union(*ranks.values())
    for rank in sorted(ranks):
        for stage in range(max(stages) + 1):
            if stage not in ranks[rank]:
                return f"mp_rank_{rank:02d}_{stage:03d}"
    named = reader.text(parent.files.get(MEGATRON_POINTER)) or ""
    names = [each for each in parent.folders if each == named or (named.isdigit() and _iteration(each) == int(named))]
    return _like_the_named(folder, parent, names[0] if names else named, _rank_files)


def huggingface(folder: Folder, reader: Reader) -> str:
    """Hugging Face Trainer.

    Weights, optimizer, scheduler and random states come first, ``trainer_state.json`` last; the other ranks' random
    states and what callbacks add may come a moment later: ``Trainer._save_checkpoint`` in
    ``transformers/trainer.py``. Versions 4.36 to 4.38 wrote into ``tmp-checkpoint-N`` and renamed it. With DeepSpeed
    or FSDP the folder holds a checkpoint of theirs, which has to be complete too.
    """
    entry = folder.files.get(TRAINER_STATE)
    if entry is None:
        return f"{TRAINER_STATE}, which the Trainer writes last"
    state = reader.json(entry)
    if state is None:
        return f"content of {TRAINER_STATE}: it is no JSON object"
    if state.get("global_step") != number_of(folder.name):
        return f"{TRAINER_STATE} of this step: it says global_step {state.get('global_step')!r}"
    lacks = _weights(folder, reader)
    if lacks:
        return lacks
    ranks = {int(found.group(1)) for name in folder.files for found in [_RNG.match(name)] if found}
    lacking = _gap(ranks)
    if lacking is not None:
        return f"rng_state_{lacking}.pth"
    inner = len(folder.path) + 1
    first = (each for each in folder.below() if _WRITTEN_BEFORE_STATE.search(each.path[inner:]))
    return _written_after(entry, first, TRAINER_STATE)


def marker(folder: Folder, reader: Reader) -> str:
    """A marker file that the training job writes last: ``COMPLETE``, ``.complete``, ``_SUCCESS`` or ``DONE``.

    It counts when no other file is newer (``metrics.json`` may be: jobs evaluate later). A marker that holds JSON with
    ``files``, sizes by path below the folder, is compared with them.
    """
    markers = [folder.files[name] for name in MARKERS if name in folder.files]
    inside = folder.folders.get(_LIGHTNING)
    if not markers and inside is not None and folder.name.endswith(".ckpt") and _states(inside):
        # PyTorch Lightning lets DeepSpeed save into the folder, under a tag that is always the same.
        return deepspeed(inside, folder, reader)
    if not markers:
        return f"a file that says it is complete: .metadata of PyTorch, or a marker ({', '.join(MARKERS)}) written last"
    inner = len(folder.path) + 1
    others = [each for each in folder.below() if each.path[inner:] not in (*MARKERS, METRICS)]
    if not others:
        return f"everything but {markers[0].path[inner:]}"
    last = max(markers, key=lambda each: each.modified_ns)
    newer = next((each for each in others if each.modified_ns > last.modified_ns), None)
    if newer:
        return f"a marker as new as {newer.path[inner:]}: {last.path[inner:]} is older"
    sizes = {each.path[inner:]: each.size for each in folder.below()}
    for each in markers:
        text = reader.text(each) or ""
        if not text.startswith("{"):
            continue
        listed = (reader.json(each) or {"files": None}).get("files", {})
        if not isinstance(listed, dict):
            return f"content of {each.path[inner:]}: files has to be an object of sizes by path"
        for path, size in sorted(listed.items()):
            if sizes.get(path) != size:
                there = f"has {sizes[path]} bytes" if path in sizes else "is not there"
                return f"{path} with {size} bytes: it {there}"
    return ""


def is_nemo(folder: Folder, parent: Folder) -> bool:
    """Whether a folder is one of NeMo 2: ``weights`` and ``context``, or a file beside it that says it is written."""
    weights = folder.folders.get("weights")
    return (
        weights is not None
        and (".metadata" in weights.files or any(name.endswith(".distcp") for name in weights.files))
        and ("context" in folder.folders or folder.name + _UNFINISHED in parent.files)
    )


def nemo(folder: Folder, parent: Folder) -> str:
    """NeMo 2: a distributed checkpoint of Megatron in ``weights``, what is needed to load it in ``context``.

    A file ``NAME-unfinished`` lies beside the folder from before its first byte until after its last:
    ``ModelCheckpoint`` in ``nemo/lightning/pytorch/callbacks/model_checkpoint.py``.
    """
    if folder.name + _UNFINISHED in parent.files:
        return f"its end: {folder.name}{_UNFINISHED} lies beside it"
    lacks = dcp(folder.folders["weights"])
    if lacks:
        return f"in weights: {lacks}"
    return "" if any(folder.folders["context"].below()) else "files in context"


def nested(folder: Folder, reader: Reader) -> str:
    """Checkpoints inside a checkpoint: DCP folders of FSDP, a DeepSpeed folder. Each has to be complete."""
    for each in folder.walk():
        inner = each.path[len(folder.path) + 1 :]
        if each is not folder and (".metadata" in each.files or any(name.endswith(".distcp") for name in each.files)):
            lacks = dcp(each)
            if lacks:
                return f"in {inner}: {lacks}"
        for name, child in each.folders.items():
            if name.startswith("global_step") and any(file.endswith("_states.pt") for file in child.files):
                lacks = deepspeed(child, each, reader)
                if lacks:
                    return f"in {(inner + '/' + name).lstrip('/')}: {lacks}"
    return ""


def _weights(folder: Folder, reader: Reader) -> str:
    for name in INDEXES:
        if name not in folder.files:
            continue
        index = reader.json(folder.files[name])
        shards = (index or {}).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            return f"content of {name}: it names no weights"
        lacks = sorted({str(each) for each in shards.values() if not _size(folder, str(each))})
        return f"{lacks[0]} and {len(lacks) - 1} more that {name} names" if lacks else ""
    if any(_size(folder, name) for name in _WEIGHTS):
        return ""
    # Weights of FSDP and ZeRO 3 lie in folders, adapters with names of their own too.
    for each in folder.folders.values():
        if any(_size(each, name) for name in _WEIGHTS) or any(
            name.endswith((".distcp", "_model_states.pt")) and entry.size for name, entry in each.files.items()
        ):
            return ""
    return "weights (model.safetensors, its index, or adapter_model.safetensors)"


def _behind_pointer(folder: Folder, pointer: FileEntry | None, reader: Reader, name: str, writer: str) -> str:
    """What a pointer file that is written after each checkpoint says of a folder: nothing, or that it is not done."""
    named = reader.text(pointer)
    if pointer is None or not named:
        return f"{name} beside it, which {writer} writes last"
    wanted = number_of(named)
    step = number_of(folder.name)
    if folder.name == named or (name == MEGATRON_POINTER and named.isdigit() and _iteration(folder.name) == wanted):
        newest = folder.modified_ns
        return (
            f"{name} is older than its files: it is being written again"
            if newest > pointer.modified_ns + SKEW_NS
            else ""
        )
    if step is not None and (wanted is None or step > wanted):
        return f"{name} still names {named}"
    if folder.modified_ns > pointer.modified_ns:
        return f"{name} names {named} and is older than its files"
    return ""


def _like_the_named(folder: Folder, parent: Folder, named: str, parts: Callable[[Folder], _Parts]) -> str:
    """Compare a folder with the one that a pointer file names, which is known to be finished.

    One that was partly written again, before its job was killed, has files of two saves: of both sides of another
    save, or much further apart than those of a finished one.
    """
    reference = parent.folders.get(named)
    if reference is folder:
        return ""
    if reference is None:
        return f"proof: {named}, which is finished for sure, is not there to be compared with"
    own, whole = parts(folder), parts(reference)
    lacks = sorted(whole.keys() - own.keys())
    if lacks:
        return f"{lacks[0]} and {len(lacks) - 1} more that {named} has"
    more = sorted(own.keys() - whole.keys())
    if more:
        return f"proof: {named} does not have {more[0]}, so nothing tells how many there are"
    first, last = _span(own)
    for name, other in parent.folders.items():
        there = parts(other) if other is not folder else {}
        if there and first < _span(there)[1] < last:
            return f"files of one save: some are older and some newer than {name}"
    usual = _span(whole)
    if last - first > 10 * (usual[1] - usual[0]) + _APART_NS:
        return f"files of one save: they were written {(last - first) / 1e9:.0f} s apart"
    return ""


def _span(parts: _Parts) -> tuple[int, int]:
    times = [each.modified_ns for each in parts.values()]
    return min(times), max(times)


def _states(folder: Folder) -> _Parts:
    return {name: each for name, each in folder.files.items() if name.endswith("_states.pt")}


def _rank_files(folder: Folder) -> _Parts:
    return {
        f"{name}/{file}": each
        for name, inner in folder.folders.items()
        if _MEGATRON_RANK.match(name)
        for file, each in inner.files.items()
    }


def _iteration(name: str) -> int | None:
    found = _ITERATION.match(name)
    return int(found.group(1)) if found else None


def _written_after(last: FileEntry, others: Iterable[FileEntry], name: str) -> str:
    limit = last.modified_ns + SKEW_NS
    newer = next((each for each in others if each.modified_ns > limit), None)
    if newer is None:
        return ""
    return (
        f"a {name} newer than {newer.path.rpartition('/')[2]}: it is being written again, or was copied "
        f"(where it was, `touch {name}`)"
    )


def _size(folder: Folder, name: str) -> int:
    entry = folder.files.get(name)
    return entry.size if entry else 0


def _gap(numbers: Iterable[int]) -> int | None:
    """Return the first number from 0 on that lacks below the highest; None where none does."""
    there = set(numbers)
    return next((each for each in range(max(there, default=-1)) if each not in there), None)
