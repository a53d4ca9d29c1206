"""Lambda without containers: a Python handler runs in a process of its own, against the emulated services."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import uuid
import zipfile
from pathlib import Path
from typing import Any

from training_storage.emulator import server, world
from training_storage.emulator._moto import Patches
from training_storage.emulator.services import accounts

_RUNNER = Path(__file__).with_name("handler_process.py")
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
    with tempfile.TemporaryDirectory(prefix="training-storage-lambda-") as folder:
        code, result = Path(folder) / "task", Path(folder) / "result.json"
        _unpack(function.code_bytes, code)
        paths = []
        for number, layer in enumerate(_layers(function)):
            _unpack(layer, Path(folder) / f"layer{number}")
            paths.append(str(Path(folder) / f"layer{number}" / "python"))
        environment = _environment(function, result, paths)
        timeout = float(function.timeout or 3)
        try:
            done = subprocess.run(  # noqa: S603 - our own interpreter and our own file
                [sys.executable, str(_RUNNER)],
                input=json.dumps(event),
                cwd=code,
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            log = _text(error.stdout) + _text(error.stderr)
            answer, _, message = _error("Sandbox.Timedout", f"Task timed out after {timeout:.2f} seconds")
            return answer, True, log + message
        log = done.stdout + done.stderr
        if not result.exists():
            return _error("Runtime.ExitError", f"the handler's process ended with {done.returncode}: {log[-2000:]}")
        return result.read_text(encoding="utf-8"), done.returncode != 0, log


def _text(value: bytes | str | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def _unpack(archive: bytes, folder: Path) -> None:
    folder.mkdir()
    with zipfile.ZipFile(io.BytesIO(archive)) as bundle:
        bundle.extractall(folder)


def _layers(function: Any) -> list[bytes]:
    from moto.awslambda.utils import get_backend

    backend = get_backend(function.account_id, function.region)
    found = [backend.layers_versions_by_arn(layer["Arn"]) for layer in function.layers]
    return [bytes(layer.code_bytes) for layer in found if layer is not None]


def _environment(function: Any, result: Path, paths: list[str]) -> dict[str, str]:
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment.update(
        {
            "_HANDLER": str(function.handler),
            "_EMULATOR_FUNCTION_ARN": str(function.function_arn),
            "_EMULATOR_REQUEST_ID": str(uuid.uuid4()),
            "_EMULATOR_RESULT": str(result),
            "_EMULATOR_TIMEOUT": str(function.timeout or 3),
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
    if world.running() and world.current().ahead:
        environment["_EMULATOR_CLOCK"] = repr(world.current().ahead)
    if paths:
        environment["PYTHONPATH"] = os.pathsep.join(paths)
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
