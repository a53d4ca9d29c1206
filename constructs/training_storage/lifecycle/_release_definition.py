"""The release as states: a task a step, what its answer opens, and an end for every way out.

What travels from state to state is small: counts, ids and keys; lists of files lie in the lake.
"""

from __future__ import annotations

from typing import Any, Final

from training_storage.lifecycle._step_states import machine_of, step_states
from training_storage.node.release.steps import EMPTYING, LAST_OF, STEPS

LONGEST_RUN_S: Final = 2 * 24 * 3600
"""Two days: an export of 100 million small files at 1,000 a second takes one."""


def definition(function_arn: str, partition: str, *, empties: bool = False) -> str:
    """Return the definition of the state machine.

    Args:
        function_arn: The function that works a step.
        partition: Partition of the integration's ARN.
        empties: Whether directory buckets are emptied after the proof. Left out, no state does it.
    """
    states: dict[str, Any] = {}
    names = [each for each in STEPS if empties or each != EMPTYING]
    for step, following in zip(names, [*names[1:], "done"], strict=True):
        ends = [action for action, last in LAST_OF.items() if last == step]
        states |= step_states(step, following, function_arn, partition, ends=ends)
    return machine_of(
        states,
        start=names[0],
        longest_s=LONGEST_RUN_S,
        comment="Proves that everything of a run that must be kept is in S3, and deletes the run",
    )
