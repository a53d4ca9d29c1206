"""Where records go. Every sink is used by one thread, which is none of training's: it may wait, for a bounded time.

A sink that cannot deliver raises ``OSError`` or ``ValueError``; the record is then counted as dropped.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any, Protocol

from .. import emf

AGENT = "udp://127.0.0.1:25888"
"""Where the CloudWatch agent of a node listens for records in embedded metric format."""

LARGEST = 65_000
"""Bytes of one record: what a datagram holds, a little less."""

_WAIT_S = 1.0
"""Seconds in which a connection or an answer has to come."""


RESOLVE_S = 300.0
"""How long the address of a host that is named holds for datagrams: to one that is gone they go without an error."""


class Sink(Protocol):
    """Where records go."""

    def send(self, record: Mapping[str, Any]) -> None:
        """Deliver one record.

        Args:
            record: The record, in embedded metric format.

        Raises:
            OSError: It did not arrive.
            ValueError: It cannot.
        """
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


def sink_of(metrics: str) -> Sink | None:
    """Return the sink that a setting names; None for ``off``.

    Args:
        metrics: ``off``, ``agent``, ``stdout``, ``file:/path``, ``udp://host:port``, ``tcp://host:port`` or
            ``otlp=http://host:port``.

    Raises:
        ValueError: It is none of these.
    """
    if metrics == "off":
        return None
    if metrics == "agent":
        metrics = AGENT
    if metrics == "stdout":
        return StandardOutput()
    kind, _, rest = metrics.partition("=" if metrics.startswith("otlp=") else ":")
    if kind == "file" and rest:
        return File(rest)
    if kind == "otlp" and rest.startswith(("http://", "https://")):
        from .otlp import Otlp  # an HTTP client is loaded where it is used

        return Otlp(rest)
    if kind in ("udp", "tcp") and rest.startswith("//"):
        host, _, port = rest[2:].rstrip("/").rpartition(":")
        if host and port.isdigit() and 0 < int(port) < 65_536:
            return (Udp if kind == "udp" else Tcp)(host.strip("[]"), int(port))
    raise ValueError(
        f"{metrics!r} is none of off, agent, stdout, file:/path, udp://host:port, tcp://host:port, otlp=http://host:port"
    )


def encoded(record: Mapping[str, Any]) -> bytes:
    """Return a record as one line.

    Raises:
        ValueError: It is longer than a datagram.
    """
    line = emf.line(record)
    if len(line) > LARGEST:
        raise ValueError(f"a record of {len(line)} bytes is longer than {LARGEST}")
    return line


class Udp:
    """Datagrams. On one machine the kernel tells at once whether anybody listens."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._opened_s = 0.0

    def send(self, record: Mapping[str, Any]) -> None:
        """Send one datagram."""
        line = encoded(record)
        if time.monotonic() - self._opened_s >= RESOLVE_S:
            self.close()
        try:
            try:
                self._send(line)
            except ConnectionRefusedError:
                # It may be what became of the datagram before, and this one has not been sent: once more.
                self._send(line)
        except OSError:
            self.close()
            raise

    def _send(self, line: bytes) -> None:
        if self._socket is None:
            family, kind, protocol, _, address = socket.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)[0]
            self._socket = socket.socket(family, kind, protocol)
            self._socket.setblocking(False)
            self._socket.connect(address)
            self._opened_s = time.monotonic()
        self._socket.send(line)
        refused = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if refused:
            raise OSError(refused, os.strerror(refused))

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Tcp:
    """A connection that is kept, and made anew for the next record where it broke."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None

    def send(self, record: Mapping[str, Any]) -> None:
        """Send one line."""
        line = encoded(record)
        if self._socket is not None and self._gone():
            self.close()
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, timeout=_WAIT_S)
            self._socket.sendall(line)
        except OSError:
            self.close()
            raise

    def _gone(self) -> bool:
        """Whether the other side has closed: what is sent to it then is lost without an error."""
        assert self._socket is not None  # noqa: S101 - for the type checker: the caller has looked
        try:
            self._socket.setblocking(False)
            return self._socket.recv(4096) == b""
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True
        finally:
            self._socket.settimeout(_WAIT_S)

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class StandardOutput:
    """Lines among what training prints; container runtimes carry them to CloudWatch Logs."""

    def send(self, record: Mapping[str, Any]) -> None:
        """Print one line."""
        if sys.stdout is None:
            raise OSError(errno.EBADF, "there is no standard output")
        sys.stdout.write(encoded(record).decode())
        sys.stdout.flush()

    def close(self) -> None:
        """Nothing is open."""


class File:
    """Lines appended to a file, each by one write, so that processes may share it on one machine."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._broken = False

    def send(self, record: Mapping[str, Any]) -> None:
        """Append one line."""
        line = encoded(record)
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
        try:
            # What a full disk left of the line before is ended, so that it spoils no other.
            whole = b"\n" + line if self._broken else line
            written = os.write(handle, whole)
            self._broken = written != len(whole)
            if self._broken:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self._path)
        finally:
            os.close(handle)

    def close(self) -> None:
        """Nothing is kept open."""
