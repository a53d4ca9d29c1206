"""Processes of Lambda handlers: each works one event at a time, and is kept for the next, as Lambda keeps its own."""

from __future__ import annotations

import hashlib
import io
import json
import selectors
import subprocess
import sys
import tempfile
import threading
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from training_storage.emulator import world

_RUNNER = Path(__file__).with_name("handler_process.py")
_MOST_KEPT = 4
"""Processes that wait for an event: each is a Python with boto3."""

_kept: list[Handler] = []
_lock = threading.Lock()


class Handler:
    """A process that holds a handler.

    Args:
        key: What it runs, and with which settings.
        code: Zip of the function.
        layers: Zips of its layers.
        environment: Variables, without the path of layers.
    """

    def __init__(self, key: str, code: bytes, layers: Sequence[bytes], environment: Mapping[str, str]) -> None:
        self.key = key
        # it is closed by ``end``, which outlives every block
        self._folder = tempfile.TemporaryDirectory(prefix="training-storage-lambda-", ignore_cleanup_errors=True)
        base = Path(self._folder.name)
        _unpack(code, base / "task")
        paths = []
        for number, layer in enumerate(layers):
            _unpack(layer, base / f"layer{number}")
            paths.append(str(base / f"layer{number}" / "python"))
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own file
            [sys.executable, str(_RUNNER)],
            cwd=base / "task",
            env={**environment, **({"PYTHONPATH": ":".join(paths)} if paths else {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def work(self, event: object, timeout: float) -> tuple[str | None, bool, str]:
        """Work one event.

        Args:
            event: The event.
            timeout: Seconds that it may take.

        Returns:
            The answer as JSON, None where there is none; whether it failed; what was printed.

        Raises:
            TimeoutError: It took longer; the process is no good any more. The argument is what was printed.
        """
        base, request = Path(self._folder.name), uuid.uuid4().hex
        log, result = base / f"{request}.log", base / f"{request}.json"
        ahead = world.current().ahead if world.running() else 0.0
        given = {
            "event": event,
            "ahead": ahead,
            "log": str(log),
            "result": str(result),
            "request_id": str(uuid.UUID(request)),
            "timeout": timeout,
        }
        if self._process.stdin is None or self._process.stdout is None or self._process.stderr is None:
            raise AssertionError("the process has pipes")
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(given) + "\n")
            self._process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                raise TimeoutError(log.read_text(encoding="utf-8", errors="replace") if log.exists() else "")
        over = self._process.stdout.readline().strip()
        printed = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        answer = result.read_text(encoding="utf-8") if over else None
        for place in (log, result):
            place.unlink(missing_ok=True)
        if not over:
            self._process.wait()
            printed += self._process.stderr.read()
        return answer, over != "0", printed

    @property
    def code(self) -> int | None:
        """Exit code; None while it lives."""
        return self._process.poll()

    def end(self) -> None:
        """End the process, and remove what it ran on."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()


def key_of(code: bytes, layers: Sequence[bytes], environment: Mapping[str, str]) -> str:
    """Return what tells processes apart: another code, layer or variable is another process; another key is none."""
    told = {name: value for name, value in environment.items() if name != "AWS_ACCESS_KEY_ID"}
    digest = hashlib.sha256(json.dumps(sorted(told.items())).encode())
    for each in (code, *layers):
        digest.update(hashlib.sha256(each).digest())
    return digest.hexdigest()


def take(key: str, code: bytes, layers: Sequence[bytes], environment: Mapping[str, str]) -> Handler:
    """Return a process that waits, or a new one where all are at work."""
    with _lock:
        found = next((each for each in _kept if each.key == key), None)
        if found is not None:
            _kept.remove(found)
    if found is not None and found.code is None:
        return found
    if found is not None:
        found.end()
    return Handler(key, code, layers, environment)


def give_back(handler: Handler) -> None:
    """Keep a process for the next event, and end those that wait the longest; one that is no good ends at once."""
    ended = [handler]
    if world.running() and handler.code is None:
        with _lock:
            _kept.append(handler)
            ended = _kept[:-_MOST_KEPT]
            del _kept[:-_MOST_KEPT]
    for each in ended:
        each.end()


def end_all() -> None:
    """End all processes that wait: the emulator that they see ends."""
    with _lock:
        ended = list(_kept)
        _kept.clear()
    for each in ended:
        each.end()


def _unpack(archive: bytes, folder: Path) -> None:
    folder.mkdir()
    with zipfile.ZipFile(io.BytesIO(archive)) as bundle:
        bundle.extractall(folder)
