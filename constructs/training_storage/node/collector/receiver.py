"""Takes what Mountpoint sends by OTLP, on this node alone: one request at a time, with bounds on size and time."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
from typing import Any, Callable

from .mountpoint import Meter
from .otlp import parse_export

PATH = "/v1/metrics"
MAX_BYTES = 1 << 20
TIMEOUT_S = 5.0
WHOLE_S = 20.0
"""What a whole request may take; one that comes byte by byte would keep all others out."""
POLL_S = 60.0
"""It is stopped with the process; looking more often would only wake a CPU."""
_CONTENT = "application/x-protobuf"


class Receiver:
    """Listens until it is stopped.

    Args:
        meter: Where points go.
        address: Host and port; port 0 takes any.
        say: Says something to the journal.
        poll_s: How often it looks whether it was stopped, in seconds.

    Raises:
        OSError: The port is taken.
    """

    def __init__(
        self, meter: Meter, address: tuple[str, int], say: Callable[[str], None], *, poll_s: float = POLL_S
    ) -> None:
        self._server = _Server(meter, address, say)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(poll_s,), name="otlp", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(TIMEOUT_S)


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Server(http.server.HTTPServer):
    whole_s = WHOLE_S

    def __init__(self, meter: Meter, address: tuple[str, int], say: Callable[[str], None]) -> None:
        self.meter, self.say = meter, say
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve one request, and end what takes too long.

        Args:
            request: The connection.
            client_address: Who asks.
        """
        end = threading.Timer(self.whole_s, _hang_up, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request(request, client_address)
        finally:
            end.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Go on: a client that goes away in the middle is nothing to write about."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    timeout = TIMEOUT_S

    def do_POST(self) -> None:
        """Take one export."""
        length = self._length()
        if self.path.rstrip("/") != PATH:
            self._answer(404)
        elif length is None or length > MAX_BYTES:
            self._answer(413 if length is not None else 411)
        elif (
            self.headers.get_content_type() != _CONTENT
            or self.headers.get("Content-Encoding", "identity") != "identity"
        ):
            self._answer(415)
        else:
            body = self.rfile.read(length)
            points = parse_export(body) if len(body) == length else None
            if points is None:
                self._answer(400)
                return
            if self.server.meter.add(points):
                self.server.say("Mountpoint sends sums since its start, which are not counted: only deltas are")
            self._answer(200)

    def _length(self) -> int | None:
        text = self.headers.get("Content-Length", "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", _CONTENT)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a line a minute and mount would fill the journal."""
