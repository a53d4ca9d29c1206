"""From a workload and the catalog to a plan. Pure: no AWS, no CDK, no clock, no randomness."""

from __future__ import annotations

from training_storage.planner.model import (
    ComputePlan,
    Decision,
    Demand,
    ExpressPlan,
    LinkPlan,
    LustrePlan,
    MountPlan,
    Paths,
    Plan,
    PlanWarning,
    S3FilesPlan,
    Tiers,
)
from training_storage.planner.model_cost import AfterRun, Cost, CostLine
from training_storage.planner.model_prediction import FirstEpoch, Prediction, SupplyLimit
from training_storage.planner.planning import plan

__all__ = [
    "AfterRun",
    "ComputePlan",
    "Cost",
    "CostLine",
    "Decision",
    "Demand",
    "ExpressPlan",
    "FirstEpoch",
    "LinkPlan",
    "LustrePlan",
    "MountPlan",
    "Paths",
    "Plan",
    "PlanWarning",
    "Prediction",
    "S3FilesPlan",
    "SupplyLimit",
    "Tiers",
    "plan",
]
