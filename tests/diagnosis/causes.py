"""Causes that are planted, each in two strengths, and anomalies beside them that are none."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from tests.diagnosis.world import World
from training_storage.operations.diagnosis.observation import Observation

_LINK = {
    "id": "dra-1", "path": "/datasets", "source": "s3://llama-lake/datasets/", "bucket": "llama-lake",
    "lifecycle": "MISCONFIGURED", "import": [], "export": [], "message": "access to the bucket is denied",
}  # fmt: skip
_S3 = {"hot": "none", "latency_ms": 20.0, "requests": 64.0, "request_mb": 8.0, "efa_planned": False}

Changes = dict[str, Any]

CAUSES: dict[str, tuple[str, Changes, Changes]] = {
    # name: verdict, mild, strong. At 250 MB/s a rank, 6 nodes of 2 ranks want 3,000 MB/s, a node 500.
    "file system at its limit": (
        "storage-throughput",
        {"server_limit": 3000 * 0.90 / 8},
        {"server_limit": 3000 * 0.55 / 8},
    ),
    "node at its limit": (
        "storage-throughput",
        {"node_limit": 500 * 0.90, "efa_planned": False},
        {"node_limit": 500 * 0.55, "efa_planned": False},
    ),
    "s3 of one instance": (
        "storage-throughput",
        {**_S3, "node_limit": 500 * 0.90},
        {**_S3, "node_limit": 500 * 0.55},
    ),
    "express of one instance": (
        "storage-throughput",
        {**_S3, "hot": "express", "file_access": "none", "node_limit": 500 * 0.90, "latency_ms": 5.0},
        {**_S3, "hot": "express", "file_access": "none", "node_limit": 500 * 0.50, "latency_ms": 5.0},
    ),
    "busy CPUs": ("preprocessing", {"cpu_limit": 500 * 0.90}, {"cpu_limit": 500 * 0.55}),
    "few workers": ("preprocessing", {"loader_limit": 250 * 0.90}, {"loader_limit": 250 * 0.55}),
    "slow saves": ("checkpoint-write-path", {"save_rate": 4000.0}, {"save_rate": 1200.0}),
    "small files": (
        "small-files",
        {"file_mb": 0.1, "open_limit": 30_000 * 0.90},
        {"file_mb": 0.1, "open_limit": 30_000 * 0.55},
    ),
    "hot target": (
        "hot-storage-target",
        {"hot_target": 0.25, "server_limit": 970.0},
        {"hot_target": 0.60, "server_limit": 970.0},
    ),
    "tcp": (
        "tcp-instead-of-efa",
        {"efa_share": 0.0, "servers": 2, "server_limit": 12_000.0, "demand": 1250 / 0.90 / 2, "cpu_limit": 5000.0},
        {"efa_share": 0.0, "servers": 2, "server_limit": 12_000.0, "demand": 1250 / 0.50 / 2, "cpu_limit": 9000.0},
    ),
    "slow node": ("slow-node", {"slow_node": 3, "slow_factor": 0.88}, {"slow_node": 3, "slow_factor": 0.5}),
    "slow rank": ("slow-rank", {"slow_rank": 5, "slow_factor": 0.88}, {"slow_rank": 5, "slow_factor": 0.5}),
    "page cache": (
        "page-cache-only",
        {"no_training": True, "application_factor": 8.0, "demand": 20.0},
        {"no_training": True, "application_factor": 200.0, "demand": 20.0},
    ),
    "no notification": (
        "auto-import-without-notification",
        {"notified": False},
        {"notified": False, "export_age_s": 600.0},
    ),
    "throttled prefix": (
        "s3-throttled-prefix",
        {**_S3, "file_mb": 0.5, "throttled": 0.03, "node_limit": 2000.0},
        {**_S3, "file_mb": 0.3, "throttled": 0.2, "node_limit": 2000.0},
    ),
    "first epoch": (
        "first-epoch-lazy-loading",
        {"epoch_periods": 4, "lazy_limit": 3000 * 0.88},
        {"epoch_periods": 6, "lazy_limit": 3000 * 0.5},
    ),
    "first epoch, still": (
        "first-epoch-lazy-loading",
        {"epoch_periods": 12, "lazy_limit": 3000 * 0.88},
        {"epoch_periods": 12, "lazy_limit": 3000 * 0.5},
    ),
    "export queue": (
        "export-queue-stuck",
        {"export_age_s": 4000.0, "export_grows": True},
        {"export_age_s": 90_000.0, "export_grows": True},
    ),
    "import queue": ("import-queue-stuck", {"import_age_s": 4000.0}, {"import_age_s": 200_000.0}),
    "link": (
        "link-misconfigured",
        {"associations": (_LINK,)},
        {"associations": (_LINK,), "export_age_s": 9000.0, "export_grows": True},
    ),
    "full": ("file-system-full", {"free": 0.04, "fullest": 0.04}, {"free": 0.005, "fullest": 0.004}),
    "full target": ("storage-target-full", {"fullest": 0.03}, {"fullest": 0.002}),
    "slow restore": ("restore-slow", {"restore_s": 50.0}, {"restore_s": 59.0, "free": 0.2, "fullest": 0.2}),
    "missing mounts": ("mounts-missing", {"missing_mounts": 1}, {"missing_mounts": 3}),
    "slow requests": (
        "read-latency",
        {"latency_ms": 36.0, "requests": 8.2},
        {"latency_ms": 90.0, "requests": 12.0},
    ),
    "slow requests of s3": (
        "read-latency",
        {**_S3, "latency_ms": 250.0, "request_mb": 1.0, "requests": 56.0},
        {**_S3, "latency_ms": 600.0, "request_mb": 1.0, "requests": 80.0},
    ),
    "slow GPUs of one node": (
        "slow-node",
        {"slow_node": 2, "slow_compute": 1.15, "in_step": False},
        {"slow_node": 2, "slow_compute": 1.6, "in_step": False},
    ),
}

HEALTHY: dict[str, Changes] = {
    "compute-bound": {},
    "compute-bound on S3": dict(_S3),
    "compute-bound, page cache": {"application_factor": 30.0, "demand": 10.0},
    "saves beside training": {"asynchronous": True, "save_rate": 3000.0},
    "saves as planned": {"save_rate": 6000.0, "save_every": 8},
    "a slow GPU that all wait for": {"slow_node": 1, "slow_compute": 1.08},
}

DISTRACTORS: dict[str, Changes] = {
    # Mild, and not why anything waits.
    "saves a little slower": {"save_rate": 5500.0, "save_every": 8},
    "some room left": {"free": 0.15, "fullest": 0.1},
    "some queue": {"export_age_s": 900.0},
    "page cache answers half": {"application_factor": 2.0},
    "some TCP": {"efa_share": 0.8},
    "some 503": {"throttled": 0.004},
    "restored as planned": {"restore_s": 32.0},
    "other noise": {"seed": 7},
}


@cache
def observed(name: str, strength: str) -> Observation:
    """What is seen of a planted cause, ``weak`` or ``strong``; made once."""
    _, weak, strong = CAUSES[name]
    return replace(World(), **(strong if strength == "strong" else weak)).observation()
