"""Where things of ours lie in the data lake: every key under ``.training-storage/`` is named here and nowhere else.

The modules of this room run on training nodes with the Python of the image (3.9 or newer), in Lambda, and in the
command line. They import each other relatively, because the room is shipped as a package of its own.
"""

from __future__ import annotations

ROOT = ".training-storage/"
"""Everything below it is ours; no data set, checkpoint or log of the user's."""

RECORDS = ROOT + "checkpoints/records/"
"""One object a promoted and verified checkpoint, written once: the append-only manifest of promotions."""

LEDGERS = ROOT + "checkpoints/ledgers/"
"""One object a series of checkpoints: the numbers that were given, and what is being pruned. Replaced on condition."""

LEASES = ROOT + "checkpoints/leases/"
"""One object a hot tier without a shared file system: who runs the agent, until when."""

ORDERS = ROOT + "checkpoints/orders/"
"""Checkpoints on local disks of several nodes: what every node has to upload, and the receipts of those that have."""

PARTS = ROOT + "checkpoints/parts/"
"""One object a node whose disk holds a part of checkpoints: which files, and when it looked last."""

PRUNING = ROOT + "checkpoints/pruning/"
"""What is being removed from directory buckets, object by object: an interrupted removal is ended by this list only."""

STATUS = ROOT + "checkpoints/status/"
"""One object a hot tier: what the last run of the agent saw, also what is not in S3 yet. The release guard names it."""

ANSWERS = ROOT + "answers/"
"""Answers and progress of commands that run on nodes, by command."""

CALLS = ANSWERS + "calls/"
"""One object a kind of command: which one is running, so that whoever asks for the same joins it."""

PRELOADS = ROOT + "preload/"
"""Lists of paths to load, by the hash of their content, and whether a preload has started the storage node."""

LISTS = PRELOADS + "lists/"
"""Lists of paths to load; put there again by each preload that is asked for."""

RELEASES = ROOT + "release/"
"""One folder a hot tier: survey, manifest, and the proof without which it is not deleted."""

REPORTS = "checkpoints/.training-storage/"
"""Failure reports of export tasks: FSx wants them inside a linked prefix. Nothing below it is a checkpoint."""

HIDDEN = ".training-storage"
"""Name of our own files and folders on a hot tier; never counted, promoted or pruned."""


def hot_tier_folder(prefix: str, hot_tier_id: str) -> str:
    """Return the folder of one hot tier below a prefix of this module.

    Args:
        prefix: Such as ``RELEASES``.
        hot_tier_id: ``fs-...``; the workload's name where the tier is a set of directory buckets or local disks.
    """
    return f"{prefix}{hot_tier_id}/"


def survey_key(hot_tier_id: str) -> str:
    """Return the key of the last survey of a hot tier."""
    return hot_tier_folder(RELEASES, hot_tier_id) + "survey.json"


def manifest_key(hot_tier_id: str) -> str:
    """Return the key of the index of the last manifest of a hot tier."""
    return hot_tier_folder(RELEASES, hot_tier_id) + "manifest.json"


def manifest_part_key(hot_tier_id: str, run: str, number: int) -> str:
    """Return the key of one part of a manifest; ``run`` tells manifests apart, so that no part is overwritten."""
    return f"{hot_tier_folder(RELEASES, hot_tier_id)}manifest/{run}/{number:06d}.jsonl"


def proof_key(hot_tier_id: str) -> str:
    """Return the key of the proof, or of the override, that lets a hot tier go."""
    return hot_tier_folder(RELEASES, hot_tier_id) + "proof.json"


def list_key(digest: str) -> str:
    """Return the key of a list of paths to load."""
    return f"{LISTS}{digest}.txt"


def storage_node_key() -> str:
    """Return the key of the note that a preload has started the storage node, and has to stop it."""
    return PRELOADS + "storage-node.json"


def status_key(hot_tier_id: str) -> str:
    """Return the key of the agent's last status of a hot tier."""
    return STATUS + hot_tier_id + ".json"
