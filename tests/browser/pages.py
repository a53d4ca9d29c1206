"""Plans whose reports are opened: each tier, what is there already, no prices, and names as long as they get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from training_storage.planner import Plan, plan
from training_storage.units import Duration
from training_storage.workload import load_workload
from training_storage.workload.model import Workload

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

LONG: dict[str, Any] = {
    "name": "a-workload-with-the-longest-name-allowed",
    "region": "ap-southeast-1",
    "availability_zone_id": "apse1-az2",
    "network": {"vpc_id": "vpc-0123456789abcdef0", "subnet_id": "subnet-0123456789abcdef0"},
    "compute": {
        "instance_type": "p9-a-type-nobody-knows.248xlarge",
        "instance_count": 300,
        "purchase": "reservation",
        "capacity_reservation_id": "cr-0123456789abcdef0",
        "type_facts": {
            "accelerators": 16,
            "network_cards": 32,
            "efa_interfaces": 32,
            "primary_card_has_efa": True,
            "network_gbps": 6400,
            "architecture": "arm64",
            "fsx_efa_client": True,
        },
    },
    "dataset": {
        "size": "900 TB",
        "file_count": 2_000_000_000,
        "read_rate": {"per_accelerator": "186 MB/s"},
        "loader": {"workers_per_accelerator": 1, "prefetch": 1},
        "source": f"s3://{'bucket-of-another-team-' * 2}{'x' * 17}/{'a-deep/' * 20}",
    },
    "checkpoints": {"parameters": 9.87654321e12, "interval": "17m", "max_write_time": "3s"},
    "lustre": {
        "links": [
            {"path": f"/{'directory-of-a-link-' * 2}{number}", "source": f"s3://{'b' * 60}{number}/{'prefix-' * 20}/"}
            for number in range(8)
        ]
    },
}
"""Everything that a page can be asked to break: the longest name, bucket and prefixes, eight links, no prices."""

SHORT: dict[str, Any] = {
    "name": "short",
    "region": "us-east-1",
    "availability_zone_id": "use1-az6",
    "compute": {"instance_type": "p5.48xlarge", "instance_count": 4},
    "dataset": {
        "size": "2 TB",
        "file_count": 2000,
        "read_rate": {"per_accelerator": "400 MB/s"},
        "source": "s3://a-bucket-of-these-tests/\u202eturned\u2066/עברית/中文/",
    },
    "checkpoints": {"size": "4 TiB", "interval": "30m", "asynchronous": True},
    "hot_tier": "lustre",
    "lustre": {"storage_capacity": "4800 GiB"},
}
"""A file system that is far too small: accelerators wait, warnings name long keys, a source that no one letter fits."""

SWEEPS = {"short": ("dataset.file_count", "1,1000,1000000,1000000000000")}
"""Sweeps in place of the one over instances: labels as wide as they get."""

NAMES = {
    "lustre": "llama3-70b",
    "none": "lora-finetune",
    "express": "object-native-2048",
    "existing": "existing-everything",
    "unpriced": "china-finetune",
    "long": None,
    "short": None,
}
"""Example behind each plan; None for those above."""


def plan_of(name: str) -> Plan:
    """Return one of the plans.

    Args:
        name: One of ``NAMES``.
    """
    example = NAMES[name]
    workload = (
        Workload.model_validate({"long": LONG, "short": SHORT}[name])
        if example is None
        else load_workload(EXAMPLES / f"{example}.yaml")
    )
    return plan(workload, run_length=Duration(14 * 86_400))


def page_of(name: str) -> str:
    """Return the whole report of one of the plans.

    Args:
        name: One of ``NAMES``.
    """
    from training_storage.report import render_report
    from training_storage.simulation import simulate
    from training_storage.whatif import default_sweep, steps, sweep

    made = plan_of(name)
    found = (
        sweep(made.workload, *SWEEPS[name], catalog=made.catalog)
        if name in SWEEPS
        else default_sweep(made.workload, catalog=made.catalog, run_length=Duration(14 * 86_400))
    )
    return render_report(made, steps=steps(made), sweep=found, simulation=simulate(made))
