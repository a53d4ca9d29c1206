"""Checkpoints as training jobs write them, and a tree in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from training_storage.node.checkpoints.layouts import find_checkpoints
from training_storage.node.checkpoints.model import Checkpoint, FileEntry

NOW = 1_750_000_000_000_000_000
SECOND = 1_000_000_000
DAY = 86_400 * SECOND


class MemoryTree:
    """Files by path: content and time of the last change."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[bytes, int]] = {}
        self.version = 0

    def write(self, at: int, files: Mapping[str, bytes | str]) -> MemoryTree:
        self.version += 1
        for path, content in files.items():
            self.held[path] = (content.encode() if isinstance(content, str) else content, at)
        return self

    def files(self, under: str = "") -> Iterator[FileEntry]:
        for path, (content, at) in list(self.held.items()):
            if not under or path.startswith(under + "/"):
                yield FileEntry(path, len(content), at)

    def read(self, path: str, limit: int = 1 << 20) -> bytes:
        if path not in self.held:
            raise FileNotFoundError(path)
        return self.held[path][0][:limit]

    def remove(self, path: str) -> None:
        self.version += 1
        self.held.pop(path, None)


def only(tree: MemoryTree) -> Checkpoint:
    (found,) = find_checkpoints(tree)
    return found


def dcp(folder: str, ranks: int = 4) -> dict[str, bytes | str]:
    """Files of a PyTorch checkpoint, in the order in which they are written."""
    return {**{f"{folder}/__{rank}_0.distcp": b"shard" for rank in range(ranks)}, f"{folder}/.metadata": b"pickle"}


def zero(folder: str, ranks: int = 2, stage: int = 2) -> dict[str, bytes | str]:
    """Files of a DeepSpeed checkpoint, without ``latest``."""
    models = (
        {f"{folder}/mp_rank_00_model_states.pt": b"model"}
        if stage < 3
        else {f"{folder}/zero_pp_rank_{rank}_mp_rank_00_model_states.pt": b"model" for rank in range(ranks)}
    )
    return {
        **models,
        **{f"{folder}/bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt": b"optimizer" for rank in range(ranks)},
    }


def trainer(folder: str, step: int, **metrics: float) -> dict[str, bytes | str]:
    """Files of a Hugging Face Trainer checkpoint."""
    state = {"global_step": step, "log_history": [{"loss": 9.0, "step": 1}, {**metrics, "step": step}]}
    return {
        f"{folder}/config.json": "{}",
        f"{folder}/model.safetensors": b"weights",
        f"{folder}/optimizer.pt": b"optimizer",
        f"{folder}/rng_state.pth": b"rng",
        f"{folder}/trainer_state.json": json.dumps(state),
    }


def legacy(folder: str, ranks: int = 2) -> dict[str, bytes | str]:
    """Files of an older Megatron checkpoint, without the pointer file."""
    return {f"{folder}/mp_rank_{rank:02d}/model_optim_rng.pt": b"all" for rank in range(ranks)}


def dist(folder: str) -> dict[str, bytes | str]:
    """Files of a distributed Megatron checkpoint; the rank without data wrote no shard."""
    return {
        f"{folder}/common.pt": b"common",
        f"{folder}/__0_0.distcp": b"shard",
        f"{folder}/__2_0.distcp": b"shard",
        f"{folder}/.metadata": b"pickle",
        f"{folder}/metadata.json": '{"sharded_backend": "torch_dist"}',
    }
