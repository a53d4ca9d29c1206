"""Any workload file, good or bad: a legal plan that synthesizes, or our own error. Nothing else ever comes out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.assemblies import synthesize
from tests.strategies import broken_workload_dicts, dump_workload, workload_dicts
from training_storage.errors import (
    PlanError,
    TrainingStorageError,
    ValidationError,
    WorkloadError,
)
from training_storage.planner import Plan, plan
from training_storage.rules.base import find_problems
from training_storage.rules.links import LINK_RULES, LinkSettings
from training_storage.rules.lustre import LUSTRE_RULES, LustreSettings
from training_storage.workload import parse_workload

# The same files in every run: what fails once fails again.
RANDOM = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))


def answer(data: Any) -> Plan | TrainingStorageError:
    """Plan a workload file given as data, or return our own error; any other exception fails the test."""
    try:
        return plan(parse_workload(dump_workload(data)))
    except (WorkloadError, PlanError) as error:
        refused = error
    assert refused.problems
    assert all(problem.what for problem in refused.problems)
    return refused


def assert_legal(made: Plan) -> None:
    if made.lustre is None:
        return
    lustre = made.lustre
    settings_ = LustreSettings(
        deployment_type=lustre.deployment_type,
        storage_type=lustre.storage_type,
        storage_capacity_gib=lustre.storage_capacity_gib,
        per_unit_storage_throughput=lustre.per_unit_storage_throughput,
        throughput_capacity_mb_per_s=lustre.throughput_capacity_mb_per_s,
        metadata_mode=lustre.metadata_mode,
        metadata_iops=lustre.metadata_iops if lustre.metadata_mode == "USER_PROVISIONED" else None,
        efa=lustre.efa,
        file_system_type_version=lustre.file_system_type_version,
        backup_retention_days=made.workload.lustre.backup_retention_days,
        linked=bool(lustre.links),
    )
    assert find_problems(LUSTRE_RULES, settings_) == ()
    links = tuple(
        LinkSettings(
            path=link.path,
            bucket=link.bucket or "(data lake)",
            prefix=link.prefix,
            import_events=link.import_events,
            export_events=link.export_events,
        )
        for link in lustre.links
    )
    assert find_problems(LINK_RULES, links) == ()


def assert_synthesizes(data: Any) -> None:
    made = answer(data)
    if not isinstance(made, Plan):
        return
    try:
        synthesize(made)
    except ValidationError as refused:
        # The one thing that the plan lets pass and the fleet needs: an image for a type without a public one.
        assert [problem.path for problem in refused.problems] == ["image"], refused  # noqa: PT017 - only then


@settings(RANDOM, max_examples=100)
@given(workload_dicts())
def test_a_good_file_gives_a_legal_plan(data: dict[str, Any]) -> None:
    made = answer(data)
    if isinstance(made, Plan):
        assert_legal(made)
        assert made.to_json() == plan(made.workload).to_json()


@settings(RANDOM, max_examples=100)
@given(broken_workload_dicts())
def test_a_broken_file_gives_a_plan_or_our_own_error(data: Any) -> None:
    made = answer(data)
    if isinstance(made, Plan):
        assert_legal(made)


@settings(RANDOM, max_examples=8)
@given(workload_dicts())
def test_a_sample_of_plans_synthesizes(data: dict[str, Any]) -> None:
    assert_synthesizes(data)


@pytest.mark.slow
@settings(RANDOM, max_examples=600)
@given(workload_dicts())
def test_six_hundred_good_files(data: dict[str, Any]) -> None:
    made = answer(data)
    if isinstance(made, Plan):
        assert_legal(made)


@pytest.mark.slow
@settings(RANDOM, max_examples=600)
@given(broken_workload_dicts())
def test_six_hundred_broken_files(data: Any) -> None:
    made = answer(data)
    if isinstance(made, Plan):
        assert_legal(made)


@pytest.mark.slow
@settings(RANDOM, max_examples=60)
@given(workload_dicts())
def test_sixty_plans_synthesize(data: dict[str, Any]) -> None:
    assert_synthesizes(data)
