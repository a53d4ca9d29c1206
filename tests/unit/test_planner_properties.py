"""Properties of every plan, over random workloads."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import ValidationError

from tests.strategies import workload_dicts
from training_storage.errors import PlanError
from training_storage.planner import Cost, Plan, Prediction, plan
from training_storage.rules.base import find_problems
from training_storage.rules.links import LINK_RULES, LinkSettings
from training_storage.rules.lustre import LUSTRE_RULES, LustreSettings
from training_storage.rules.mounts import MOUNT_RULES, MountSettings, NodeSettings
from training_storage.workload.model import Workload

SHORTFALLS = {"lustre-too-small", "client-limit", "metadata-short"}
RULES_WITH_SEVERAL_OPTIONS = {"hot-tier": 3, "file-access": 3}
NOISE = 1 - 1e-9


def made_or_refused(data: dict[str, Any]) -> Plan | None:
    """A plan, or None where our own error says why there is none; anything else fails the test."""
    try:
        workload = Workload.model_validate(data)
    except ValidationError:
        return None
    try:
        return plan(workload)
    except PlanError as error:
        problems = error.problems
    assert problems
    assert all(problem.what and problem.path for problem in problems)
    return None


def check_legal(made: Plan) -> None:
    part = made.lustre
    if part is not None:
        provisioned = part.metadata_mode == "USER_PROVISIONED"
        given = made.workload.lustre
        subject = LustreSettings(
            deployment_type=part.deployment_type,
            storage_type=part.storage_type,
            storage_capacity_gib=part.storage_capacity_gib,
            per_unit_storage_throughput=part.per_unit_storage_throughput,
            throughput_capacity_mb_per_s=part.throughput_capacity_mb_per_s,
            metadata_mode=part.metadata_mode,
            metadata_iops=part.metadata_iops if provisioned else None,
            efa=part.efa,
            gds=given.gds,
            file_system_type_version=part.file_system_type_version,
            backup_retention_days=given.backup_retention_days,
            kms_key=given.kms_key_arn,
            linked=bool(part.links),
        )
        assert find_problems(LUSTRE_RULES, subject) == ()
        links = tuple(
            LinkSettings(
                path=link.path,
                bucket=link.bucket or "the data lake",
                prefix=link.prefix,
                import_events=link.import_events,
                export_events=link.export_events,
            )
            for link in part.links
        )
        assert find_problems(LINK_RULES, links) == ()
    node = NodeSettings(
        mounts=tuple(
            MountSettings(
                path=mount.path,
                kind=mount.kind,
                read_only=mount.read_only,
                directory_bucket=bool(mount.options.get("directory_bucket")),
                prefix=mount.options.get("prefix"),  # type: ignore[arg-type]
                maximum_throughput_gbps=mount.options.get("maximum_throughput_gbps"),  # type: ignore[arg-type]
                cache=None if mount.options.get("cache") == "express" else mount.options.get("cache"),  # type: ignore[arg-type]
                cache_size_mib=mount.options.get("cache_size_mib"),  # type: ignore[arg-type]
            )
            for mount in made.mounts
        ),
        local_nvme_gb=made.compute.facts.local_nvme_gb,
        checkpoint_path=made.paths.checkpoints,
    )
    assert find_problems(MOUNT_RULES, node) == ()


def check_covers(made: Plan) -> None:
    part, demand = made.lustre, made.demand
    if part is None:
        return
    ids = {warning.id for warning in made.warnings}
    required = demand.required_mb_per_s or 0.0
    if part.throughput_mb_per_s < required * NOISE:
        assert "lustre-too-small" in ids
    if part.storage_capacity_gib is not None and part.storage_capacity_gib < demand.hot_capacity_gib * NOISE:
        assert "lustre-too-small" in ids
    if part.client_limit_mb_per_s * made.compute.instance_count < required * NOISE:
        assert "client-limit" in ids
    opens = demand.file_opens_per_s
    if opens is not None and part.metadata_iops is not None and 2 * part.metadata_iops < opens * NOISE:
        assert "metadata-short" in ids
    nothing_given = not made.workload.lustre.model_fields_set & {
        "storage_capacity",
        "per_unit_storage_throughput",
        "throughput_capacity",
    }
    if nothing_given:
        assert "lustre-too-small" not in ids


def check_explained(made: Plan) -> None:
    assert all(each.rule and each.option and each.because for each in made.decisions)
    for rule, options in RULES_WITH_SEVERAL_OPTIONS.items():
        verdicts = [each.verdict for each in made.decisions if each.rule == rule]
        assert len(verdicts) == options
        assert verdicts.count("chosen") == 1
    if made.lustre is not None:
        chosen = [each for each in made.decisions if each.rule == "lustre.configuration" and each.verdict == "chosen"]
        assert len(chosen) == 1
    assert all(warning.id and warning.message for warning in made.warnings)
    assert len(set(made.assumptions)) == len(made.assumptions)


def check_shape(made: Plan) -> None:
    plain: dict[str, Any] = made.to_dict()
    assert set(plain) == {
        "workload",
        "accelerators",
        "demand",
        "tiers",
        "compute",
        "lustre",
        "express",
        "shared_cache",
        "s3_files",
        "mounts",
        "paths",
        "prediction",
        "decisions",
        "cost",
        "assumptions",
        "warnings",
    }
    assert set(plain["prediction"]) == {each.name for each in fields(Prediction)}
    assert set(plain["cost"]) == {each.name for each in fields(Cost)}
    assert (made.lustre is not None) is (made.tiers.hot == "lustre")
    assert (made.express is not None) is (made.tiers.hot == "express")
    cached = any(mount.options.get("cache") == "express" for mount in made.mounts)
    assert (made.shared_cache is not None) is cached
    assert (made.s3_files is not None) is (made.tiers.file_access == "s3-files")


def check(data: dict[str, Any]) -> None:
    made = made_or_refused(data)
    if made is None:
        return
    check_legal(made)
    check_covers(made)
    check_explained(made)
    check_shape(made)
    again = made_or_refused(data)
    assert again is not None
    assert made.to_json() == again.to_json()


# The strategy is large: what takes long is drawing, not planning.
_SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], derandomize=True
)


@settings(_SETTINGS, max_examples=60)
@given(workload_dicts())
def test_every_plan_is_legal_covers_the_demand_and_explains_itself(data: dict[str, Any]) -> None:
    check(data)


@pytest.mark.slow
@settings(_SETTINGS, max_examples=500)
@given(workload_dicts())
def test_five_hundred_plans_are_legal_cover_the_demand_and_explain_themselves(data: dict[str, Any]) -> None:
    check(data)
