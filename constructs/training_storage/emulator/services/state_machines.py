"""Step Functions: state machines really run, also those that CloudFormation made; their waits take no time."""

from __future__ import annotations

import re
import sys
import time
import uuid
from types import SimpleNamespace
from typing import Any

from training_storage.emulator import world
from training_storage.emulator._moto import Patches
from training_storage.emulator.services import instances

# A path that can only ever mean one value: names and literal indices, no wildcard, slice, filter or descent.
_DEFINITE = re.compile(r"\$(?:\.[\w-]+|\['[^']*'\]|\[\d+\])*")

# A wait takes this much real time, in seconds, and lets the emulator's clock go on by all of it: whoever waits sees
# time pass. While a command runs on a node, a wait lasts until it ends, but no longer than the second one.
_WAIT_S, _WAIT_FOR_NODES_S = 0.05, 1.0

# What error names of SDK integrations begin with: names of the SDK for Java (Step Functions Developer Guide, "Using AWS
# SDK service integrations")
_ERROR_NAMES = {"cloudformation": "CloudFormation", "cloudwatch": "CloudWatch", "ec2": "Ec2", "fsx": "FSx", "s3": "S3"}

# Names of functions differ from one emulator to the next, and decide nothing about a definition.
_FUNCTION_NAME = re.compile(r"(?<=:function:)[\w-]+")

_valid: set[str] = set()
"""Definitions that were found right: to look through one takes longer than the rest of its stack."""

# Events of a page that does not say how many it takes (Step Functions API reference, GetExecutionHistory)
_PAGE = 100


def _wait(seconds: float) -> float:
    """Wait for a moment, let the clock go on, and return how long it was."""
    began = time.monotonic()
    while (gone := time.monotonic() - began) < seconds:
        if gone >= (_WAIT_FOR_NODES_S if instances.busy() else _WAIT_S):
            break
        time.sleep(0.01)
    gone = time.monotonic() - began
    world.advance(max(0.0, seconds - gone))
    return gone


def _install_waits(patches: Patches) -> None:
    from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
    from moto.stepfunctions.parser.asl.component.program.program import Program
    from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
        state_task_service_aws_sdk,
        state_task_service_callback,
    )
    from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import WaitFunction

    evaluate = Program.eval

    def eval_program(self: Any, env: Any) -> None:
        env.emulator_left = self.timeout_seconds.timeout_seconds if self.timeout_seconds else None
        evaluate(self, env)

    def wait_interval(_self: Any, env: Any, wait_seconds: float) -> None:
        left = getattr(env, "emulator_left", None)
        if left is not None:
            # the machine's own time limit counts what was waited for, not what waiting took here
            env.emulator_left = left - wait_seconds
            if env.emulator_left < 0:
                _wait(left)
                env.set_timed_out()
                return
        if env.is_running():
            _wait(wait_seconds)

    patches.set(Program, "eval", eval_program)
    patches.set(WaitFunction, "_wait_interval", wait_interval)
    patches.set(retrier_decl, "time", SimpleNamespace(sleep=_wait))
    patches.set(state_task_service_callback, "_DELAY_SECONDS_SYNC_CONDITION_CHECK", _WAIT_S)
    names = {**state_task_service_aws_sdk._SERVICE_ERROR_NAMES, **_ERROR_NAMES}
    patches.set(state_task_service_aws_sdk, "_SERVICE_ERROR_NAMES", names)


def _install_checks(patches: Patches) -> None:
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend

    check = StepFunctionsParserBackend._validate_definition

    def validate_definition(definition: str) -> None:
        known = _FUNCTION_NAME.sub("*", definition)
        if known not in _valid:
            check(definition)
            _valid.add(known)

    patches.set(StepFunctionsParserBackend, "_validate_definition", staticmethod(validate_definition))


def _install_pages(patches: Patches) -> None:
    from moto.core.responses import ActionResult
    from moto.stepfunctions.responses import StepFunctionResponse

    def get_execution_history(self: Any) -> Any:
        # moto gives the whole history whatever is asked for: whoever looks often waits for all of it each time
        found = self.stepfunction_backend.get_execution_history(self._get_param("executionArn"))["events"]
        events = sorted(found, key=lambda each: int(each["id"]), reverse=bool(self._get_param("reverseOrder")))
        begin = int(self._get_param("nextToken") or 0)
        end = begin + (int(self._get_param("maxResults") or 0) or _PAGE)
        more = {"nextToken": str(end)} if end < len(events) else {}
        return ActionResult({"events": events[begin:end], **more})

    patches.set(StepFunctionResponse, "get_execution_history", get_execution_history)


def install(patches: Patches) -> None:
    """Let moto's interpreter hold every state machine, and read ``$.list[0].name`` as one value.

    Which backend answers is set where the emulator starts moto.
    """
    from jsonpath_ng.ext.parser import parse
    from moto.stepfunctions import models
    from moto.stepfunctions.parser.asl.utils import json_path
    from moto.stepfunctions.parser.models import StepFunctionsParserBackend, stepfunctions_parser_backends

    patches.set(models, "stepfunctions_backends", stepfunctions_parser_backends)
    _install_waits(patches)
    _install_checks(patches)
    _install_pages(patches)
    start = StepFunctionsParserBackend.start_execution

    def start_execution(self: Any, state_machine_arn: str, name: str | None = None, *given: Any, **more: Any) -> Any:
        # moto calls every execution without a name "None", and refuses the second one
        return start(self, state_machine_arn, name or str(uuid.uuid4()), *given, **more)

    patches.set(StepFunctionsParserBackend, "start_execution", start_execution)

    original = json_path.extract_json

    def extract_json(path: str, data: Any) -> Any:
        found = original(path, data)
        if not _DEFINITE.fullmatch(path):
            return found
        # moto wraps what stands behind an index into a list of one; AWS does so for indefinite paths only
        matches = parse(path).find(data)
        return matches[0].value if matches else found

    for module in list(sys.modules.values()):
        if getattr(module, "extract_json", None) is original:
            patches.set(module, "extract_json", extract_json)
