"""Systems Manager for emulated nodes: which are online, and Run Command that really runs.

AWS-RunShellScript runs its commands with bash in the environment of the node; no other document is known. Output is cut
where the API cuts it (SSM API reference, GetCommandInvocation and CommandPlugin).
"""

from __future__ import annotations

import subprocess
import threading
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.ssm.models import SimpleSystemManagerBackend
from moto.ssm.responses import SimpleSystemManagerResponse

from training_storage.emulator import world
from training_storage.emulator._moto import Patches
from training_storage.emulator.node import EmulatedNode
from training_storage.emulator.services import instances

_DOCUMENT = "AWS-RunShellScript"
_MOST_INSTANCES = 50
_INVOCATION_OUTPUT, _PLUGIN_OUTPUT = 24_000, 2_500
_DEFAULT_EXECUTION_S, _DEFAULT_DELIVERY_S = 3600.0, 3600.0
_OVER = ("Success", "Failed", "TimedOut", "Cancelled")


@dataclass
class _Invocation:
    """One command on one node.

    Attributes:
        node: The node.
        status: Status as the API has it.
        details: Its more exact form.
        code: Exit code; -1 until there is one.
        output: Standard output.
        errors: Standard error.
        started: When it began to run.
        ended: When it ended.
        process: The process, while it runs.
    """

    node: EmulatedNode
    status: str = "Pending"
    details: str = "Pending"
    code: int = -1
    output: str = ""
    errors: str = ""
    started: float | None = None
    ended: float | None = None
    process: Any = None


@dataclass
class _Command:
    """What was sent.

    Attributes:
        id: Command id.
        comment: Comment of the caller.
        script: The commands, a line each.
        folder: Working directory; empty for the node's root.
        delivery_s: Seconds in which a node must begin.
        execution_s: Seconds in which it must end.
        sent: When.
        parameters: Parameters as they were given.
        invocations: By instance.
    """

    id: str
    comment: str
    script: str
    folder: str
    delivery_s: float
    execution_s: float
    sent: float
    parameters: dict[str, list[str]]
    invocations: dict[str, _Invocation] = field(default_factory=dict)


_commands: WeakKeyDictionary[SimpleSystemManagerBackend, dict[str, _Command]] = WeakKeyDictionary()


def _error(code: str, message: str = "") -> JsonRESTError:
    return JsonRESTError(code, message)


def _nodes(backend: Any) -> dict[str, EmulatedNode]:
    from moto.ec2.models import ec2_backends

    return instances.nodes(ec2_backends[backend.account_id][backend.region_name])


def _alive(backend: Any) -> dict[str, EmulatedNode]:
    return {key: node for key, node in _nodes(backend).items() if node.alive}


def _run(command: _Command, invocation: _Invocation) -> None:
    node = invocation.node
    while not node.online:
        if world.now() > command.sent + command.delivery_s or not node.alive:
            _end(invocation, "TimedOut", "DeliveryTimedOut")
            return
        if invocation.status in _OVER:
            return
        time.sleep(0.01)
    if invocation.status in _OVER:
        return
    folder = node.root / command.folder.strip("/") if command.folder else None
    try:
        invocation.process = process = node.start(command.script, folder=folder)
    except OSError as error:
        invocation.errors, invocation.code = str(error), 1
        _end(invocation, "Failed", "Failed")
        return
    invocation.started = world.now()
    invocation.status = invocation.details = "InProgress"
    try:
        code, output, errors = node.finish(process, command.execution_s)
    except subprocess.TimeoutExpired:
        invocation.code = 137
        _end(invocation, "TimedOut", "ExecutionTimedOut")
        return
    if not node.alive:
        return  # nobody is there who could say how it ended: it stays as it is until its time is over
    invocation.code, invocation.output, invocation.errors = code, output, errors
    if invocation.status != "Cancelled":
        _end(invocation, *(("Success", "Success") if code == 0 else ("Failed", "Failed")))


def _end(invocation: _Invocation, status: str, details: str) -> None:
    invocation.ended = world.now()
    invocation.details, invocation.status = details, status


