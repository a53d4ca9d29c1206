"""Keys about how a hot tier comes and goes: what is read, what is refused, and what becomes of the file system."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from training_storage.errors import WorkloadError
from training_storage.planner import plan
from training_storage.units import Duration
from training_storage.workload import Workload, parse_workload, workload_from_dict

BASE: dict[str, Any] = {
    "name": "small",
    "region": "us-east-1",
    "availability_zone_id": "use1-az6",
    "compute": {"instance_type": "p5.48xlarge", "instance_count": 4},
    "dataset": {"size": "1 TB", "read_rate": {"per_accelerator": "1 MB/s"}, "average_file_size": "1 GB"},
}
CHECKPOINTS = {"size": "10 GB"}
LINK = {"path": "/shards", "source": "s3://some-bucket/shards/"}
EXISTING = {
    "file_system_id": "fs-0123456789abcdef0",
    "mount_name": "fsx",
    "security_group_id": "sg-0123456789abcdef0",
    "efa": False,
    "storage_capacity": "4800 GiB",
    "per_unit_storage_throughput": 250,
}


def read(**sections: Any) -> Workload:
    return workload_from_dict(BASE | sections)


def problems(**sections: Any) -> list[tuple[str, str]]:
    with pytest.raises(WorkloadError) as caught:
        read(**sections)
    return [(each.path, each.what) for each in caught.value.problems]


def test_every_key_is_read() -> None:
    workload = parse_workload(
        """\
name: small
region: us-east-1
availability_zone_id: use1-az6
compute: {instance_type: p5.48xlarge, instance_count: 4}
dataset: {size: 1 TB}
checkpoints: {size: 10 GB, best: {metric: eval/loss, goal: min}, incomplete_expire_after: 2h}
data_lake: {checkpoints_to_infrequent_access_after: 60d, checkpoints_expire_after: 60d}
lifecycle:
  guard: false
  release_data_after: 7d
  warn_when_free_below: 0.2
  release_data_when_free_below: 0.15
  release_when_idle_for: 12h
  preload_at: 2026-12-01T11:30:00Z
  preload_paths: [/datasets/v3, /checkpoints]
