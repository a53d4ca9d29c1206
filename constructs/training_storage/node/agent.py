"""The agent of a node: ``agent SUBCOMMAND``, started by a timer and through Systems Manager.

Ends with 0 where the command is done, 1 where it was refused, 3 where AWS or a file system failed, 143 after SIGTERM.
With ``--command-id`` answer and progress go to the lake, where whoever sent the command reads them; without it the
answer is printed. What went wrong is one line for people; the traceback is for the journal.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import pkgutil
import re
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any, Callable

from . import commands, places
from .aws import Aws, connect
from .errors import Ended, Failure, Refusal
from .roots import instance_id, rooted
from .settings import PATH, Settings, load

DONE, REFUSED, FAILED, ENDED = 0, 1, 3, 143

PROGRESS_EVERY_S = 5.0
"""Each progress is a PUT; whoever waits looks every few seconds."""

WRITE_TRIES = 4
"""Tries to write the answer, besides those of boto3: without it nobody learns what a long command has done."""

_DAEMON_ERROR = 3 * 8 + 3
"""Facility daemon, severity error (RFC 3164, section 4.1.1)."""

_COMMAND_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class _Parser(argparse.ArgumentParser):
    """Refuses like every other refusal, so that whoever sent the command gets an answer."""

    def error(self, message: str) -> Any:
        raise Refusal(f"{self.prog}: {message}")


def command_names() -> list[str]:
    """Return the names of the subcommands of this package."""
    return sorted(each.name for each in pkgutil.iter_modules(commands.__path__) if not each.name.startswith("_"))


def answer_key(command_id: str, instance: str) -> str:
    """Return where the answer of one node lies in the lake."""
    return f"{places.ANSWERS}{command_id}/{instance}.json"


def progress_key(command_id: str, instance: str) -> str:
    """Return where the progress of one node lies in the lake."""
    return f"{places.ANSWERS}{command_id}/{instance}.progress.json"


class Desk:
    """Where answer and progress of one command go.

    Args:
        aws: Clients.
        bucket: The lake.
        command_id: Id of the command; empty: the answer is printed, progress is for a terminal alone.
        instance: Id of this instance.
        clock: Seconds; any steady clock.
        sleep: Waits seconds.
    """

    def __init__(
        self,
        aws: Aws,
        bucket: str,
        command_id: str,
        instance: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        self._aws, self._bucket, self._command_id, self._instance = aws, bucket, command_id, instance
        self._clock, self._sleep = clock, sleep
        self._last: float | None = None
        self._lock = threading.Lock()

    def progress(self, figures: dict[str, Any]) -> None:
        """Publish how far the command is, not more often than anybody looks; never a reason to fail."""
        with self._lock:
            now = self._clock()
            if self._last is not None and now - self._last < PROGRESS_EVERY_S:
                return
            self._last = now
        if not self._command_id:
            if sys.stderr.isatty():
                print(json.dumps(figures, sort_keys=True, default=str), file=sys.stderr)
            return
        try:
            self._put(progress_key(self._command_id, self._instance), figures)
        except Exception as error:
            journal(f"progress was not written: {error}")

    def answer(self, state: str, exit_code: int, answer: Any, message: str) -> int:
        """Publish the answer, and return the exit code: 3 where it cannot be written."""
        whole = {"state": state, "exit_code": exit_code, "answer": answer, "message": message}
        if not self._command_id:
            # A command that has nothing to say says nothing, each minute.
            if answer:
                print(json.dumps(answer, indent=2, sort_keys=True, default=str))
            if exit_code != DONE:
                print(f"error: {message}", file=sys.stderr)
            return exit_code
        failure = self._tried(whole)
        for number in range(1, WRITE_TRIES):
            if failure is None:
                break
            self._sleep(2.0**number)
            failure = self._tried(whole)
        if failure is not None:
            print(f"error: the answer was not written to {self._bucket}: {failure}", file=sys.stderr)
            return exit_code or FAILED
        print(f"{state}: {message}" if message else state)
        return exit_code

    def _tried(self, whole: dict[str, Any]) -> Exception | None:
        try:
            self._put(answer_key(self._command_id, self._instance), whole)
        except Exception as error:
            return error
        return None

    def _put(self, key: str, content: Any) -> None:
        body = json.dumps(content, indent=2, sort_keys=True, default=str) + "\n"
        self._aws("s3").put_object(Bucket=self._bucket, Key=key, Body=body.encode(), ContentType="application/json")


def journal(text: str) -> None:
    """Write to the journal: through stderr where systemd reads it, else through its socket."""
    if os.environ.get("JOURNAL_STREAM"):
        print(text, file=sys.stderr)
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as system:
        system.connect(rooted("/dev/log"))
        system.send(f"<{_DAEMON_ERROR}>training-storage: {text}".encode("utf-8", "backslashreplace"))


def main(
    argv: Sequence[str] | None = None,
    *,
    aws: Aws | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Any] = time.sleep,
) -> int:
    """Run one subcommand and return the exit code.

    Args:
        argv: Arguments. Left out: those of the process.
        aws: Clients. Left out: those of the node's role.
        clock: Steady clock for the pace of progress.
        sleep: Waits between tries to write the answer.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        settings = load(rooted(PATH))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if given and not {"-h", "--help"}.isdisjoint(given):
            _parser(given).parse_args(given)
        reason = "is not there" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
        print(
            f"error: the agent's settings {PATH}: {reason}; they come with the user data of a node whose workload has"
            " checkpoints, Lustre or directory buckets",
            file=sys.stderr,
        )
        return REFUSED
    aws = aws or connect(settings.region)
    command_id, instance = _command_id(given), instance_id()
    if command_id and (not instance or not _COMMAND_ID.fullmatch(command_id)):
        what = "the id of this instance is not known" if not instance else f"no command id: {command_id!r}"
        print(f"error: {what}, so there is no place for an answer", file=sys.stderr)
        return REFUSED
    desk = Desk(aws, settings.lake_bucket, command_id, instance, clock=clock, sleep=sleep)
    before = _listen()
    try:
        return _run(given, settings, aws, desk)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _run(given: list[str], settings: Settings, aws: Aws, desk: Desk) -> int:
    try:
        answer = _outcome(given, settings, aws, desk)
        _listen(ends=False)
    except (Ended, KeyboardInterrupt):
        _listen(ends=False)
        answer = "failed", ENDED, None, "stopped by a signal; what was begun is finished by the next run"
    return desk.answer(*answer)