def _moment(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _late(command: _Command, invocation: _Invocation) -> None:
    """Give up on an invocation whose node is gone when its time is over."""
    gone = invocation.status not in _OVER and not invocation.node.alive
    if gone and world.now() > command.sent + command.delivery_s + command.execution_s:
        _end(invocation, "TimedOut", "ExecutionTimedOut" if invocation.started else "DeliveryTimedOut")


def _shown_command(command: _Command) -> dict[str, Any]:
    statuses = [item.status for item in command.invocations.values()]
    if any(status not in _OVER for status in statuses):
        status = "Pending" if set(statuses) == {"Pending"} else "InProgress"
    else:
        status = next((one for one in ("Cancelled", "TimedOut", "Failed") if one in statuses), "Success")
    return {
        "CommandId": command.id,
        "DocumentName": _DOCUMENT,
        "DocumentVersion": "$DEFAULT",
        "Comment": command.comment,
        "ExpiresAfter": command.sent + command.delivery_s + command.execution_s,
        "Parameters": command.parameters,
        "InstanceIds": list(command.invocations),
        "Targets": [],
        "RequestedDateTime": command.sent,
        "Status": status,
        "StatusDetails": status,
        "TargetCount": len(statuses),
        "CompletedCount": sum(status in _OVER for status in statuses),
        "ErrorCount": sum(status in ("Failed", "TimedOut") for status in statuses),
        "DeliveryTimedOutCount": sum(item.details == "DeliveryTimedOut" for item in command.invocations.values()),
        "TimeoutSeconds": int(command.delivery_s),
    }


class _Operations:
    """Operations of the SSM API, as methods of moto's response class."""

    def describe_instance_information(self: Any) -> ActionResult:
        found = [_information(node) for node in _alive(self.ssm_backend).values()]
        given = [(one["Key"], one["Values"]) for one in self._get_param("Filters") or ()]
        given += [(one["key"], one["valueSet"]) for one in self._get_param("InstanceInformationFilterList") or ()]
        for key, values in given:
            if key == "InstanceIds":
                known = {item["InstanceId"] for item in found}
                if unknown := set(values) - set(_nodes(self.ssm_backend)):
                    raise _error("InvalidInstanceId", f"{sorted(unknown)[0]}")
                found = [item for item in found if item["InstanceId"] in known & set(values)]
            elif key == "PingStatus":
                found = [item for item in found if item["PingStatus"] in values]
            elif key.startswith("tag:"):
                tags = {item["InstanceId"]: _nodes(self.ssm_backend)[item["InstanceId"]].tags for item in found}
                found = [item for item in found if tags[item["InstanceId"]].get(key[4:]) in values]
            else:
                raise _error("InvalidInstanceInformationFilterValue", f"the emulator has no filter {key}")
        start = int(self._get_param("NextToken") or 0)
        end = start + int(self._get_param("MaxResults") or 50)
        more = {"NextToken": str(end)} if end < len(found) else {}
        return ActionResult({"InstanceInformationList": found[start:end], **more})

    def send_command(self: Any) -> ActionResult:
        backend = self.ssm_backend
        if self._get_param("DocumentName") != _DOCUMENT:
            raise _error("InvalidDocument", f"the emulator runs {_DOCUMENT}, not {self._get_param('DocumentName')}")
        alive = _alive(backend)
        chosen = list(self._get_param("InstanceIds") or ())
        if len(chosen) > _MOST_INSTANCES:
            raise _error("ValidationException", f"at most {_MOST_INSTANCES} instance ids")
        for target in self._get_param("Targets") or ():
            key, values = target["Key"], target["Values"]
            chosen += [
                name
                for name, node in alive.items()
                if (key == "InstanceIds" and name in values)
                or (key.startswith("tag:") and node.tags.get(key[4:]) in values)
            ]
        if unknown := [name for name in chosen if name not in alive]:
            raise _error("InvalidInstanceId", f"Instances [[{', '.join(unknown)}]] not in a valid state for account")
        parameters = self._get_param("Parameters") or {}
        command = _Command(
            id=str(uuid.uuid4()),
            comment=self._get_param("Comment") or "",
            script="\n".join(parameters.get("commands") or ()),
            folder="".join(parameters.get("workingDirectory") or ()),
            delivery_s=float(self._get_param("TimeoutSeconds") or _DEFAULT_DELIVERY_S),
            execution_s=float("".join(parameters.get("executionTimeout") or ()) or _DEFAULT_EXECUTION_S),
            sent=world.now(),
            parameters=parameters,
        )
        _commands.setdefault(backend, {})[command.id] = command
        sent = _shown_command(command)
        for name in dict.fromkeys(chosen):
            instances.mount_missing(_ec2(backend), alive[name])
            invocation = command.invocations[name] = _Invocation(alive[name])
            threading.Thread(target=_run, args=(command, invocation), name=f"command {command.id}", daemon=True).start()
        return ActionResult({"Command": {**sent, "InstanceIds": list(command.invocations), "Status": "Pending"}})

    def list_commands(self: Any) -> ActionResult:
        commands = _commands.get(self.ssm_backend, {})
        wanted, instance = self._get_param("CommandId"), self._get_param("InstanceId")
        if wanted and wanted not in commands:
            raise _error("InvalidCommandId")
        found = [commands[wanted]] if wanted else list(commands.values())
        found = [command for command in found if instance is None or instance in command.invocations]
        return ActionResult({"Commands": [_shown_command(command) for command in reversed(found)]})

    def get_command_invocation(self: Any) -> ActionResult:
        command, instance = _commands.get(self.ssm_backend, {}), self._get_param("InstanceId")
        sent = command.get(self._get_param("CommandId"))
        if sent is None or instance not in sent.invocations:
            raise _error("InvocationDoesNotExist")
        invocation = sent.invocations[instance]
        _late(sent, invocation)
        over = invocation.status in _OVER
        return ActionResult(
            {
                "CommandId": sent.id,
                "InstanceId": instance,
                "Comment": sent.comment,
                "DocumentName": _DOCUMENT,
                "DocumentVersion": "$DEFAULT",
                "PluginName": "aws:runShellScript",
                "ResponseCode": invocation.code,
                "ExecutionStartDateTime": _moment(invocation.started),
                "ExecutionEndDateTime": _moment(invocation.ended),
                "Status": invocation.status,
                "StatusDetails": invocation.details,
                "StandardOutputContent": _cut(invocation.output, _INVOCATION_OUTPUT) if over else "",
                "StandardOutputUrl": "",
                "StandardErrorContent": _cut(invocation.errors, _INVOCATION_OUTPUT) if over else "",
                "StandardErrorUrl": "",
            }
        )

    def list_command_invocations(self: Any) -> ActionResult:
        wanted, instance = self._get_param("CommandId"), self._get_param("InstanceId")
        commands = _commands.get(self.ssm_backend, {})
        if wanted and wanted not in commands:
            raise _error("InvalidCommandId")
        shown = []
        for command in [commands[wanted]] if wanted else list(commands.values()):
            for name, invocation in command.invocations.items():
                if instance in (None, name):
                    _late(command, invocation)
                    shown.append(_shown_invocation(command, name, invocation, self._get_param("Details")))
        start = int(self._get_param("NextToken") or 0)
        end = start + int(self._get_param("MaxResults") or 50)
        more = {"NextToken": str(end)} if end < len(shown) else {}
        return ActionResult({"CommandInvocations": shown[start:end], **more})

    def cancel_command(self: Any) -> ActionResult:
        command = _commands.get(self.ssm_backend, {}).get(self._get_param("CommandId"))
        if command is None:
            raise _error("InvalidCommandId")
        for name, invocation in command.invocations.items():
            chosen = self._get_param("InstanceIds")
            if invocation.status not in _OVER and (not chosen or name in chosen):
                _end(invocation, "Cancelled", "Cancelled")
                if invocation.process is not None:
                    invocation.node.stop(invocation.process)
        return ActionResult({})


def _ec2(backend: Any) -> Any:
    from moto.ec2.models import ec2_backends

    return ec2_backends[backend.account_id][backend.region_name]


def _cut(text: str, size: int) -> str:
    mark = "\n---Output truncated---"
    return text if len(text) <= size else text[: size - len(mark)] + mark


def _information(node: EmulatedNode) -> dict[str, Any]:
    return {
        "InstanceId": node.id,
        "PingStatus": "Online" if node.online else "ConnectionLost",
        "LastPingDateTime": world.now(),
        "AgentVersion": "3.3.987.0",
        "IsLatestVersion": True,
        "PlatformType": "Linux",
        "PlatformName": "Amazon Linux",
        "PlatformVersion": "2023",
        "ResourceType": "EC2Instance",
        "ComputerName": node.id,
    }


def _shown_invocation(command: _Command, name: str, invocation: _Invocation, details: Any) -> dict[str, Any]:
    shown = {
        "CommandId": command.id,
        "InstanceId": name,
        "InstanceName": name,
        "Comment": command.comment,
        "DocumentName": _DOCUMENT,
        "DocumentVersion": "$DEFAULT",
        "RequestedDateTime": command.sent,
        "Status": invocation.status,
        "StatusDetails": invocation.details,
        "CommandPlugins": [],
    }
    if details in (True, "true", "True"):
        plugin = {
            "Name": "aws:runShellScript",
            "Status": invocation.status,
            "StatusDetails": invocation.details,
            "ResponseCode": invocation.code,
            "Output": _cut(invocation.output + invocation.errors, _PLUGIN_OUTPUT),
        }
        times = {"ResponseStartDateTime": invocation.started, "ResponseFinishDateTime": invocation.ended}
        shown["CommandPlugins"] = [plugin | {key: at for key, at in times.items() if at is not None}]
    return shown


def install(patches: Patches) -> None:
    """Put the operations in place of moto's, which answer Success and run nothing."""
    for name, function in vars(_Operations).items():
        if not name.startswith("_"):
            patches.set(SimpleSystemManagerResponse, name, function)
