"""Mounts, paths, links and caches of a plan: what a node sees."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit._planner import CATALOG, SAVES, because, planned, refused, warning, warning_ids
from training_storage.planner import MountPlan, Plan

LUSTRE = {"hot_tier": "lustre"}
GENERAL = "s3://elsewhere/images/train/"


def mounts(made: Plan) -> dict[str, MountPlan]:
    return {mount.path: mount for mount in made.mounts}


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, {"/lake": "mountpoint"}),
        (LUSTRE, {"/fsx": "lustre", "/lake": "mountpoint"}),
        ({**LUSTRE, "dataset.interface": "object"}, {"/fsx": "lustre"}),
        ({**LUSTRE, "file_access": "none"}, {"/fsx": "lustre"}),
        ({"dataset.interface": "object"}, {}),
        ({"dataset.access": "read-write"}, {"/lake": "s3-files"}),
        ({"hot_tier": "express"}, {"/hot": "mountpoint", "/lake": "mountpoint"}),
        ({"hot_tier": "express", "dataset.interface": "object"}, {"/hot": "mountpoint"}),
        ({"dataset.source": GENERAL}, {"/lake": "mountpoint", "/source": "mountpoint"}),
        ({**LUSTRE, "dataset.source": GENERAL}, {"/fsx": "lustre", "/lake": "mountpoint"}),
        ({"dataset.source": GENERAL, "dataset.interface": "object"}, {}),
        ({"dataset.source": GENERAL, "data_lake": {"bucket": "elsewhere"}}, {"/lake": "mountpoint"}),
    ],
)
def test_mounts(changes: dict[str, Any], kinds: dict[str, str]) -> None:
    assert {path: mount.kind for path, mount in mounts(planned(changes)).items()} == kinds


@pytest.mark.parametrize(
    ("changes", "datasets", "checkpoints", "scratch"),
    [
        ({}, "/lake/datasets", "/opt/dlami/nvme/checkpoints", None),
        ({"dataset.version": "v3"}, "/lake/datasets/v3", "/opt/dlami/nvme/checkpoints", None),
        (LUSTRE, "/fsx/datasets", "/fsx/checkpoints", "/fsx/scratch"),
        ({**LUSTRE, "dataset.version": "v3"}, "/fsx/datasets", "/fsx/checkpoints", "/fsx/scratch"),
        ({**LUSTRE, "dataset.interface": "object"}, "/fsx/datasets", "/fsx/checkpoints", "/fsx/scratch"),
        ({"dataset.interface": "object"}, None, None, None),
        ({"dataset.access": "read-write"}, "/lake/datasets", "/opt/dlami/nvme/checkpoints", None),
        ({"hot_tier": "express"}, "/hot/datasets", "/hot/checkpoints", None),
        ({"dataset.source": GENERAL}, "/source", "/opt/dlami/nvme/checkpoints", None),
        (
            {"dataset.source": GENERAL, "data_lake": {"bucket": "elsewhere"}},
            "/lake/images/train",
            "/opt/dlami/nvme/checkpoints",
            None,
        ),
        ({**LUSTRE, "dataset.source": GENERAL}, "/fsx/datasets", "/fsx/checkpoints", "/fsx/scratch"),
        (
            {
                **LUSTRE,
                "lustre": {"links": [{"path": "/data", "source": "s3://elsewhere/images/"}]},
                "dataset.source": GENERAL,
            },
            "/fsx/data/train",
            "/fsx/checkpoints",
            "/fsx/scratch",
        ),
        ({**LUSTRE, "lustre": {"links": []}}, "/fsx/datasets", "/fsx/checkpoints", "/fsx/scratch"),
    ],
)
def test_paths(changes: dict[str, Any], datasets: str | None, checkpoints: str | None, scratch: str | None) -> None:
    paths = planned({"checkpoints": SAVES, **changes}).paths
    assert (paths.datasets, paths.checkpoints, paths.scratch) == (datasets, checkpoints, scratch)


def test_without_a_checkpoints_section_there_is_no_directory_for_them() -> None:
    assert planned(LUSTRE).paths.checkpoints is None


def test_the_lake_is_mounted_read_only_unless_asked() -> None:
    assert mounts(planned())["/lake"].read_only is True
    assert mounts(planned({"mountpoint": {"read_only": False}}))["/lake"].read_only is False


def test_a_foreign_bucket_is_mounted_read_only_by_its_prefix() -> None:
    made = planned({"dataset.source": GENERAL, "mountpoint": {"read_only": False}})
    source = mounts(made)["/source"]
    assert source.read_only is True
    assert (source.options["bucket"], source.options["prefix"]) == ("elsewhere", "images/train/")


def test_a_directory_bucket_takes_writes() -> None:
    hot = mounts(planned({"hot_tier": "express"}))["/hot"]
    assert hot.read_only is False
    assert hot.options["directory_bucket"] is True


@pytest.mark.parametrize(
    ("access", "given", "read_only"),
    [
        ("read-mostly", None, True),
        ("read-write", None, False),
        ("read-mostly", False, False),
        ("read-mostly", True, True),
    ],
)
def test_s3_files_is_read_only_where_the_job_only_reads(access: str, given: bool | None, read_only: bool) -> None:
    section = {} if given is None else {"read_only": given}
    made = planned({"dataset.access": access, "file_access": "s3-files", "s3_files": section})
    assert made.s3_files is not None
    assert (made.s3_files.read_only, made.s3_files.root_access) == (read_only, False)
    assert mounts(made)["/lake"].read_only is read_only


# -- links


def test_default_links_with_checkpoints() -> None:
    made = planned({**LUSTRE, "checkpoints": SAVES, "dataset.version": "v3"})
    assert made.lustre is not None
    datasets, checkpoints = made.lustre.links
    assert (datasets.path, datasets.bucket, datasets.prefix) == ("/datasets", None, "datasets/v3/")
    assert (datasets.import_events, datasets.export_events) == (("new", "changed"), ())
    assert datasets.import_metadata_on_create is True
    assert (checkpoints.path, checkpoints.bucket, checkpoints.prefix) == ("/checkpoints", None, "checkpoints/")
    assert (checkpoints.import_events, checkpoints.export_events) == ((), ())
    assert checkpoints.import_metadata_on_create is True


def test_default_links_without_checkpoints() -> None:
    made = planned(LUSTRE)
    assert made.lustre is not None
    assert [link.path for link in made.lustre.links] == ["/datasets"]


@pytest.mark.parametrize(
    ("lake", "bucket"), [({}, "elsewhere"), ({"bucket": "elsewhere"}, None), ({"bucket_name": "elsewhere"}, None)]
)
def test_the_source_bucket_is_the_lake_where_the_names_are_equal(lake: dict[str, str], bucket: str | None) -> None:
    made = planned({**LUSTRE, "dataset.source": GENERAL, "data_lake": lake})
    assert made.lustre is not None
    assert (made.lustre.links[0].bucket, made.lustre.links[0].prefix) == (bucket, "images/train/")


def test_given_links_replace_the_default() -> None:
    link = {"path": "/data/", "source": "s3://elsewhere/raw/", "import": ["new"], "export": ["deleted"]}
    made = planned({**LUSTRE, "checkpoints": SAVES, "lustre": {"links": [link]}})
    assert made.lustre is not None
    (only,) = made.lustre.links
    assert (only.path, only.bucket, only.prefix) == ("/data", "elsewhere", "raw/")
    assert (only.import_events, only.export_events) == (("new",), ("deleted",))


def test_overlapping_links_are_refused_naming_both() -> None:
    links = [{"path": "/data", "source": "s3://one-bucket/a/"}, {"path": "/data/train", "source": "s3://one-bucket/b/"}]
    (problem,) = refused({**LUSTRE, "lustre": {"links": links}})
    assert problem.path == "lustre.links[1].path"
    assert "/data/train and /data" in problem.what


def test_a_source_that_holds_the_checkpoints_of_the_lake_is_refused() -> None:
    changes = {**LUSTRE, "checkpoints": SAVES, "dataset.source": "s3://my-lake/", "data_lake": {"bucket": "my-lake"}}
    (problem,) = refused(changes)
    assert problem.path == "dataset.source"


@pytest.mark.parametrize(
    ("dataset", "imported"),
    [
        ({"file_count": 3_000_000}, True),
        ({"file_count": 3_000_001}, False),
        ({"file_count": None, "average_file_size": "1 MB", "size": "3 TB"}, True),
        ({"file_count": None, "average_file_size": "1 MB", "size": "3.1 TB"}, False),
        (
            {
                "file_count": None,
                "size": "3 TB",
                "read_rate": {"samples": {"size": "1 MB", "per_second_per_accelerator": 1}},
            },
            True,
        ),
        (
            {
                "file_count": None,
                "size": "3.1 TB",
                "read_rate": {"samples": {"size": "1 MB", "per_second_per_accelerator": 1}},
            },
            False,
        ),
        (
            {
                "file_count": None,
                "size": "30 TB",
                "read_rate": {"samples": {"size": "1 MB", "per_second_per_accelerator": 1, "per_file": 10}},
            },
            True,
        ),
    ],
)
def test_the_listing_is_imported_at_creation_up_to_3_million_files(dataset: dict[str, Any], imported: bool) -> None:
    made = planned({**LUSTRE, **{f"dataset.{key}": value for key, value in dataset.items()}})
    assert made.lustre is not None
    assert made.lustre.links[0].import_metadata_on_create is imported
    assert ("metadata-import-as-task" in warning_ids(made)) is not imported


def test_an_unknown_number_of_files_counts_as_small_with_an_assumption() -> None:
    made = planned({**LUSTRE, "dataset.file_count": None})
    assert made.lustre is not None
    assert made.lustre.links[0].import_metadata_on_create is True
    assert any("number of files is not known" in line for line in made.assumptions)


def test_the_warning_names_the_command_that_imports() -> None:
    made = planned({**LUSTRE, "dataset.file_count": 10_000_000})
    assert "training-storage preload example --metadata" in warning(made, "metadata-import-as-task")


def test_a_given_import_switch_is_kept() -> None:
    link = {"path": "/datasets", "source": "s3://elsewhere/raw/", "import_metadata_on_create": False}
    made = planned({**LUSTRE, "lustre": {"links": [link]}})
    assert made.lustre is not None
    assert made.lustre.links[0].import_metadata_on_create is False


# -- Mountpoint throughput and cache (field reports 32 and 33)


@pytest.mark.parametrize("name", sorted(CATALOG.instance_types))
def test_report_33_mountpoint_is_told_the_rate_of_every_type(name: str) -> None:
    row = CATALOG.instance_types[name]
    made = (
        planned({"compute.instance_type": name, "dataset.size": "100 GB", "compute.purchase": "on-demand"})
        if ("on-demand" in row.usage_classes or not row.usage_classes)
        else planned({"compute.instance_type": name, "dataset.size": "100 GB", **_block()})
    )
    gbps = mounts(made)["/lake"].options["maximum_throughput_gbps"]
    table = row.network_gbps if row.mountpoint_gbps is None else row.mountpoint_gbps
    # Our layout has one interface with IP: 100 Gbit/s on a type with several network cards.
    assert gbps == min(table, 100.0 if row.network_cards > 1 else row.network_gbps)
    assert gbps == made.compute.mountpoint_gbps


def _block() -> dict[str, Any]:
    return {
        "compute.purchase": "capacity-block",
        "compute.capacity_reservation_id": "cr-0123456789abcdef0",
        "compute.start": "2026-12-01T11:30:00Z",
        "compute.end": "2026-12-08T10:30:00Z",
    }


@pytest.mark.parametrize(
    ("changes", "cache"),
    [
        # p5.48xlarge: 8 x 3,800 GB, 80 % of them 24,320 GB.
        ({"dataset.size": "24320 GB"}, "nvme"),
        ({"dataset.size": "24321 GB"}, "none"),
        ({"dataset.size": "48640 GB", "dataset.hot_fraction": 0.5}, "nvme"),
        ({**LUSTRE, "dataset.size": "1 TB"}, "none"),
        ({"dataset.size": "1 TB", "mountpoint": {"read_only": False}}, "none"),
        ({"dataset.size": "1 TB", "compute.instance_type": "inf2.48xlarge"}, "none"),
        ({"dataset.size": "90 TB", "mountpoint": {"cache": "nvme"}}, "nvme"),
        ({"dataset.size": "1 TB", "mountpoint": {"cache": "none"}}, "none"),
        ({"dataset.size": "1 TB", "mountpoint": {"cache": "express"}}, "express"),
        # Two checkpoints of 4,000 GB on four instances leave 28,400 GB each, 80 % of them 22,720 GB.
        (
            {
                "dataset.size": "22720 GB",
                "checkpoints": {"size": "4 TB", "max_write_time": "1h", "interval": "30d", "max_restore_time": "1h"},
            },
            "nvme",
        ),
        (
            {
                "dataset.size": "22721 GB",
                "checkpoints": {"size": "4 TB", "max_write_time": "1h", "interval": "30d", "max_restore_time": "1h"},
            },
            "none",
        ),
    ],
)
def test_cache(changes: dict[str, Any], cache: str) -> None:
    made = planned(changes)
    assert mounts(made)["/lake"].options["cache"] == cache
    assert because(made, "mountpoint.cache", cache)[0] == "chosen"


def test_the_cache_belongs_to_the_mount_that_the_data_is_read_through() -> None:
    found = mounts(planned({"dataset.source": GENERAL}))
    assert found["/source"].options["cache"] == "nvme"
    assert found["/lake"].options["cache"] == "none"


@pytest.mark.parametrize("name", [name for name, row in CATALOG.instance_types.items() if row.local_nvme_gb])
def test_report_32_a_planned_cache_takes_at_most_80_percent_of_the_disks_in_mib(name: str) -> None:
    nvme = CATALOG.instance_types[name].local_nvme_gb
    block = {} if "on-demand" in CATALOG.instance_types[name].usage_classes else _block()
    made = planned({"compute.instance_type": name, "mountpoint": {"cache": "nvme"}, "hot_tier": "none", **block})
    size = mounts(made)["/lake"].options["cache_size_mib"]
    assert size == int(nvme * 1e9 * 0.8 / 2**20)


def test_report_32_a_size_is_written_in_mib() -> None:
    options = mounts(planned({"mountpoint": {"cache": "nvme", "cache_size": "100 GiB"}}))["/lake"].options
    assert options["cache_size_mib"] == 102_400


def test_report_32_more_than_80_percent_of_the_disks_is_refused_naming_them() -> None:
    # g6.xlarge has 250 GB.
    (problem,) = refused(
        {"compute.instance_type": "g6.xlarge", "mountpoint": {"cache": "nvme", "cache_size": "500 GiB"}}
    )
    assert problem.path == "mountpoint.cache_size"
    assert "80%" in f"{problem.what} {problem.allowed}"


def test_report_32_a_cache_without_local_nvme_is_refused() -> None:
    problems = refused({"compute.instance_type": "inf2.48xlarge", "mountpoint": {"cache": "nvme"}})
    assert "mountpoint.cache" in {problem.path for problem in problems}


def test_a_cache_on_s3_express_needs_a_zone_that_has_it() -> None:
    (problem,) = refused({"availability_zone_id": "use1-az2", "mountpoint": {"cache": "express"}})
    assert problem.path == "mountpoint.cache"


# -- checkpoints and renames (field report 30)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mountpoint": {"read_only": False}},
        {"dataset.access": "read-write"},
        {"dataset.source": GENERAL},
        LUSTRE,
        {"hot_tier": "express"},
        {"dataset.interface": "object"},
        {"dataset.interface": "object", "file_access": "mountpoint"},
    ],
)
def test_report_30_checkpoints_are_never_saved_through_mountpoint_of_a_general_purpose_bucket(
    changes: dict[str, Any],
) -> None:
    made = planned({"checkpoints": SAVES, **changes})
    general = [
        mount.path for mount in made.mounts if mount.kind == "mountpoint" and not mount.options.get("directory_bucket")
    ]
    path = made.paths.checkpoints
    assert path is None or not any(path.startswith(f"{mount}/") for mount in general)


def test_scratch_without_lustre_gives_a_warning() -> None:
    made = planned({"scratch_size": "5 TB"})
    assert made.paths.scratch is None
    assert "scratch-without-lustre" in warning_ids(made)
