"""One wrong value hides no other problem: rules look at what can be read of a section."""

from __future__ import annotations

from typing import Any

import pytest

from training_storage.errors import WorkloadError
from training_storage.planner import plan
from training_storage.workload import parse_workload, workload_from_dict
from training_storage.workload.model import Samples
from training_storage.workload.storage import Link, Lustre

WRONG_LUSTRE = {
    "deployment_type": "SCRATCH_2",
    "per_unit_storage_throughput": 200,
    "storage_capacity": "3600 GiB",
    "kms_key_arn": "arn:aws:kms:us-east-1:111111111111:key/abc",
    "file_system_type_version": "2.10",
    "backup_retention_days": 7,
    "metadata_iops": 18_000,
    "efa": True,
}
LUSTRE_RULES_BROKEN = {
    "lustre.throughput-forbidden",
    "lustre.capacity-step",
    "lustre.kms-scratch",
    "lustre.version-clients",
    "lustre.version-links",
    "lustre.backups-scratch",
    "lustre.backups-links",
    "lustre.metadata-deployment-type",
    "lustre.metadata-iops",
    "lustre.efa-deployment-type",
}


def data(**sections: Any) -> dict[str, Any]:
    """Return a workload as plain data with sections of its own."""
    compute = {"instance_type": "p5en.48xlarge", "instance_count": 64, **sections.pop("compute", {})}
    return {
        "name": "llama3-70b",
        "region": "us-east-1",
        "availability_zone_id": "use1-az6",
        "compute": compute,
        "dataset": {"size": "60 TB"},
        **sections,
    }


