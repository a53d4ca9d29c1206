"""The safe release of a run: proven by the machine in the lake's stack, confirmed by a person, and then deleted.

Everything is done by the machine; this module starts it, joins it and follows it. Interrupting loses nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from training_storage.node.aws import Aws
from training_storage.operations.release_execution import POLL_S, REFUSED, Execution, Look, follow, running, start
from training_storage.operations.release_find import Deployed, find_deployed


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """How a release went.

    Attributes:
        deployed: What was deployed when it began.
        outcome: ``checked``, ``refused``, ``not-confirmed``, ``released``, ``nothing-to-release`` or ``abandoned``.
        execution: ARN of the last execution; empty without one.
        joined: Whether somebody else had started it.
        state: What the machine ended with.
    """

    deployed: Deployed
    outcome: str
    execution: str = ""
    joined: bool = False
    state: Mapping[str, Any]

    @property
    def proof(self) -> Mapping[str, Any] | None:
        """The proof; None where there is none."""
        found = self.state.get("proof")
        return found if isinstance(found, dict) else None

    @property
    def refused(self) -> str:
        """Why not, in words; empty where nothing was refused."""
        return str(self.state.get("refused") or "") if self.outcome == "refused" else ""

    @property
    def blocking(self) -> tuple[str, ...]:
        """What blocks it, by name."""
        return tuple(str(each) for each in self.state.get("blocking") or ()) if self.outcome == "refused" else ()

    @property
    def is_no(self) -> bool:
        """Whether the answer is no."""
        return self.outcome in ("refused", "not-confirmed")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for ``--format json``."""
        return {
            "workload": self.deployed.name,
            "region": self.deployed.region,
            "outcome": self.outcome,
            "execution": self.execution or None,
            "joined": self.joined,
            "hot_tier_id": self.state.get("hot_tier_id") or self.deployed.hot_tier_id,
            "message": str(self.state.get("message") or ""),
            "refused": self.refused or None,
            "blocking": list(self.blocking),
            "found": dict(self.state.get("found") or {}),
            "stacks": list(self.deployed.stacks),
            "kept": list(self.state.get("kept") or ()),
            "proof": None if self.proof is None else dict(self.proof),
        }


def release(
    aws: Aws,
    name: str,
    region: str,
    *,
    dry_run: bool = False,
    leave: Sequence[str] = (),
    confirm: Callable[[Release], bool],
    on_start: Callable[[str, bool], None] | None = None,
    on_look: Callable[[Look], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    poll_s: float = POLL_S,
) -> Release:
    """Prove that a run is in S3, ask, and delete it.

    Args:
        aws: Clients.
        name: The workload's name.
        region: Region of the clients.
        dry_run: Only look: nothing is exported or deleted. A storage node is started where no node is there to look.
        leave: Paths that are left behind on purpose.
        confirm: Asked with the proof; what it denies is not deleted.
        on_start: Called with the action of each execution, and whether it was joined.
        on_look: Called with each look at it.
        sleep: Replaced in tests.
        poll_s: Seconds between two looks.

    Raises:
        RefusedError: Nothing is deployed, or no machine that releases it.
        AwsError: AWS refused or failed.
    """
    deployed = find_deployed(aws, name, region)

    def run(action: str, **more: Any) -> tuple[Execution, bool]:
        wanted = {"workload": name, "action": action, "leave": sorted(set(leave)), **more}
        while True:
            other = running(aws, deployed.machine_arn)
            execution = other or start(aws, deployed.machine_arn, wanted)
            # What somebody else asks for at the same moment is joined, and what the schedule looks at is waited for.
            joined = other is not None or execution.given != wanted
            if on_start is not None:
                on_start(execution.action or action, joined)
            ended = follow(aws, execution, on_look=on_look, sleep=sleep, poll_s=poll_s)
            if not joined or _answers(ended, action, wanted):
                return ended, joined

    def result(execution: Execution, joined: bool, outcome: str) -> Release:
        if execution.error == REFUSED:
            outcome = "refused"
        elif execution.state.get("step") == "preconditions":
            outcome = "nothing-to-release"
        return Release(
            deployed=deployed, outcome=outcome, execution=execution.arn, joined=joined, state=execution.state
        )

    ended, joined = run("check" if dry_run else "prove")
    if ended.action == "release":
        return result(ended, joined, "released")
    proven = result(ended, joined, "checked" if dry_run else "proven")
    if dry_run or proven.outcome != "proven":
        return proven
    if not confirm(proven):
        return result(ended, joined, "not-confirmed")
    given = {} if proven.proof is None else {"proof": proven.proof.get("valid_from")}
    ended, joined = run("release", **given)
    return result(ended, joined, "released")


def _answers(ended: Execution, action: str, wanted: Mapping[str, Any]) -> bool:
    """Whether an execution that was joined answers what was asked for."""
    if ended.action == "release":
        # One that only looked whether the run is idle has released nothing where it is not.
        return ended.state.get("status") == "done" or "idle_hours" not in ended.given
    return ended.action == action and ended.given.get("leave") == wanted.get("leave")
