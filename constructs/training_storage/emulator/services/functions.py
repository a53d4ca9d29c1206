"""Lambda without containers: Python handlers run in processes of their own, against the emulated services."""

from __future__ import annotations

import json
import os
from typing import Any

from training_storage.emulator import server, world
from training_storage.emulator._moto import Patches
from training_storage.emulator.services import accounts, handlers

# What a handler may see of the caller's environment: no credentials, no proxies, no profile.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT")


def _error(kind: str, message: str) -> tuple[str, bool, str]:
    answer = json.dumps({"errorType": kind, "errorMessage": message})
    return answer, True, message


def run(function: Any, event: Any) -> tuple[str, bool, str]:
    """Run a function's handler.

    Returns:
        Its answer as JSON, whether it failed, and what it logged.
    """
    runtime = str(function.run_time or "")
    if not runtime.startswith("python"):
        return _error(
            "Runtime.Unsupported",
            f"the emulator runs Python handlers only; {function.function_name} has runtime {runtime or 'none'}",
        )
    layers, environment = _layers(function), _environment(function)
    code, timeout = bytes(function.code_bytes), float(function.timeout or 3)
    handler = handlers.take(handlers.key_of(code, layers, environment), code, layers, environment)
    try:
        answer, failed, log = handler.work(event, timeout)
    except TimeoutError as error:
        handler.end()
        answer, _, message = _error("Sandbox.Timedout", f"Task timed out after {timeout:.2f} seconds")
        return answer, True, f"{error}{message}"
    except BaseException:
        handler.end()
        raise
    ended = handler.code
    handlers.give_back(handler)
    if answer is None:
        return _error("Runtime.ExitError", f"the handler's process ended with {ended}: {log[-2000:]}")
    return answer, failed, log


def _layers(function: Any) -> list[bytes]:
    from moto.awslambda.utils import get_backend

    backend = get_backend(function.account_id, function.region)
    found = [backend.layers_versions_by_arn(layer["Arn"]) for layer in function.layers]
    return [bytes(layer.code_bytes) for layer in found if layer is not None]


def _environment(function: Any) -> dict[str, str]:
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment.update(
        {
            "_HANDLER": str(function.handler),
            "_EMULATOR_FUNCTION_ARN": str(function.function_arn),
            "AWS_ACCESS_KEY_ID": accounts.access_key(function.account_id),
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_SESSION_TOKEN": "testing",
            "AWS_REGION": function.region,
            "AWS_DEFAULT_REGION": function.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_ENDPOINT_URL": server.shared().url,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
            "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
            "AWS_LAMBDA_FUNCTION_VERSION": str(function.version),
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
            "AWS_LAMBDA_LOG_GROUP_NAME": function.logs_group_name,
            "AWS_LAMBDA_LOG_STREAM_NAME": "emulated",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
    )
    environment.update({key: str(value) for key, value in (function.environment_vars or {}).items()})
    return environment


def install(patches: Patches) -> None:
    """Run handlers here instead of in a container."""
    from moto.awslambda.models import LambdaFunction

    def _invoke_lambda(self: Any, event: Any = None) -> tuple[str, bool, str]:
        self.logs_backend.ensure_log_group(self.logs_group_name)
        given = json.loads(event) if isinstance(event, str) else event
        answer, failed, log = run(self, given if given is not None else {})
        self.save_logs(log or answer)
        return answer, failed, log

    patches.set(LambdaFunction, "_invoke_lambda", _invoke_lambda)
    if handlers.end_all not in world.at_end:
        world.at_end.append(handlers.end_all)
