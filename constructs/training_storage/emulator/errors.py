"""What the emulator raises; every message is meant for the person at the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from training_storage.errors import TrainingStorageError


class EmulatorError(TrainingStorageError):
    """The emulator cannot do what was asked."""


class EmulatorUnavailableError(EmulatorError):
    """The packages of the ``emulator`` extra are missing, or their version is not one the emulator was made for."""


@dataclass(frozen=True, slots=True)
class StackEvent:
    """One line of a stack's history.

    Attributes:
        logical_id: Logical id of the resource, or the stack's name.
        resource_type: CloudFormation type such as ``AWS::FSx::FileSystem``.
        status: For example ``CREATE_FAILED``.
        reason: Why; empty when nothing was said.
    """

    logical_id: str
    resource_type: str
    status: str
    reason: str = ""


class StackFailedError(EmulatorError):
    """A stack did not reach the state that was asked for.

    Attributes:
        stack_name: Name of the stack.
        status: Status the stack ended in, for example ``ROLLBACK_COMPLETE``; empty when the template was refused.
        reason: The first failure, in the service's words.
        events: The stack's events, oldest first.
    """

    def __init__(self, stack_name: str, status: str, reason: str, events: Sequence[StackEvent] = ()) -> None:
        self.stack_name = stack_name
        self.status = status
        self.reason = reason
        self.events = tuple(events)
        state = f" ended in {status}" if status else " was refused"
        super().__init__(f"stack {stack_name}{state}: {reason}")
