"""Stacks with a dashboard and alarms of everything, of one tier, and of what somebody else made."""

from __future__ import annotations

from functools import cache
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

from training_storage.monitoring import Expected, StorageAlarms, StorageDashboard

ENV = cdk.Environment(account="111111111111", region="us-east-1")
FILE_SYSTEM = "fs-0123456789abcdef0"
EXPECTED = Expected(
    instance_count=8,
    read_mb_per_s=4000,
    node_read_mb_per_s=500,
    node_limit_mb_per_s=12_000,
    supply_mb_per_s=6000,
    write_mb_per_s=3000,
    file_opens_per_s=2000,
    file_opens_limit_per_s=10_000,
    data_wait_percent=7,
    checkpoint_save_s=40,
    max_write_s=60,
    max_restore_s=300,
    asynchronous=False,
    storage_usd_per_hour=10,
    gpu_usd_per_hour=500,
    import_events=True,
    export_events=True,
    storage_capacity_gib=4800,
    warn_when_free_below=0.1,
)
WHOLE: dict[str, Any] = {
    "workload": "run",
    "file_system_id": FILE_SYSTEM,
    "bucket_name": "lake",
    "bucket_filter_ids": ("datasets", "checkpoints"),
    "s3_file_system_id": "fs-files",
    "expected": EXPECTED,
}


def alarms_of(**options: Any) -> dict[str, Any]:
    """Return the template of a stack with alarms alone."""
    stack = cdk.Stack(_app(), "Stack", env=ENV)
    StorageAlarms(stack, "Alarms", name="run", **options)
    return dict(Template.from_stack(stack).to_json())


@cache
def whole() -> dict[str, Any]:
    """Return the template of a stack with everything."""
    stack = cdk.Stack(_app(), "Stack", env=ENV)
    alarms = StorageAlarms(stack, "Alarms", name="run", links=True, **WHOLE)
    StorageDashboard(
        stack,
        "Dashboard",
        dashboard_name="run-storage",
        auto_scaling_group_name="fleet",
        planned_throughput_mb_per_s=6000,
        directory_bucket_names=["hot--use1-az6--x-s3", "warm--use1-az6--x-s3"],
        directory_filter_id="all",
        alarms=alarms,
        **WHOLE,
    )
    return dict(Template.from_stack(stack).to_json())


def dashboard_of(**options: Any) -> dict[str, Any]:
    """Return the template of a stack with a dashboard alone."""
    stack = cdk.Stack(_app(), "Stack", env=ENV)
    StorageDashboard(stack, "Dashboard", dashboard_name="mine", **options)
    return dict(Template.from_stack(stack).to_json())


def _app() -> cdk.App:
    return cdk.App(analytics_reporting=False, builtin_cloud_formation_validation=False)