"""
    )
    life, saves = workload.lifecycle, workload.checkpoints
    assert (life.guard, life.warn_when_free_below, life.release_data_when_free_below) == (False, 0.2, 0.15)
    assert (life.release_data_after, life.release_when_idle_for) == (Duration(7 * 86400), Duration(12 * 3600))
    assert life.preload_at == datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
    assert life.preload_paths == ("/datasets/v3", "/checkpoints")
    assert saves is not None
    assert saves.best is not None
    assert (saves.best.metric, saves.best.goal) == ("eval/loss", "min")
    assert saves.incomplete_expire_after == Duration(7200)
    assert workload.data_lake.checkpoints_expire_after == Duration(60 * 86400)


def test_everything_wrong_is_said_at_once() -> None:
    found = problems(
        checkpoints=CHECKPOINTS | {"best": {"goal": "least"}, "incomplete_expire_after": "5m"},
        data_lake={"checkpoints_expire_after": "36h"},
        lifecycle={
            "gard": True,
            "release_data_after": "12h",
            "warn_when_free_below": 1,
            "release_data_when_free_below": 0,
            "release_when_idle_for": "90m",
            "preload_at": "2026-12-01T11:30:00",
            "preload_paths": ["datasets"],
        },
    )
    assert [path for path, _ in found] == [
        "checkpoints.best.goal",
        "checkpoints.best.metric",
        "checkpoints.incomplete_expire_after",
        "data_lake.checkpoints_expire_after",
        "lifecycle.gard",
        "lifecycle.release_data_after",
        "lifecycle.warn_when_free_below",
        "lifecycle.release_data_when_free_below",
        "lifecycle.release_when_idle_for",
        "lifecycle.preload_at",
        "lifecycle.preload_paths[0]",
    ]


@pytest.mark.parametrize("best", [{"metric": "eval_loss"}, {"goal": "min"}])
def test_the_best_needs_a_metric_and_a_goal(best: dict[str, str]) -> None:
    ((path, what),) = problems(checkpoints=CHECKPOINTS | {"best": best})
    assert path.startswith("checkpoints.best.")
    assert what == "is missing"


def test_a_save_that_may_take_hours_is_not_taken_for_a_broken_one() -> None:
    saves = CHECKPOINTS | {"max_write_time": "20m"}
    assert problems(checkpoints=saves | {"incomplete_expire_after": "11m"}) == [
        ("checkpoints.incomplete_expire_after", "is less than the 20 min that one save may take")
    ]
    slow = read(checkpoints=CHECKPOINTS | {"max_write_time": "2d"}).checkpoints
    assert slow is not None
    assert slow.unfinished_after == Duration(2 * 86400)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"checkpoints_expire_after": "29d"}, True),
        ({"checkpoints_expire_after": "30d"}, False),
        ({"checkpoints_expire_after": "59d", "checkpoints_to_infrequent_access_after": "60d"}, True),
        ({"checkpoints_expire_after": "60d", "checkpoints_to_infrequent_access_after": "60d"}, False),
    ],
)
def test_checkpoints_do_not_go_before_they_move(given: dict[str, str], wrong: bool) -> None:
    if wrong:
        ((path, what),) = problems(data_lake=given)
        assert path == "data_lake.checkpoints_expire_after"
        assert "infrequent access" in what
    else:
        assert read(data_lake=given).data_lake.checkpoints_expire_after is not None


def test_paths_need_a_time() -> None:
    assert problems(lifecycle={"preload_paths": ["/datasets"]}) == [
        ("lifecycle.preload_paths", "are paths of a preload that has no time")
    ]
    assert problems(lifecycle={"preload_at": "2026-12-01T11:30:00Z", "preload_paths": []}) == [
        ("lifecycle.preload_paths", "names nothing to load")
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("release_data_after", "7d"),
        ("release_data_when_free_below", 0.2),
        ("preload_at", "2026-12-01T11:30:00Z"),
    ],
)
def test_what_needs_links_is_refused_without(key: str, value: object) -> None:
    assert problems(lustre={"links": []}, lifecycle={key: value}) == [
        (f"lifecycle.{key}", "needs a link to S3, and lustre.links is empty")
    ]
    # Links that are there already are not looked up.
    assert getattr(read(lustre=EXISTING, lifecycle={key: value}).lifecycle, key) is not None


@pytest.mark.parametrize("path", ["/shards", "/shards/", "/shards/v3", "/"])
def test_a_preload_of_what_is_linked_is_taken(path: str) -> None:
    life = {"preload_at": "2026-12-01T11:30:00Z", "preload_paths": [path]}
    assert read(lustre={"links": [LINK]}, lifecycle=life).lifecycle.preload_paths == (path,)


def test_a_preload_of_what_no_link_holds_is_refused() -> None:
    when = {"preload_at": "2026-12-01T11:30:00Z"}
    what = "holds no linked directory and lies in none: there is nothing to load"
    assert problems(lustre={"links": [LINK]}, lifecycle=when | {"preload_paths": ["/shards", "/shards2"]}) == [
        ("lifecycle.preload_paths[1]", what)
    ]
    assert problems(lustre={"links": [LINK]}, lifecycle=when) == [("lifecycle.preload_at", what)]


@pytest.mark.parametrize(
    ("lustre", "guard", "removal", "guarded"),
    [
        ({}, None, "delete", True),
        ({}, True, "delete", True),
        ({}, False, "retain", False),
        ({"removal": "delete"}, None, "delete", True),
        ({"removal": "delete"}, False, "delete", False),
        ({"removal": "retain"}, None, "retain", False),
        ({"removal": "retain"}, True, "retain", False),
        (EXISTING, None, "retain", False),
        (EXISTING, True, "retain", False),
    ],
)
def test_the_file_system_goes_with_its_stack_where_a_guard_stands_in_front(
    lustre: dict[str, Any], guard: bool | None, removal: str, guarded: bool
) -> None:
    workload = read(lustre=lustre, **({} if guard is None else {"lifecycle": {"guard": guard}}))
    assert (workload.file_system_removal, workload.has_guard) == (removal, guarded)


@pytest.mark.parametrize(
    ("tier", "life", "named"),
    [
        ("lustre", {"release_data_after": "7d", "release_when_idle_for": "1h"}, None),
        ("none", {"guard": True}, None),
        (
            "none",
            {"release_when_idle_for": "1h"},
            "lifecycle.release_when_idle_for has no effect: there is no hot tier",
        ),
        (
            "express",
            {"release_when_idle_for": "1h", "release_data_after": "7d", "warn_when_free_below": 0.2},
            "lifecycle.release_data_after and lifecycle.warn_when_free_below have no effect: there is no Lustre",
        ),
    ],
)
def test_keys_of_a_tier_that_the_plan_has_not_are_named(tier: str, life: dict[str, Any], named: str | None) -> None:
    dataset = BASE["dataset"] | {"interface": "object"} if tier == "express" else BASE["dataset"]
    made = plan(read(dataset=dataset, hot_tier=tier, lifecycle=life))
    said = [each.message for each in made.warnings if each.id == "lifecycle-unused"]
    assert [each.startswith(named or "") for each in said] == ([True] if named else [])
