"""An emulated node: a folder that stands for the root of an instance, and processes that run in it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from training_storage.emulator import server, world
from training_storage.emulator.lazy_reads import CLOCK, FILES
from training_storage.emulator.services import accounts, fsx_files

_PACKAGES = Path(__file__).resolve().parents[2]
_INHERITED = ("HOME", "LANG", "LC_ALL", "TMPDIR")
_LFS = """#!/bin/sh
exec {python} -I -S -c 'import sys; sys.path.insert(0, "{packages}"); \\
from training_storage.emulator.lfs import main; sys.exit(main(sys.argv[1:]))' "$@"
"""
# What is ours must not be importable on a node because the emulator is: it goes again when it is loaded.
_SITE = """import sys
sys.path.insert(0, {packages!r})
try:
    from training_storage.emulator import lazy_reads
finally:
    sys.path.remove({packages!r})
lazy_reads.install()
for name in [name for name in sys.modules if name.split(".")[0] == "training_storage"]:
    del sys.modules[name]
"""


class EmulatedNode:
    """An instance, as far as it is emulated: a root folder, a mount, commands.

    Absolute paths of a node lie below ``root``: programs that look at ``TS_ROOT`` find theirs there, others see the
    machine that the emulator runs on. There is no isolation.

    Attributes:
        id: Instance id.
        root: Folder that stands for ``/``.
        tags: Tags of the instance.
        online: Whether Systems Manager reaches it; a test may change that.
    """

    def __init__(self, instance: Any, account: str, region: str) -> None:
        self.id: str = instance.id
        self.account, self.region = account, region
        self.root: Path = world.current().folder / "nodes" / self.id
        self.tags: dict[str, str] = {tag["key"]: tag["value"] for tag in instance.get_tags()}
        self.online = True
        self._instance = instance
        self._running: dict[subprocess.Popen[bytes], None] = {}
        self._lock = threading.Lock()
        self._furnish()

    def _furnish(self) -> None:
        place = self.root / "var/lib/cloud/data/instance-id"
        for folder in (place.parent, self.root / "bin", self.root / "tmp", self.root / "site"):
            folder.mkdir(parents=True, exist_ok=True)
        place.write_text(self.id + "\n", encoding="utf-8")
        packages = str(_PACKAGES)
        _script(self.root / "bin/lfs", _LFS.format(python=shlex.quote(sys.executable), packages=packages))
        # what asks for more rights has them here already
        _script(self.root / "bin/sudo", '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n')
        (self.root / "site/sitecustomize.py").write_text(_SITE.format(packages=packages), encoding="utf-8")

    @property
    def alive(self) -> bool:
        """Whether the instance runs."""
        return str(self._instance.state) == "running"

    @property
    def busy(self) -> bool:
        """Whether anything that was started on it still runs."""
        return bool(self._running)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of processes on the node."""
        kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        path = os.pathsep.join([str(self.root / "bin"), os.environ.get("PATH", os.defpath)])
        ours = {
            "PATH": path,
            "TS_ROOT": str(self.root),
            FILES: str(world.current().folder / "files"),
            "PYTHONPATH": str(self.root / "site"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "AWS_ACCESS_KEY_ID": accounts.access_key(self.account),
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_SESSION_TOKEN": "testing",
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ENDPOINT_URL": server.shared().url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }
        if world.current().ahead:
            ours[CLOCK] = repr(world.current().ahead)
        return {**kept, **ours}

    def mount(self, file_system_id: str, at: str = "/fsx") -> Path:
        """Mount an emulated Lustre file system; return where it lies below ``root``.

        Args:
            file_system_id: The file system.
            at: Mount point on the node.
        """
        place = self.root / at.strip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink():
            place.unlink()
        place.symlink_to(fsx_files.states(file_system_id).root, target_is_directory=True)
        return place

    def install(
        self,
        agent_command: Sequence[str],
        settings: Mapping[str, Any] | str | None = None,
        *,
        python_path: Sequence[str | Path] = (),
    ) -> None:
        """Put an agent on the node, as user data would have.

        Args:
            agent_command: Command line that the agent is; its arguments are added.
            settings: Content of ``/etc/training-storage/agent.json``; none is written when left out.
            python_path: Folders in which the agent's Python finds modules first.
        """
        lines = ["#!/bin/sh", f'exec {shlex.join(agent_command)} "$@"']
        if python_path:
            folders = shlex.quote(os.pathsep.join(map(str, python_path)))
            lines.insert(1, f"export PYTHONPATH={folders}${{PYTHONPATH:+:$PYTHONPATH}}")
        _script(self.root / "opt/training-storage/bin/agent", "\n".join(lines) + "\n")
        if settings is not None:
            place = self.root / "etc/training-storage/agent.json"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(settings if isinstance(settings, str) else json.dumps(settings), encoding="utf-8")

    def start(self, script: str, *, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> Any:
        """Start a shell script on the node.

        Args:
            script: Text for bash.
            folder: Working directory; the root of the node when left out.
            environment: Variables beside those of the node.

        Returns:
            The process, a group of its own, with pipes for both outputs.
        """
        process = subprocess.Popen(  # noqa: S603 - what a test wants to run on its node
            ["bash", "-c", script],  # noqa: S607 - the machine's own bash
            cwd=folder or self.root,
            env={**self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        with self._lock:
            self._running[process] = None
        return process

    def finish(self, process: Any, timeout: float | None = None) -> tuple[int, str, str]:
        """Wait for a process that ``start`` began; return exit code (128 and the signal's number), output, errors.

        Args:
            process: The process.
            timeout: Seconds; then it is killed.

        Raises:
            subprocess.TimeoutExpired: It took longer.
        """
        try:
            output, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            _kill(process, signal.SIGKILL)
            process.communicate()
            raise
        finally:
            with self._lock:
                self._running.pop(process, None)
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return code, output.decode(errors="replace"), errors.decode(errors="replace")

    def run(
        self, command: Sequence[str] | str, *, timeout: float = 60, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the node and wait for it, as a timer there would.

        Args:
            command: Words, or text for bash.
            timeout: Seconds; then it is killed.
            environment: Variables beside those of the node.

        Raises:
            subprocess.TimeoutExpired: It took longer.
        """
        script = command if isinstance(command, str) else shlex.join(command)
        code, output, errors = self.finish(self.start(script, environment=environment), timeout)
        return subprocess.CompletedProcess(script, code, output, errors)

    def agent(self, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run the installed agent and wait for it.

        Args:
            arguments: Subcommand and arguments.
            timeout: Seconds; then it is killed.
        """
        return self.run([str(self.root / "opt/training-storage/bin/agent"), *arguments], timeout=timeout)

    def stop(self, process: Any, number: int = signal.SIGTERM) -> None:
        """Send a signal to one process that ``start`` began, and to all that it started.

        Args:
            process: The process.
            number: The signal.
        """
        _kill(process, number)

    def kill(self, number: int = signal.SIGKILL) -> int:
        """Send a signal to everything that runs on the node; return how many commands there were.

        Args:
            number: The signal.
        """
        with self._lock:
            running = list(self._running)
        for process in running:
            _kill(process, number)
        return len(running)


def _script(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    place.chmod(place.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def _kill(process: Any, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