def _outcome(given: list[str], settings: Settings, aws: Aws, desk: Desk) -> tuple[str, int, Any, str]:
    try:
        arguments = _parser(given).parse_args(given)
        answer = arguments.works(arguments, settings, aws, desk.progress)
    except Refusal as refusal:
        return "refused", REFUSED, None, str(refusal)
    except Failure as failure:
        return "failed", FAILED, failure.answer, str(failure)
    except Exception as error:
        journal(traceback.format_exc())
        return "failed", FAILED, None, _described(error)
    return "done", DONE, answer, ""


def _described(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror or type(error).__name__}"
    text = str(error)
    known = isinstance(error, OSError) or hasattr(error, "response") or type(error).__module__.startswith("botocore")
    return text if known and text else f"{type(error).__name__}: {text}".rstrip(": ")


def _parser(given: list[str]) -> argparse.ArgumentParser:
    parser = _Parser(prog="agent", description="Works on the storage of this node.")
    chosen = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    names = command_names()
    # One command alone is loaded: another one that cannot be loaded is no reason to fail.
    for name in [each for each in names if each in given[:1]] or names:
        module = importlib.import_module(f"{commands.__name__}.{name}")
        command = chosen.add_parser(name, help=module.HELP, description=module.HELP)
        command.add_argument("--command-id", default="", help="write answer and progress to the lake under this id")
        module.add_arguments(command)
        command.set_defaults(works=module.run)  # "run" is an option of survey and manifest
    return parser


def _command_id(given: list[str]) -> str:
    """Return the id before anything is parsed, so that arguments that are refused are answered too."""
    for index, each in enumerate(given):
        if each == "--command-id":
            return given[index + 1] if index + 1 < len(given) else ""
        if each.startswith("--command-id="):
            return each.partition("=")[2]
    return ""


def _listen(*, ends: bool = True) -> Any:
    """Say what SIGTERM does, and return what it did before; None outside the main thread, which alone may.

    Args:
        ends: Whether it ends the command; else it waits, because the answer is being written.
    """
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, _end if ends else signal.SIG_IGN)


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the process
    raise Ended


if __name__ == "__main__":
    sys.exit(main())
