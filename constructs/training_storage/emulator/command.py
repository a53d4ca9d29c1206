"""A command run against the emulator: the environment it needs, its signals, and the truth about how it ended."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from training_storage.emulator import hsm, world
from training_storage.emulator.errors import EmulatorError
from training_storage.emulator.lazy_reads import FILES
from training_storage.emulator.process import DEFAULT_ACCOUNT
from training_storage.emulator.session import DEFAULT_REGION, emulator

EXIT_EMULATOR_FAILED = 3
"""The command ended well, but the emulator did not: what the command says happened may not have happened."""

EXIT_NOT_FOUND = 127
"""The command does not exist; the code that shells use."""

EXIT_NOT_EXECUTABLE = 126
"""The command exists and cannot be run; the code that shells use."""

# A proxy would send requests for the loopback interface elsewhere, and there is nothing to reach beyond it.
_PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY"}
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT")
_SHOWN_FAILURES = 5
_SETTLE_S = 1.0


def environment(
    caller: Mapping[str, str], *, url: str, region: str, folder: Path, files: Path | None = None
) -> dict[str, str]:
    """Return the environment for a command: the caller's, without its AWS and proxy settings, with the emulator's.

    Args:
        caller: Environment of the caller.
        url: Endpoint of the emulator, on 127.0.0.1.
        region: Region for AWS_REGION and AWS_DEFAULT_REGION.
        folder: A folder for empty configuration files and for what the CDK remembers.
        files: Folder with one folder for each Lustre file system; where it lies is in ``FILES``.
    """
    kept = {
        name: value
        for name, value in caller.items()
        if not name.upper().startswith("AWS_") and name.upper() not in _PROXIES
    }
    empty = folder / "empty"
    empty.touch()
    ours = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_ENDPOINT_URL": url,
        "AWS_ENDPOINT_URL_S3": url,
        # The CDK hands CloudFormation a template's address under this name; moto takes "localhost", and not an address,
        # for itself.
        "AWS_ENDPOINT_URL_S3_FOR_CLOUDFORMATION": url.replace("127.0.0.1", "localhost"),
        "AWS_CONFIG_FILE": str(empty),
        "AWS_SHARED_CREDENTIALS_FILE": str(empty),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
        # The CDK remembers there, from one run to the next, which account an access key belongs to.
        "CDK_HOME": str(folder / "cdk"),
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
    if files is not None:
        ours[FILES] = str(files)
    # The CDK looks for news and newer versions on the internet unless it is told not to.
    quiet = {"CDK_NOTICES": "false", "CDK_DISABLE_VERSION_CHECK": "true", "CDK_DISABLE_CLI_TELEMETRY": "true"}
    return {**quiet, **kept, **ours}


def _at_a_terminal() -> bool:
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


class _Child:
    """The command: its process, and away from a terminal a group of processes, which ends with it.

    At a terminal it stays in the foreground group, so that it can ask questions.
    """

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.grouped = hasattr(os, "killpg") and not _at_a_terminal()

    def start(self, command: Sequence[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start the command."""
        group = 0 if self.grouped else None
        self.process = subprocess.Popen(list(command), env=dict(variables), process_group=group)  # noqa: S603 - asked for
        return self.process

    def send(self, number: int) -> None:
        """Send a signal to all of it."""
        if self.process is None:
            return
        if self.grouped:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)
        elif self.process.poll() is None:
            self.process.send_signal(number)

    def end(self) -> None:
        """End what it has left behind: without the emulator it has nothing to talk to."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.grouped:
            self.send(signal.SIGTERM)


@contextmanager
def _forwarding(child: _Child) -> Iterator[None]:
    """Hand signals on to the command while it runs; only the main thread may do so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def forward(number: int, _frame: Any) -> None:
        # What is typed at a terminal (Ctrl-C, Ctrl-\\) reaches the whole foreground group by itself, and a second
        # copy would make the command give up cleaning up.
        typed = number in (signal.SIGINT, getattr(signal, "SIGQUIT", None)) and not child.grouped and _at_a_terminal()
        if not typed:
            child.send(number)

    before = {}
    for name in _FORWARDED:
        number = getattr(signal, name, None)
        if number is not None:
            before[number] = signal.signal(number, forward)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _no_log_of_moto() -> Iterator[None]:
    """Keep the log of moto apart: it calls each branch that a state machine does not take an error."""
    logger = logging.getLogger("moto")
    before, nowhere = logger.propagate, logging.NullHandler()
    logger.addHandler(nowhere)
    logger.propagate = False
    try:
        yield
    finally:
        logger.propagate = before
        logger.removeHandler(nowhere)


def run_command(command: Sequence[str], *, account: str = DEFAULT_ACCOUNT, region: str = DEFAULT_REGION) -> int:
    """Run one command against an emulator of its own, and return its exit code.

    The emulator starts empty on a free loopback port and ends with the command. A command that was ended by a signal
    gives 128 and the signal's number, as in a shell. Files of Lustre file systems lie below the folder that
    ``TRAINING_STORAGE_EMULATOR_FILES`` names for the command, a folder with its id for each; tasks and links act on
    them by themselves.

    Args:
        command: Program and arguments.
        account: Account id of the caller; that of the templates, where they name one.
        region: Region of the caller.

    Raises:
        EmulatorUnavailableError: The ``emulator`` extra is not installed.
        EmulatorError: No command was given.
    """
    if not command:
        raise EmulatorError(
            "no command given; write it after --, for example: training-storage emulate -- cdk deploy --all"
        )
    with (
        emulator(account=account, region=region) as aws,
        tempfile.TemporaryDirectory(prefix="training-storage-") as name,
    ):
        server = aws.server
        files = world.current().folder / hsm.FILES
        variables = environment(_caller(), url=server.url, region=region, folder=Path(name), files=files)
        child = _Child()
        # nobody here says when FSx has done what it does by itself
        with _forwarding(child), _no_log_of_moto(), aws.settling_all(each=_SETTLE_S):
            try:
                process = child.start(command, variables)
            except FileNotFoundError:
                print(f"emulate: {command[0]}: command not found", file=sys.stderr)
                return EXIT_NOT_FOUND
            except (OSError, ValueError) as error:
                print(f"emulate: {command[0]}: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
                return EXIT_NOT_EXECUTABLE
            try:
                code = process.wait()
            finally:
                child.end()
        failures = list(server.failures)
    return _verdict(code if code >= 0 else 128 - code, failures)


def _caller() -> dict[str, str]:
    return dict(os.environ)


def _verdict(code: int, failures: Sequence[str]) -> int:
    """Say what went wrong inside the emulator; a command that did not notice must not look as if it went well."""
    if not failures:
        return code
    print(f"emulate: the emulator itself failed {len(failures)} times; do not trust what was deployed", file=sys.stderr)
    for failure in failures[:_SHOWN_FAILURES]:
        print(f"  {failure.strip()}".replace("\n", "\n  "), file=sys.stderr)
    if len(failures) > _SHOWN_FAILURES:
        print(f"  ... and {len(failures) - _SHOWN_FAILURES} more", file=sys.stderr)
    return code or EXIT_EMULATOR_FAILED
