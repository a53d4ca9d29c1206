"""The plan as text: what a reader needs first stands first, and nothing runs over the edge."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.strategies import Data, workload_dicts
from training_storage.cli.render import render_plan
from training_storage.cli.report import render_problems
from training_storage.errors import PlanError, Problem
from training_storage.planner import plan
from training_storage.planner.model import Plan, PlanWarning
from training_storage.workload import load_workload, workload_from_dict

ROOT = Path(__file__).resolve().parents[2]


def example(name: str) -> Plan:
    """Return the plan of an example."""
    return plan(load_workload(ROOT / "examples" / f"{name}.yaml"))


def section(text: str, heading: str) -> str:
    """Return one section of a plan's text."""
    (found,) = [part for part in text.split("\n\n") if part.startswith(heading)]
    return found


def test_the_first_line_is_the_choice_and_what_drove_it() -> None:
    made = example("llama3-70b")
    because = next(each.because for each in made.decisions if (each.rule, each.verdict) == ("hot-tier", "chosen"))
    first = render_plan(made, width=1000).splitlines()[0]
    assert first.startswith("llama3-70b: FSx for Lustre in front of S3 (")
    assert first.endswith(because)


def test_without_a_hot_tier_the_first_line_says_so() -> None:
    first = render_plan(example("lora-finetune"), width=1000).splitlines()[0]
    assert first.startswith("lora-finetune: S3 alone, no hot tier: ")


def test_report_02_asked_and_granted_capacity_both_stand_there() -> None:
    made = example("llama3-70b")
    assert made.lustre is not None
    text = section(render_plan(made, width=1000), "File system")
    assert (
        f"{made.lustre.storage_capacity_gib:,} GiB granted for {made.lustre.asked_capacity_gib:,.0f} GiB asked" in text
    )


def test_report_05_efa_says_its_step_and_that_it_is_for_ever() -> None:
    made = example("llama3-70b")
    assert made.lustre is not None
    assert made.lustre.efa
    # FSx for Lustre User Guide, getting started: GiB of one step with EFA, by tier.
    step = {125: "38,400", 250: "19,200", 500: "9,600", 1000: "4,800"}[made.lustre.per_unit_storage_throughput or 0]
    text = section(render_plan(made, width=1000), "File system")
    assert f"in steps of {step} GiB" in text
    assert "neither EFA nor the tier can change later" in text


def test_warnings_stand_before_the_figures_with_their_id() -> None:
    made = replace(example("llama3-70b"), warnings=(PlanWarning(id="some-id", message="look out"),))
    text = render_plan(made)
    assert "\n1 warning\n  ! some-id: look out\n" in text
    assert text.index("some-id") < text.index("Demand and plan")


def test_no_warnings_no_heading() -> None:
    assert "warning" not in render_plan(replace(example("lora-finetune"), warnings=(), decisions=(), assumptions=()))


def test_every_decision_stands_there_with_its_reason() -> None:
    made = example("vision-small-files")
    text = render_plan(made, width=100_000)
    for each in made.decisions:
        heading = "Chosen, and why" if each.verdict == "chosen" else "Rejected, and why"
        assert f"  - {each.rule}: {each.option}: {each.because}" in section(text, heading)


def test_every_assumption_mount_and_path_stands_there() -> None:
    made = example("vision-small-files")
    text = render_plan(made, width=100_000)
    assert all(f"  - {each}" in text for each in made.assumptions)
    assert all(f"  {mount.path:<18} {mount.kind}, " in text for mount in made.mounts)
    assert f"datasets           {made.paths.datasets}" in text


def test_a_link_without_import_names_the_command_that_imports() -> None:
    text = section(render_plan(example("vision-small-files"), width=1000), "Links to S3")
    assert "`training-storage preload vision-small-files --metadata`" in text


def test_what_is_not_known_says_so() -> None:
    data: Data = {
        "name": "unknown",
        "region": "us-east-1",
        "availability_zone_id": "use1-az6",
        "compute": {"instance_type": "p5.48xlarge", "instance_count": 2},
        "dataset": {"size": "1 TB"},
    }
    text = section(render_plan(plan(workload_from_dict(data))), "Demand and plan")
    unknown = [line.split()[0] for line in text.splitlines() if line.endswith("not known")]
    assert unknown == ["reads", "file", "required"]
    assert "checkpoint" not in text


