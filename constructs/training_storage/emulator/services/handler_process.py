"""Runs a Lambda handler in a process of its own, event after event; started by ``functions.py``.

A line on standard input is one invocation, a line on standard output says that it is over. Uses the standard library
alone, so that it can run in the function's folder with nothing of ours on its path.
"""

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

_ahead = [0.0]
"""Seconds by which the emulated time is ahead; of the event that is worked now."""


class Context:
    """What a handler finds in its second argument."""

    def __init__(self, request_id: str, timeout_s: float) -> None:
        self._deadline = time.monotonic() + timeout_s
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.invoked_function_arn = os.environ["_EMULATOR_FUNCTION_ARN"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.aws_request_id = request_id
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.identity = None
        self.client_context = None

    def get_remaining_time_in_millis(self) -> int:
        """Return what is left of the function's timeout."""
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def _install_clock() -> None:
    """Once, before the handler is imported: its modules keep the function in defaults of theirs."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + _ahead[0]
    time.time_ns = lambda: real_ns() + round(_ahead[0] * 1e9)


def _answer(given: dict[str, Any]) -> tuple[str, bool]:
    """Import the handler where that is not done yet, and call it; return its answer as JSON, and whether it failed."""
    try:
        module, _, function = os.environ["_HANDLER"].rpartition(".")
        handler = getattr(importlib.import_module(module.replace("/", ".")), function)
        return json.dumps(handler(given["event"], Context(given["request_id"], given["timeout"]))), False
    except BaseException as error:
        traceback.print_exc()
        stack = traceback.format_tb(error.__traceback__)
        problem = {"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": stack}
        return json.dumps(problem), True


def _send_output_to(path: str) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def main() -> None:
    """Work invocations until the parent closes its end."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.path[0] = os.getcwd()  # noqa: PTH109 - sys.path holds text
    _install_clock()
    for line in requests:
        given = json.loads(line)
        _ahead[0] = given["ahead"]
        _send_output_to(given["log"])
        answer, failed = _answer(given)
        Path(given["result"]).write_text(answer, encoding="utf-8")
        _send_output_to(os.devnull)
        answers.write(f"{int(failed)}\n")
        answers.flush()


if __name__ == "__main__":
    main()
