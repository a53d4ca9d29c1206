"""From a workload to a plan: the order of the steps."""

from __future__ import annotations

from training_storage.catalog import Catalog, default_catalog
from training_storage.errors import PlanError, Problem
from training_storage.planner.cost import Parts, estimate
from training_storage.planner.demand import measure
from training_storage.planner.draft import Draft
from training_storage.planner.express import express_limits, plan_express
from training_storage.planner.fleet import find_facts, find_region, plan_fleet
from training_storage.planner.links import plan_links
from training_storage.planner.lustre_plan import LustreResult, plan_lustre
from training_storage.planner.model import ExpressPlan, Plan
from training_storage.planner.mounts import plan_node
from training_storage.planner.prediction import predict
from training_storage.planner.prices import fleet_usd_per_hour
from training_storage.planner.supply import outcome
from training_storage.planner.tiers import choose_tiers
from training_storage.planner.warnings import (
    warn_data_wait,
    warn_stall_bound,
    warn_tiers,
    warn_unknown,
    warn_unused,
)
from training_storage.planner.words import number
from training_storage.planner.would_serve import warn_lustre_cheaper, warn_would_serve
from training_storage.units import Duration
from training_storage.workload.model import Workload


def plan(workload: Workload, *, catalog: Catalog | None = None, run_length: Duration | None = None) -> Plan:
    """Plan the storage of a workload.

    A pure function: same workload, same catalog, same run length, same plan.

    Args:
        workload: What the platform team declares.
        catalog: Facts and prices. Left out: those that come with the package.
        run_length: How long one run trains, for its cost. Left out: that of a Capacity Block whose start and end are
            given, else not known.

    Raises:
        PlanError: No legal plan does what the workload asks for. Carries every problem found, each with field path,
            value, what is allowed and what to change.
    """
    return _plan(workload, catalog, run_length, told=True)


def plan_figures(workload: Workload, *, catalog: Catalog | None = None, run_length: Duration | None = None) -> Plan:
    """Plan as ``plan`` does, with decisions and assumptions left empty: for many plans of which only figures are read.

    Everything else is the same, problems and warnings too; see ``plan`` for the arguments.
    """
    return _plan(workload, catalog, run_length, told=False)


def _plan(workload: Workload, catalog: Catalog | None, run_length: Duration | None, *, told: bool) -> Plan:
    catalog = catalog if catalog is not None else default_catalog()
    problems: list[Problem] = []
    region = find_region(workload, catalog, problems)
    facts = find_facts(workload, catalog, problems)
    if region is None or facts is None:
        raise PlanError(problems)
    needs = measure(workload, facts, catalog, problems)
    draft = Draft(
        workload=workload, catalog=catalog, region=region, facts=facts, needs=needs, problems=problems, told=told
    )
    if told:
        _assume_inputs(draft)
    warn_unknown(draft)
    choice = choose_tiers(draft)
    hot = choice.tiers.hot
    lustre: LustreResult | None = None
    express: ExpressPlan | None = None
    limits = choice.s3.limits
    if hot == "lustre":
        lustre = plan_lustre(draft, plan_links(draft))
        if lustre is not None:  # without one the draft says why; the other steps add what they find
            limits = lustre.limits
            warn_stall_bound(draft, lustre)
    elif hot == "express":
        express = plan_express(draft)
        limits = express_limits(draft, choice.s3)
    result = outcome(needs, limits)
    lustre_plan = None if lustre is None else lustre.plan
    compute = plan_fleet(draft, lustre_plan)
    node = plan_node(draft, choice.tiers, lustre_plan)
    warn_unused(draft, choice.tiers, shared_cache=node.shared_cache is not None)
    warn_tiers(draft, choice, result)
    if draft.problems:
        raise PlanError(draft.problems)
    prediction = predict(draft, limits, result, lustre_plan)
    warn_data_wait(draft, prediction, choice.tiers)
    parts = Parts(
        tiers=choice.tiers,
        lustre=lustre_plan,
        express=express,
        s3_files=node.s3_files,
        shared_cache=node.shared_cache,
        mounts=node.mounts,
        prediction=prediction,
    )
    cost = estimate(draft, parts, run_h=_run_h(workload, run_length))
    warn_would_serve(draft, choice, cost)
    warn_lustre_cheaper(draft, choice, cost)
    return Plan(
        workload=workload,
        region_partition=region.partition,
        catalog=catalog,
        accelerators=needs.accelerators,
        demand=needs.demand,
        tiers=choice.tiers,
        compute=compute,
        lustre=lustre_plan,
        express=express,
        shared_cache=node.shared_cache,
        s3_files=node.s3_files,
        mounts=node.mounts,
        paths=node.paths,
        prediction=prediction,
        decisions=tuple(draft.decisions),
        cost=cost,
        assumptions=tuple(draft.assumptions),
        warnings=tuple(draft.warnings),
    )


def _run_h(workload: Workload, run_length: Duration | None) -> float | None:
    """How long one run trains, hours: as asked, or the time of a Capacity Block; None where neither is known."""
    if run_length is not None:
        return run_length.seconds / 3600
    start, end = workload.compute.start, workload.compute.end
    return None if start is None or end is None else (end - start).total_seconds() / 3600


def _assume_inputs(draft: Draft) -> None:
    """Say which figures of the demand are ours and not the author's."""
    if "accelerator_mttf" not in draft.workload.compute.model_fields_set:
        rate = draft.catalog.training.accelerator_mttf
        draft.assume(
            f"one accelerator fails once in {number(rate.accelerator_mttf_h)} hours, as compute.accelerator_mttf gives "
            f"none: {rate.source.text} ({rate.source.date})"
        )
    checkpoints = draft.workload.checkpoints
    if checkpoints is None:
        return
    if checkpoints.parameters is not None and "bytes_per_parameter" not in checkpoints.model_fields_set:
        draft.assume(
            f"a checkpoint holds {checkpoints.bytes_per_parameter:g} bytes a parameter: 2 of the model, 12 of the "
            "optimizer in mixed precision (MLPerf Storage)"
        )
    if "restart_time" not in checkpoints.model_fields_set:
        usd, price = fleet_usd_per_hour(draft), ""
        if usd is not None:  # a minute of the whole fleet in each time between two failures
            price = f"; each minute of it costs about {number(usd / (60 * draft.needs.mtbf_h))} USD an hour"
        draft.assume(f"nothing is counted from a failure to the start of the restore (checkpoints.restart_time){price}")
