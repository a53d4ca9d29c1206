"""What every plan says for itself: shortfalls with both numbers, reasons for what was left, and the same bytes again.

Over random workloads with every key of the file, overrides that are too small among them. Figures are worked out here
from the demand and the plan, and looked for in the text.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.strategies import dump_workload, workload_dicts
from tests.unit._planner import planned
from training_storage.catalog import load_catalog
from training_storage.errors import PlanError, Problem, WorkloadError
from training_storage.planner import Plan, plan
from training_storage.units import format_seconds
from training_storage.whatif import steps
from training_storage.workload import load_workload
from training_storage.workload.model import Workload
from training_storage.workload.section import Section

Data = dict[str, Any]
NOISE = 1 - 1e-9
_SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], derandomize=True
)


def answer(data: Data) -> Plan | tuple[Problem, ...]:
    """A plan, or why there is none."""
    try:
        return plan(Workload.model_validate(data))
    except (PlanError, WorkloadError) as error:
        return error.problems


def made(data: Data) -> Plan:
    found = answer(data)
    assume(isinstance(found, Plan))
    assert isinstance(found, Plan)
    return found


# -- shortfalls


def figures(text: str) -> list[float]:
    """Every number of a text."""
    return [float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?", text)]


def names(text: str, *values: float) -> bool:
    """Whether a text has all of these numbers, as a person writes them: to three digits, or to a whole from 100 on."""
    found = figures(text)
    return all(any(abs(each - value) <= max(0.006 * abs(value), 1e-9) for each in found) for value in values)


def said(done: Plan, warning_id: str) -> str:
    """The texts of a warning, empty where there is none."""
    return "\n".join(each.message for each in done.warnings if each.id == warning_id)


def check_lustre(done: Plan) -> None:
    part, demand = done.lustre, done.demand
    if part is None:
        return
    small, required = said(done, "lustre-too-small"), demand.required_mb_per_s or 0.0
    reading, writing = demand.read_mb_per_s or 0.0, demand.checkpoint_write_mb_per_s or 0.0
    restoring = demand.restore_read_mb_per_s or 0.0
    saves = done.workload.checkpoints
    # Shares of the disks: reads and writes have a rate each, and overlap where saves are asynchronous.
    read_share, write_share = reading / part.throughput_mb_per_s, writing / part.write_throughput_mb_per_s
    both = read_share + write_share if saves is not None and saves.asynchronous else max(read_share, write_share)
    used = max(both, restoring / part.throughput_mb_per_s)
    short = used > 1 / NOISE
    if short:
        assert names(small, required * (1 - 1 / used), required), (small, used, required)
    capacity, space = part.storage_capacity_gib, demand.hot_capacity_gib
    narrow = capacity is not None and capacity < space * NOISE
    if narrow and capacity is not None:
        assert names(small, space - capacity, space), small
    share, limit = required / done.compute.instance_count, part.client_limit_mb_per_s
    assert bool(said(done, "client-limit")) is (limit < share * NOISE)
    if limit < share * NOISE:
        assert names(said(done, "client-limit"), limit, share)
    opens, iops = demand.file_opens_per_s, part.metadata_iops
    few = opens is not None and iops is not None and 2 * iops < opens * NOISE
    assert bool(said(done, "metadata-short")) is few
    if few and opens is not None and iops is not None:
        assert names(said(done, "metadata-short"), opens, 2 * iops, opens - 2 * iops)
    given = done.workload.lustre.model_fields_set
    if small:
        assert short or narrow or ("file servers" in small and part.efa_interfaces_per_client is None)
        assert given & {"storage_capacity", "per_unit_storage_throughput", "throughput_capacity"} or (
            part.storage_type == "INTELLIGENT_TIERING"  # whose most may be too little
        )


def check_waits(done: Plan) -> None:
    """Whatever the tier: reads that wait, and saves and restores that take too long, are in a warning with figures."""
    told, demand, saves = done.prediction, done.demand, done.workload.checkpoints
    everything = "\n".join(each.message for each in done.warnings)
    read, waits = demand.read_mb_per_s, told.data_wait_fraction
    assert bool(said(done, "data-wait")) is (waits is not None and waits > 1e-9)
    if waits is not None and waits > 1e-9 and read is not None:
        assert names(said(done, "data-wait"), read, told.read_supply_mb_per_s, waits * 100)
    if done.tiers.hot == "none":
        assert not said(done, "s3-too-small") or done.workload.hot_tier == "none"
        assert not (waits or 0) > 1e-9 or told.binds == "latency" or said(done, "s3-too-small")
    if saves is None or told.checkpoint_write_s is None or told.restore_s is None:
        return
    for took, allowed in (
        (told.checkpoint_write_s, saves.max_write_time.seconds),
        (told.restore_s, saves.max_restore_time.seconds),
    ):
        if took * NOISE <= allowed:
            continue
        if done.lustre is not None:  # in MB/s, checked above
            assert said(done, "lustre-too-small") or said(done, "client-limit")
        else:
            assert format_seconds(allowed) in everything
            assert format_seconds(took) in everything


# -- decisions


def keys_of(section: type[Section], path: str = "") -> Iterator[str]:
    """Every key of the workload file by its dotted path."""
    for key, name in section.keys().items():
        yield f"{path}{key}"
        inner = section.fields[name].section
        if inner is not None:
            yield from keys_of(inner, f"{path}{key}.")


KEYS = set(keys_of(Workload))
ALL_OPTIONS = {
    "hot-tier": {"none", "lustre", "express"},
    "file-access": {"none", "mountpoint", "s3-files"},
    "lustre.efa": {"true", "false"},
}


def test_keys_are_those_of_the_file() -> None:
    assert {"hot_tier", "compute.efa", "lustre.efa", "dataset.access", "checkpoints.max_stall"} <= KEYS


def check_decisions(done: Plan) -> None:
    looked_at = Counter((each.rule, each.option) for each in done.decisions)
    assert set(looked_at.values()) == {1}, looked_at.most_common(3)
    for each in done.decisions:
        if each.verdict == "rejected":
            given_keys = [key for key, _ in re.findall(r"([a-z_0-9]+(?:\.[a-z_0-9]+)*): (\S+)", each.because)]
            assert re.search(r"\d", each.because) or any(key in KEYS for key in given_keys), each
    for rule in {each.rule for each in done.decisions}:
        assert sum(each.verdict == "chosen" for each in done.decisions if each.rule == rule) == 1, rule
    options = {rule: {each.option for each in done.decisions if each.rule == rule} for rule, _ in looked_at}
    assert options["hot-tier"] == ALL_OPTIONS["hot-tier"]
    assert options["file-access"] == ALL_OPTIONS["file-access"]
    chosen = {each.rule: each.option for each in done.decisions if each.verdict == "chosen"}
    assert chosen["hot-tier"] == done.tiers.hot
    assert chosen["file-access"] == done.tiers.file_access
    assert chosen["compute.efa"] == str(done.compute.efa).lower()
    assert chosen["compute.placement-group"] == done.compute.placement_group
    if done.lustre is None:
        assert not any(rule.startswith("lustre.") for rule in options)
        return
    assert options["lustre.efa"] == ALL_OPTIONS["lustre.efa"]
    assert chosen["lustre.efa"] == str(done.lustre.efa).lower()
    kind = f"{done.lustre.deployment_type} {done.lustre.storage_type}"
    row = done.catalog.lustre.options[(done.lustre.deployment_type, done.lustre.storage_type)]
    offered = set(row.tiers)
    if done.lustre.deployment_type == "PERSISTENT_2":
        offered &= set(done.catalog.regions[done.workload.region].lustre_tiers or row.tiers)
    if done.workload.lustre.per_unit_storage_throughput is not None:
        offered = {done.workload.lustre.per_unit_storage_throughput}
    labels = {f"{kind} {tier} MB/s per TiB" for tier in offered} or {kind}
    assert options["lustre.configuration"] == labels
    if done.lustre.metadata_mode is not None:
        assert chosen["lustre.metadata"] == done.lustre.metadata_mode


# -- one step up


def check_steps(data: Data) -> None:
    done = made(data)
    for step in steps(done):
        if step.plan is None:
            assert step.difference is None
            assert step.because
            continue
        before, after = done.prediction.gpu_wait_fraction, step.plan.prediction.gpu_wait_fraction
        assert (before is None) is (after is None)
        if step.kind == "tier" or before is None or after is None:
            continue
        assert step.difference is not None
        # The steps count what asynchronous saves take from reads, too; without it the same must hold.
        counted = step.difference.gpu_wait_fraction
        assert counted is not None
        up = 1 if step.direction == "up" else -1
        assert counted * up <= 1e-12, step.option
        assert (after - before) * up <= 1e-12, step.option
        # Of the same workload: what is asked for stays, but where the file does not say how often it saves.
        assert step.plan.demand.read_mb_per_s == done.demand.read_mb_per_s
        assert step.plan.tiers.hot == done.tiers.hot
        assert step.plan.lustre is not None
        assert done.lustre is not None
        assert (step.plan.lustre.throughput_mb_per_s - done.lustre.throughput_mb_per_s) * up >= -1e-9
        assert step.plan.lustre.efa == done.lustre.efa


def with_lustre(data: Data) -> Data:
    """The workload with Lustre as its hot tier: only there throughput and capacity can be stepped."""
    return data | {"hot_tier": "lustre", "file_access": "auto"}


@st.composite
def given_file_systems(draw: st.DrawFn) -> Data:
    """File systems that are given, mostly too small, where saves overlap with reads or stall them."""
    capacity = draw(st.sampled_from([1200, 4800, 14_400, 38_400, 76_800, 240_000]))
    on_efa_grid = capacity % 38_400 == 0
    lustre: Data = {"storage_capacity": f"{capacity} GiB"}
    kind = draw(st.sampled_from(["tier", "tier", "scratch", "old"]))
    if kind == "scratch":
        lustre |= {"deployment_type": "SCRATCH_2"}
    elif kind == "old":
        lustre |= {
            "deployment_type": "PERSISTENT_1",
            "per_unit_storage_throughput": draw(st.sampled_from([50, 100, 200])),
        }
    else:
        lustre |= {"per_unit_storage_throughput": draw(st.sampled_from([125, 250, 500, 1000]))}
        lustre |= {"efa": draw(st.booleans()) if on_efa_grid else False}
        lustre |= draw(st.sampled_from([{}, {}, {"metadata_iops": 192_000}]))
    data: Data = {
        "name": "given",
        "region": "us-east-1",
        "availability_zone_id": "use1-az6",
        "compute": {
            "instance_type": draw(st.sampled_from(["p5.48xlarge", "p4d.24xlarge", "g6e.48xlarge", "g5.xlarge"])),
            "instance_count": draw(st.sampled_from([1, 4, 17, 128, 600])),
        },
        "dataset": {
            "size": draw(st.sampled_from(["500 GB", "3 TB", "40 TB"])),
            "average_file_size": draw(st.sampled_from(["4 KB", "1 MB", "2 GB"])),
            "read_rate": {"per_accelerator": f"{draw(st.sampled_from([0.5, 5, 50, 500, 3000]))} MB/s"},
        },
        "hot_tier": "lustre",
        "lustre": lustre,
    }
    loader = draw(st.sampled_from([None, {"workers_per_accelerator": 1, "prefetch": 1}]))
    data["dataset"] |= {} if loader is None else {"loader": loader}
    if draw(st.booleans()):
        data["checkpoints"] = {
            "size": draw(st.sampled_from(["10 GB", "900 GB", "15 TB"])),
            "interval": draw(st.sampled_from(["auto", "30m"])),
            "max_write_time": draw(st.sampled_from(["10s", "1m", "2h"])),
            "asynchronous": draw(st.booleans()),
        }
    return data


@settings(_SETTINGS, max_examples=150)
@given(given_file_systems())
def test_a_given_file_system_says_what_it_misses_and_a_step_up_never_adds_waits(data: Data) -> None:
    done = made(data)
    check_lustre(done)
    check_waits(done)
    check_decisions(done)
    check_steps(data)


@settings(_SETTINGS, max_examples=40)
@given(workload_dicts())
def test_a_step_up_never_makes_accelerators_wait_longer(data: Data) -> None:
    check_steps(with_lustre(data))


# -- the same bytes


def turned(value: Any, draw: random.Random) -> Any:
    """The same data with the keys of every mapping in another order; lists stay."""
    if isinstance(value, dict):
        keys = list(value)
        draw.shuffle(keys)
        return {key: turned(value[key], draw) for key in keys}
    return [turned(each, draw) for each in value] if isinstance(value, list) else value


def bytes_of(found: Plan | tuple[Problem, ...]) -> str:
    if isinstance(found, Plan):
        return found.to_json()
    return "\n".join(sorted(f"{each.path}: {each.what}; {each.value!r}; {each.allowed}; {each.fix}" for each in found))


def check_same(data: Data, seed: int) -> None:
    before = copy.deepcopy(data)
    first = bytes_of(answer(data))
    assert data == before
    assert bytes_of(answer(data)) == first
    assert bytes_of(answer(turned(data, random.Random(seed)))) == first


def check(data: Data, seed: int) -> None:
    check_same(data, seed)
    done = answer(data)
    if isinstance(done, Plan):
        check_lustre(done)
        check_waits(done)
        check_decisions(done)


# Drawing a workload takes longer than all checks together: they share what is drawn.
@settings(_SETTINGS, max_examples=150)
@given(workload_dicts(), st.integers(0, 2**32))
def test_a_plan_names_what_it_misses_gives_its_reasons_and_is_the_same_in_any_order_of_keys(
    data: Data, seed: int
) -> None:
    check(data, seed)


@settings(_SETTINGS, max_examples=15)
@given(workload_dicts(), st.integers(0, 2**32))
def test_a_file_is_planned_the_same_in_any_order_of_keys(
    tmp_path_factory: pytest.TempPathFactory, data: Data, seed: int
) -> None:
    def of(given_data: Data) -> str:
        path = tmp_path_factory.mktemp("order") / "workload.yaml"
        path.write_text(dump_workload(given_data), encoding="utf-8")
        try:
            return plan(load_workload(path)).to_json()
        except (WorkloadError, PlanError) as error:
            return bytes_of(error.problems)

    assert of(data) == of(turned(data, random.Random(seed)))


def test_planning_leaves_the_catalog_as_it_was() -> None:
    catalog, fresh = load_catalog(), load_catalog()
    assert repr(catalog) == repr(fresh)
    golden = Path(__file__).parents[1] / "data" / "golden_plans.json"
    for case in json.loads(golden.read_text(encoding="utf-8"))["cases"]:
        try:
            done = plan(Workload.model_validate(case["workload"]), catalog=catalog)
        except PlanError:
            continue
        steps(done)
        assert done.catalog is catalog
    assert repr(catalog) == repr(fresh)
    assert catalog == fresh


def test_a_plan_cannot_be_changed() -> None:
    done = planned()
    with pytest.raises(AttributeError):
        done.cost.lines[0].monthly = 0.0  # type: ignore[misc]  # frozen
    with pytest.raises(AttributeError):
        done.prediction.mtbf_h = 0.0  # type: ignore[misc]  # frozen


DIGEST = """
import hashlib, json, pathlib, sys
from training_storage.errors import PlanError
from training_storage.planner import plan
from training_storage.workload.model import Workload
out = hashlib.sha256()
for case in json.loads(pathlib.Path(sys.argv[1]).read_text())["cases"]:
    try:
        out.update(plan(Workload.model_validate(case["workload"])).to_json().encode())
    except PlanError as error:
        out.update(str(error).encode())
print(out.hexdigest())
"""


@pytest.mark.slow
def test_two_processes_with_other_hash_seeds_and_zones_give_the_same_bytes() -> None:
    golden = str(Path(__file__).parents[1] / "data" / "golden_plans.json")
    digests = set()
    for seed, zone in (("0", "UTC"), ("1", "Asia/Tokyo"), ("4711", "America/New_York")):
        environment = os.environ | {"PYTHONHASHSEED": seed, "TZ": zone}
        command = [sys.executable, "-c", DIGEST, golden]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
        digests.add(done.stdout.strip())
    assert len(digests) == 1
    assert digests.pop() != hashlib.sha256().hexdigest()


# -- thousands


@pytest.mark.slow
@settings(_SETTINGS, max_examples=300)
@given(workload_dicts(), st.integers(0, 2**32))
def test_hundreds_of_plans_name_what_they_miss_give_reasons_and_are_the_same(data: Data, seed: int) -> None:
    check(data, seed)


@pytest.mark.slow
@settings(_SETTINGS, max_examples=200)
@given(workload_dicts())
def test_hundreds_of_steps_up_never_make_accelerators_wait_longer(data: Data) -> None:
    check_steps(with_lustre(data))