def broken(given: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Return the rules that a workload breaks and the paths of everything that is wrong."""
    try:
        workload_from_dict(given)
    except WorkloadError as error:
        return {each.rule for each in error.problems if each.rule}, {each.path for each in error.problems}
    return set(), set()


def test_the_rules_of_a_section_without_other_mistakes() -> None:
    assert broken(data(lustre=WRONG_LUSTRE))[0] == LUSTRE_RULES_BROKEN


@pytest.mark.parametrize(
    ("mistake", "path"),
    [
        ({"gds": "yes"}, "lustre.gds"),
        ({"compression": "zstd"}, "lustre.compression"),
        ({"unknown": 1}, "lustre.unknown"),
        ({"throughput_capacity": "4000"}, "lustre.throughput_capacity"),
    ],
)
def test_a_mistake_of_form_hides_no_rule(mistake: dict[str, Any], path: str) -> None:
    rules, paths = broken(data(lustre={**WRONG_LUSTRE, **mistake}))
    assert rules == LUSTRE_RULES_BROKEN
    assert path in paths


@pytest.mark.parametrize("field", sorted(set(WRONG_LUSTRE) - {"deployment_type"}))
def test_a_value_that_cannot_be_read_takes_only_its_own_rules_away(field: str) -> None:
    rules, paths = broken(data(lustre={**WRONG_LUSTRE, field: {"no": "value"}}))
    assert f"lustre.{field}" in paths
    own = {
        "per_unit_storage_throughput": {"lustre.throughput-forbidden"},
        "storage_capacity": {"lustre.capacity-step"},
        "kms_key_arn": {"lustre.kms-scratch"},
        "file_system_type_version": {"lustre.version-clients", "lustre.version-links"},
        "backup_retention_days": {"lustre.backups-scratch", "lustre.backups-links"},
        "metadata_iops": {"lustre.metadata-deployment-type", "lustre.metadata-iops"},
        "efa": {"lustre.efa-deployment-type"},
    }
    assert rules == LUSTRE_RULES_BROKEN - own[field]


def test_a_broken_link_hides_neither_the_other_links_nor_the_file_system() -> None:
    links = [
        {"path": "data", "source": "s3://bucket/x/"},
        {"path": "/a", "source": "s3://bucket/a/"},
        {"path": "/a/b", "source": "s3://bucket/b"},
        {"path": "/a/", "source": "s3://bucket/a/c/", "export": ["deletd"]},
        "not a link",
    ]
    rules, paths = broken(data(lustre={**WRONG_LUSTRE, "links": links}))
    assert rules == LUSTRE_RULES_BROKEN | {"links.paths-apart", "links.prefixes-apart"}
    assert {
        "lustre.links[0].path",
        "lustre.links[2].source",
        "lustre.links[2].path",
        "lustre.links[3].path",
        "lustre.links[3].source",
        "lustre.links[3].export[0]",
        "lustre.links[4]",
    } <= paths


def test_a_broken_field_of_the_fleet_hides_no_rule_of_the_fleet() -> None:
    compute = {"instance_count": 65, "purchase": "capacity-block", "capacity_reservation_id": "cr-0123",
               "start": "2026-12-08T10:30:00Z", "end": "2026-12-01T11:30:00Z", "placement_group": "cluster",
               }  # fmt: skip
    expected = {"fleet.capacity-block-placement", "fleet.capacity-block-size", "fleet.capacity-block-schedule"}
    assert broken(data(compute=compute))[0] == expected
    rules, paths = broken(data(compute={**compute, "image": "latest", "efa": "yes"}))
    assert rules == expected
    assert {"compute.image", "compute.efa"} <= paths


def test_facts_of_a_type_that_are_incomplete_are_no_facts() -> None:
    compute = {"instance_type": "p9.48xlarge", "efa": True, "type_facts": {"accelerators": 8, "efa_interfaces": 0}}
    rules, paths = broken(data(compute=compute))
    assert rules == set()
    assert "compute.type_facts.network_gbps" in paths


def test_one_field_is_told_once_that_a_type_has_no_metadata_configuration() -> None:
    with pytest.raises(WorkloadError) as caught:
        workload_from_dict(data(lustre={"deployment_type": "SCRATCH_2", "metadata_iops": 12_000}))
    assert [each.path for each in caught.value.problems] == ["lustre.metadata_iops"]


def test_hdd_alone_is_persistent_1() -> None:
    # The only deployment type with HDD storage: FSx API reference.
    workload = workload_from_dict(
        data(hot_tier="lustre", lustre={"storage_type": "HDD", "per_unit_storage_throughput": 12})
    )
    planned = plan(workload).lustre
    assert planned is not None
    assert (planned.deployment_type, planned.storage_type) == ("PERSISTENT_1", "HDD")


# What can be read of a section.


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"lustre": {"links": {}}}, "lustre.links"),  # one in place of a list
        ({"lustre": {"links": {"path": "/a", "source": "s3://b/c/"}}}, "lustre.links"),
        ({"lustre": [{"links": []}]}, "lustre"),  # a list in place of one
        ({"compute": [{"instance_type": "p5.48xlarge"}]}, "compute"),
        ({"express": []}, "express"),
    ],
)
def test_one_in_place_of_several_and_several_in_place_of_one_are_problems(wrong: dict[str, Any], path: str) -> None:
    with pytest.raises(WorkloadError) as error:
        workload_from_dict({**data(), "monitoring": {"enabled": 7}, **wrong})
    assert {path, "monitoring.enabled"} <= {problem.path for problem in error.value.problems}


def test_what_is_not_given_has_its_default() -> None:
    assert Lustre.readable(None) == Lustre()
    assert Lustre.readable({"compression": "zstd"}).file_system_type_version == "2.15"


def test_what_cannot_be_read_is_none() -> None:
    found: Any = Lustre.readable(
        {"compression": "zstd", "gds": True, "links": [{"path": "x", "source": "s3://bucket/a/"}]}
    )
    assert (found.compression, found.gds) == (None, True)
    assert found.links is not None
    (link,) = found.links
    assert isinstance(link, Link)
    read: tuple[object, ...] = (link.path, link.source, link.export)
    assert read == (None, "s3://bucket/a/", ())


@pytest.mark.parametrize("given", [5, "text", [1]])
def test_nothing_can_be_read_of_what_is_no_mapping(given: object) -> None:
    found: Any = Samples.readable(given)
    assert (found.size, found.per_second_per_accelerator, found.per_file) == (None, None, None)


def test_a_mapping_is_shown_as_it_would_be_written() -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_workload(
            "name: a\nregion: us-east-1\navailability_zone_id: use1-az6\n"
            "compute: {instance_type: p5.48xlarge, instance_count: 4, type_fact: {accelerators: 8, efa: [a, b]}}\n"
            "dataset: {size: 60 TB}\n"
        )
    assert [each.value for each in caught.value.problems] == ["{accelerators: 8, efa: [a, b]}"]


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("1%", "write 0.01"),
        ("0.5 %", "write 0.005"),
        ("0.01", "write it without quotes"),
        ("1e-2", "write it without quotes"),
    ],
)
def test_a_number_in_quotes_or_percent_says_what_to_write(value: str, fix: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        workload_from_dict(data(checkpoints={"size": "912 GiB", "max_stall": value}))
    assert [(each.path, each.fix) for each in caught.value.problems] == [("checkpoints.max_stall", fix)]


def test_metadata_iops_in_quotes_say_what_to_write() -> None:
    with pytest.raises(WorkloadError) as caught:
        workload_from_dict(data(lustre={"metadata_iops": "12000"}))
    assert [each.fix for each in caught.value.problems] == ["write it without quotes"]


@pytest.mark.parametrize(
    ("section", "path"),
    [
        # Digits of other scripts are digits to Python and to nobody at AWS.
        ({"account": "\u0661" * 12}, "account"),
        ({"region": "us-east-\u0661"}, "region"),
        ({"availability_zone_id": "use1-az\u0666"}, "availability_zone_id"),
        ({"dataset": {"size": "\u0666\u0660 TB"}}, "dataset.size"),
        ({"checkpoints": {"size": "1 TB", "interval": "\u0663m"}}, "checkpoints.interval"),
        ({"data_lake": {"kms_key_arn": "arn:aws:kms:us-east-1:" + "\u0661" * 12 + ":key/a"}}, "data_lake.kms_key_arn"),
        ({"lustre": {"file_system_type_version": "\u0662.15"}}, "lustre.file_system_type_version"),
    ],
)
def test_digits_of_other_scripts_are_refused(section: dict[str, Any], path: str) -> None:
    assert path in broken(data(**section))[1]


def test_a_long_time_is_said_in_plain_digits() -> None:
    with pytest.raises(WorkloadError) as caught:
        workload_from_dict(data(checkpoints={"size": "1 TB", "interval": "9999d"}))
    assert [each.allowed for each in caught.value.problems] == ["0.001 s to 3,650 d"]
