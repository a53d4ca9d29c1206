"""What a test does with what runs in an emulator: nodes, time, schedules, alarms, executions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from training_storage.emulator import world
from training_storage.emulator.errors import EmulatorError

if TYPE_CHECKING:
    from training_storage.emulator.node import EmulatedNode


class Operation:
    """The part of an emulator that is about what runs in it.

    Attributes:
        account: Account that callers without another one belong to.
        region: Region that is meant where none is named.
    """

    account: str
    region: str

    if TYPE_CHECKING:

        def client(self, service: str, *, region: str | None = None, account: str | None = None) -> Any:
            """Return a boto3 client; see ``Emulator``."""

    def node(self, instance_id: str, *, region: str | None = None) -> EmulatedNode:
        """Return what stands for an instance: a root folder, and commands that run in it.

        Args:
            instance_id: An instance that runs, or did.
            region: Region; the emulator's when left out.

        Raises:
            EmulatorError: There is no such instance.
        """
        found = next((node for node in self.nodes(region=region, all_states=True) if node.id == instance_id), None)
        if found is None:
            raise EmulatorError(f"there is no instance {instance_id}")
        return found

    def nodes(
        self, tags: Mapping[str, str] | None = None, *, region: str | None = None, all_states: bool = False
    ) -> list[EmulatedNode]:
        """Return the nodes of all running instances, in the order in which they started.

        Args:
            tags: Only instances with these tags.
            region: Region; the emulator's when left out.
            all_states: Whether instances that stopped are among them.
        """
        from moto.ec2.models import ec2_backends

        from training_storage.emulator.services import instances

        found = list(instances.nodes(ec2_backends[self.account][region or self.region]).values())
        return [node for node in found if (all_states or node.alive) and (tags or {}).items() <= node.tags.items()]

    def on_instance(self, callback: Callable[[EmulatedNode], None]) -> None:
        """Call a function with the node of each instance that starts from now on; that is where a test installs agents.

        Args:
            callback: Called before the call that starts the instance returns.
        """
        from training_storage.emulator.services import instances

        instances.callbacks().append(callback)

    def advance(self, seconds: float) -> None:
        """Let time pass for FSx, metrics, new objects, functions and nodes: code there sees it in ``time.time``.

        A Wait state of a state machine does so by itself, instead of waiting.

        Args:
            seconds: How much.
        """
        world.advance(seconds)

    def now(self) -> float:
        """Return the emulator's time, seconds since 1970: the real one and what ``advance`` added."""
        return world.now()

    @property
    def metrics_lag(self) -> float:
        """How old a minute is, in seconds after its end, when CloudWatch has its datapoint of a file system.

        Below zero, minutes are known before they are over.
        """
        return world.current().metrics_lag

    @metrics_lag.setter
    def metrics_lag(self, seconds: float) -> None:
        world.current().metrics_lag = seconds

    def fire_schedule(self, name: str, *, group: str = "default", region: str | None = None) -> Any:
        """Do what EventBridge Scheduler does when the time of a schedule has come; nothing fires by the clock.

        Args:
            name: Name of the schedule.
            group: Its group.
            region: Region; the emulator's when left out.

        Returns:
            What the target answered: the task, or the execution that was started.

        Raises:
            EmulatorError: There is no such schedule, or it is switched off.
            ClientError: The target refused, as it would have answered Scheduler.
        """
        from training_storage.emulator.services import events

        return events.fire_schedule(self.account, region or self.region, name, group)

    def set_alarm_state(self, name: str, state: str = "ALARM", *, region: str | None = None) -> None:
        """Change an alarm, and start what rules of EventBridge name for it; no alarm looks at its metric.

        Args:
            name: Name of the alarm.
            state: ``ALARM``, ``OK`` or ``INSUFFICIENT_DATA``.
            region: Region; the emulator's when left out.
        """
        cloudwatch = self.client("cloudwatch", region=region)
        cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason="a test says so")

    def finished(self, execution_arn: str, *, timeout: float = 60.0, region: str | None = None) -> dict[str, Any]:
        """Wait for the end of an execution of a state machine; return its description.

        Args:
            execution_arn: The execution.
            timeout: Seconds of real time.
            region: Region; the emulator's when left out.

        Raises:
            EmulatorError: It still runs.
        """
        machines, deadline = self.client("stepfunctions", region=region), time.monotonic() + timeout
        while True:
            found: dict[str, Any] = machines.describe_execution(executionArn=execution_arn)
            if found["status"] != "RUNNING":
                return found
            if time.monotonic() > deadline:
                raise EmulatorError(f"{execution_arn} still runs after {timeout:g} s")
            time.sleep(0.02)
