"""Runs one Lambda handler in a process of its own; started by ``functions.py`` with the event on standard input.

Uses the standard library alone, so that it can run in the function's folder with nothing of ours on its path.
"""

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path


class Context:
    """What a handler finds in its second argument."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + float(os.environ["_EMULATOR_TIMEOUT"])
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = os.environ["AWS_LAMBDA_FUNCTION_VERSION"]
        self.invoked_function_arn = os.environ["_EMULATOR_FUNCTION_ARN"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.aws_request_id = os.environ["_EMULATOR_REQUEST_ID"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]
        self.identity = None
        self.client_context = None

    def get_remaining_time_in_millis(self) -> int:
        """Return what is left of the function's timeout."""
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def _set_clock() -> None:
    ahead = float(os.environ.pop("_EMULATOR_CLOCK", "0"))
    if ahead:
        real, real_ns = time.time, time.time_ns
        time.time = lambda: real() + ahead
        time.time_ns = lambda: real_ns() + round(ahead * 1e9)


def main() -> int:
    """Import the handler, call it, and write its answer where the parent looks for it."""
    result = Path(os.environ.pop("_EMULATOR_RESULT"))
    _set_clock()
    sys.path[0] = os.getcwd()  # noqa: PTH109 - sys.path holds text
    try:
        module, _, function = os.environ["_HANDLER"].rpartition(".")
        handler = getattr(importlib.import_module(module.replace("/", ".")), function)
        answer = json.dumps(handler(json.load(sys.stdin), Context()))
    except BaseException as error:
        traceback.print_exc()
        stack = traceback.format_tb(error.__traceback__)
        problem = {"errorMessage": str(error), "errorType": type(error).__name__, "stackTrace": stack}
        result.write_text(json.dumps(problem), encoding="utf-8")
        return 1
    result.write_text(answer, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