@pytest.mark.parametrize("name", ["llama3-70b", "lora-finetune", "vision-small-files"])
@pytest.mark.parametrize("width", [80, 100, 120])
def test_examples_fit_into_a_terminal(name: str, width: int) -> None:
    assert max(map(len, render_plan(example(name), width=width).splitlines())) <= width


def test_colours_only_on_request() -> None:
    made = example("vision-small-files")
    assert "\x1b[" not in render_plan(made)
    coloured = render_plan(made, color=True)
    assert "\x1b[1;33m" in coloured
    for code in ("\x1b[1m", "\x1b[1;33m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == render_plan(made)


@given(workload_dicts())
@settings(derandomize=True, max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_every_plan_has_a_text(data: Data) -> None:
    try:
        made = plan(workload_from_dict(data))
    except PlanError:
        return
    text = render_plan(made, width=80)
    assert text.startswith(made.name)
    assert "None" not in text


def test_problems_are_grouped_by_file_and_wrapped() -> None:
    found = [
        Problem(what="is wrong " * 20, path="a.b", value="v", allowed="x", fix="y", file="w.yaml", line=3),
        Problem(what="has no place", file="w.yaml"),
        Problem(what="comes from code", path="efa"),
    ]
    text = render_problems(found, width=60)
    assert max(map(len, text.splitlines())) <= 60
    assert text.splitlines()[0] == "w.yaml: 2 problems"
    assert "  has no place" in text.splitlines()
    assert text.splitlines()[-1] == "  efa: comes from code"


# The figures of the table follow from one another.

ON_LUSTRE = {
    "name": "example",
    "region": "us-east-1",
    "availability_zone_id": "use1-az6",
    "compute": {"instance_type": "p5.48xlarge", "instance_count": 4},
    "dataset": {"size": "2 TB", "file_count": 2000, "read_rate": {"per_accelerator": "10 MB/s"}},
    "hot_tier": "lustre",
}


def figures(**sections: object) -> str:
    """Return the text of a workload on Lustre."""
    return render_plan(plan(workload_from_dict({**ON_LUSTRE, **sections})), width=1000)


@pytest.mark.parametrize(
    ("checkpoints", "label"),
    [
        (None, "required"),
        ({"size": "912 GiB"}, "largest of these"),
        ({"size": "912 GiB", "asynchronous": True}, "reads + save"),
        # A restore by 64 readers is more than reads and saves together.
        ({"size": "912 GiB", "asynchronous": True, "restore_readers": 64}, "largest of these"),
    ],
)
def test_the_required_throughput_says_how_it_follows_from_the_rest(
    checkpoints: dict[str, object] | None, label: str
) -> None:
    text = section(figures(**({"checkpoints": checkpoints} if checkpoints else {})), "Demand and plan")
    assert [name for name in ("required", "largest of these", "reads + save") if f"\n  {name} " in text] == [label]


def test_writes_of_scratch_stand_beside_its_reads() -> None:
    # 200 and 100 MB/s per TiB: FSx for Lustre User Guide, SSD storage; 2400 GiB are 2.34375 TiB.
    text = figures(lustre={"deployment_type": "SCRATCH_2", "storage_capacity": "2400 GiB"})
    assert "469 MB/s baseline of the disks, 234 MB/s for writes" in text


def test_one_figure_where_writes_are_as_fast_as_reads() -> None:
    assert "for writes" not in figures()


def test_a_given_capacity_is_not_called_granted() -> None:
    text = section(figures(lustre={"storage_capacity": "2400 GiB"}), "File system")
    assert "2,400 GiB as given" in text
    assert "granted" not in text


def test_what_scratch_misses_says_that_writes_count_twice() -> None:
    text = figures(
        checkpoints={"size": "912 GiB", "asynchronous": True},
        lustre={"deployment_type": "SCRATCH_2", "storage_capacity": "2400 GiB"},
    )
    assert "(a write takes 2 times the disk throughput of a read)" in text


def test_whole_numbers_of_mounts_have_no_decimals() -> None:
    assert "maximum_throughput_gbps 100," in figures()
