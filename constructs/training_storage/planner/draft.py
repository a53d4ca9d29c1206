"""The plan while it is being written: what is known, and the lists that every step adds to."""

from __future__ import annotations

from dataclasses import dataclass, field

from training_storage.catalog import Catalog
from training_storage.catalog.model import InstanceType, Region
from training_storage.errors import Problem
from training_storage.planner.demand import Needs
from training_storage.planner.model import Decision, PlanWarning
from training_storage.workload.model import Workload

RANKING_REGION = "us-east-1"
"""Region whose price rows rank Lustre configurations everywhere: the only one with a row for every tier."""


@dataclass(slots=True, kw_only=True)
class Draft:
    """What the steps of one plan share.

    Attributes:
        workload: The workload.
        catalog: The facts.
        region: The region's row.
        facts: The instance type's row.
        needs: The demand.
        problems: Why there is no legal plan; every step adds, and one error carries them all.
        decisions: Options that were looked at, in the order in which they were.
        assumptions: What the plan takes for granted.
        warnings: What the reader should know before deploying.
        told: Whether somebody reads decisions and assumptions; where nobody does, they stay empty.
    """

    workload: Workload
    catalog: Catalog
    region: Region
    facts: InstanceType
    needs: Needs
    problems: list[Problem] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    warnings: list[PlanWarning] = field(default_factory=list)
    told: bool = True

    def choose(self, rule: str, option: str, because: str) -> None:
        """Note the option that was taken."""
        if self.told:
            self.decisions.append(Decision(rule=rule, option=option, verdict="chosen", because=because))

    def reject(self, rule: str, option: str, because: str) -> None:
        """Note an option that was looked at and not taken."""
        if self.told:
            self.decisions.append(Decision(rule=rule, option=option, verdict="rejected", because=because))

    def assume(self, text: str) -> None:
        """Note what is taken for granted, once."""
        if self.told and text not in self.assumptions:
            self.assumptions.append(text)

    def warn(self, warning_id: str, message: str) -> None:
        """Note a warning."""
        self.warnings.append(PlanWarning(id=warning_id, message=message))

    def refuse(self, what: str, *, path: str, value: object = None, allowed: str = "", fix: str = "") -> None:
        """Note why there is no legal plan."""
        self.problems.append(Problem(what=what, path=path, value=value, allowed=allowed, fix=fix))
