"""The limit of the reads in flight, worked out by hand from the published latencies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit._planner import planned
from training_storage.planner import Plan

PART_MB = 8.388608
LOADER = {"workers_per_accelerator": 2, "prefetch": 2}
SMALL = {"samples": {"size": "110 KB", "per_second_per_accelerator": 100}}
BASE: dict[str, Any] = {"dataset.loader": LOADER, "dataset.file_count": None}
"""32 accelerators (4 p5.48xlarge) x 2 workers x 2 reads: 128 in flight."""
IN_FLIGHT = 128

HDD = {
    "hot_tier": "lustre",
    "lustre": {
        "deployment_type": "PERSISTENT_1",
        "storage_type": "HDD",
        "per_unit_storage_throughput": 40,
        "storage_capacity": "36000 GiB",
        "links": [],
    },
}
TIERING = {"hot_tier": "lustre", "lustre": {"storage_type": "INTELLIGENT_TIERING", "links": []}}


def latency(made: Plan) -> tuple[float, str] | None:
    return next(((each.mb_per_s, each.because) for each in made.prediction.limits if each.name == "latency"), None)


@pytest.mark.parametrize(
    ("changes", "unit_mb", "read_s"),
    [
        # S3 through Mountpoint: found by a request, then read; 110 KB at 85 MB/s.
        ({"hot_tier": "none", "dataset.read_rate": SMALL}, 0.11, 0.2 + 0.2 + 0.11 / 85),
        # Object code asks at once.
        ({"hot_tier": "none", "dataset.interface": "object", "dataset.read_rate": SMALL}, 0.11, 0.2 + 0.11 / 85),
        ({"hot_tier": "express", "dataset.interface": "object", "dataset.read_rate": SMALL}, 0.11, 0.01),
        ({"hot_tier": "express", "dataset.read_rate": SMALL}, 0.11, 0.01 + 0.01),
        # A small file on Lustre pays the open and the first byte.
        ({"hot_tier": "lustre", "dataset.read_rate": SMALL}, 0.11, 0.001 + 0.001),
        ({**HDD, "dataset.read_rate": SMALL}, 0.11, 0.01 + 0.001),
        ({**TIERING, "dataset.read_rate": SMALL}, 0.11, 0.1 + 0.001),
        # S3 Files keeps files under 128 KiB; larger ones come from S3.
        ({"hot_tier": "none", "file_access": "s3-files", "dataset.read_rate": SMALL}, 0.11, 0.001 + 0.001),
        (
            {
                "hot_tier": "none",
                "file_access": "s3-files",
                "dataset.read_rate": {"samples": {"size": "128 KiB", "per_second_per_accelerator": 100}},
            },
            0.131072,
            0.2 + 0.001 + 0.131072 / 85,
        ),
        # A thousand samples a file: one open in a thousand reads.
        (
            {"hot_tier": "lustre", "dataset.read_rate": {"samples": {**SMALL["samples"], "per_file": 1000}}},
            0.11,
            0.001 + 0.001 / 1000,
        ),
        # The sample of a reference workload (unet3d) in parts of 8 MiB, an open in each 17.5 of them.
        (
            {
                "hot_tier": "none",
                "dataset.read_rate": {"reference": "unet3d"},
                "dataset.average_file_size": "146600628 B",
            },
            PART_MB,
            0.2 + 0.2 * PART_MB / 146.600628 + PART_MB / 85,
        ),
        # Samples are not known: files of 1 MB, each read with an open.
        (
            {
                "hot_tier": "lustre",
                "dataset.read_rate": {"per_accelerator": "10 MB/s"},
                "dataset.average_file_size": "1 MB",
            },
            1.0,
            0.001 + 0.001,
        ),
        # Files are smaller than samples.
        (
            {
                "hot_tier": "lustre",
                "dataset.read_rate": {"reference": "unet3d"},
                "dataset.average_file_size": "2 MB",
            },
            2.0,
            0.001 + 0.001,
        ),
        # Neither is known: one part, and opens are left out.
        ({"hot_tier": "lustre", "dataset.read_rate": {"per_accelerator": "10 MB/s"}}, PART_MB, 0.001),
        # Reads are not known at all: the loader says what it can bring all the same.
        ({"hot_tier": "none", "dataset.read_rate": None}, PART_MB, 0.2 + PART_MB / 85),
    ],
)
def test_reads_in_flight_by_their_size_over_the_time_of_one(
    changes: dict[str, Any], unit_mb: float, read_s: float
) -> None:
    found = latency(planned({**BASE, **changes}))
    assert found is not None
    assert found[0] == pytest.approx(IN_FLIGHT * unit_mb / read_s)
    assert found[1].startswith("128 reads in flight x ")


def test_without_a_loader_latency_is_no_limit_and_nothing_is_said() -> None:
    made = planned({"hot_tier": "none", "dataset.read_rate": SMALL, "dataset.file_count": None})
    assert latency(made) is None
    assert not any("in flight" in line for line in made.assumptions)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"hot_tier": "none", "dataset.read_rate": SMALL},
            "one read on S3 brings 0.11 MB in 0.401 s (first byte 0.2 s, published as 0.1 s to 0.2 s; open 0.2 s, "
            "published as 0.1 s to 0.2 s, for each read; then 85 MB/s a request)",
        ),
        (
            {"hot_tier": "lustre", "dataset.read_rate": SMALL},
            "(first byte 0.001 s, published as less; open 0.001 s, published as less, for each read; no rate of one "
            "stream is published, so that the bytes after the first take no time)",
        ),
        (
            {"hot_tier": "lustre", "dataset.read_rate": {"per_accelerator": "1 MB/s"}},
            "opens are not known and not counted",
        ),
        ({"hot_tier": "none", "dataset.read_rate": SMALL}, "read-ahead and caches on the nodes are not counted"),
        ({"hot_tier": "express", "dataset.interface": "object", "dataset.read_rate": SMALL}, "one read on S3 Express "),
    ],
)
def test_what_the_figures_rest_on_is_said(changes: dict[str, Any], words: str) -> None:
    (line,) = [line for line in planned({**BASE, **changes}).assumptions if line.startswith("one read on ")]
    assert words in line


def test_latency_waits_count_like_any_other() -> None:
    # 128 x 0.11 MB / 0.401294 s are 35.09 MB/s of 32 x 100 x 0.11 MB.
    made = planned({**BASE, "hot_tier": "none", "dataset.read_rate": SMALL})
    assert made.prediction.binds == "latency"
    assert made.prediction.data_wait_fraction == pytest.approx(1 - 35.0865 / 352, rel=1e-5)


def test_latency_does_not_slow_saves_and_restores() -> None:
    changes = {
        "hot_tier": "lustre",
        "checkpoints": {"size": "40 GiB"},
        "dataset.read_rate": SMALL,
        "dataset.file_count": None,
    }
    with_loader = planned({**changes, "dataset.loader": LOADER}).prediction
    without = planned(changes).prediction
    assert (with_loader.checkpoint_write_s, with_loader.restore_s) == (without.checkpoint_write_s, without.restore_s)


def test_latency_of_s3_does_not_decide_the_tier() -> None:
    changes: dict[str, Any] = {
        **BASE,
        "dataset.read_rate": {"samples": {"size": "110 KB", "per_second_per_accelerator": 50}},
        "dataset.loader": {"workers_per_accelerator": 1, "prefetch": 1},
    }
    made = planned(changes)
    assert made.tiers.hot == "none"
    assert made.prediction.binds == "latency"
    assert planned({**changes, "dataset.loader": None}).tiers == made.tiers
