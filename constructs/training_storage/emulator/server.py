"""The emulated services over HTTP, on a free port of the loopback interface.

It serves what is in this process: clients here and commands outside see the same buckets and stacks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from werkzeug.serving import BaseWSGIServer, make_server

# Enough of the log to explain a failure; a long deploy writes thousands of lines.
_KEPT_LINES = 4000


class _Memory(logging.Handler):
    """Keeps what the server says, instead of printing it between the lines of the command."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))
        del self.lines[:-_KEPT_LINES]


class _NotEmulatedError(Exception):
    """A request for a service that nothing here stands for."""


class Server:
    """A running server.

    Attributes:
        host: Address it listens on.
        port: Port it listens on.
        failures: One text for each request that ended in an error of the emulator itself, with its traceback; for a
            service that is not emulated without one.
    """

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app

        self.failures: list[str] = []
        self.host = "127.0.0.1"
        self._memory = _Memory()
        logger = logging.getLogger("werkzeug")
        logger.addHandler(self._memory)
        self._logger, self._level, self._propagate = logger, logger.level, logger.propagate
        logger.setLevel(logging.INFO)
        logger.propagate = False

        def create(service: Any) -> Any:
            app = create_backend_app(service)
            # Errors of a view must reach the recorder below, not an interactive page.
            app.debug = False
            app.config["PROPAGATE_EXCEPTIONS"] = True
            return app

        dispatcher = DomainDispatcherApplication(create)
        of_host, patterns = dispatcher.get_backend_for_host, dispatcher.backend_url_patterns

        def backend_of(host: str | None) -> Any:
            # moto prints advice for its own authors, and fails with an AttributeError
            if host and "amazonaws.com" in host and not any(known.match(f"http://{host}") for _, known in patterns):
                raise _NotEmulatedError(f"nothing in it stands for {host}")
            return of_host(host)

        dispatcher.get_backend_for_host = backend_of  # type: ignore[method-assign]  # of this one object alone
        application = self._recorded(dispatcher)
        self._server: BaseWSGIServer = make_server(
            self.host, 0, application, threaded=True, request_handler=MotoRequestHandler
        )
        self.port = int(self._server.server_port)
        # It looks that often whether it is to stop: with half a second, its default, every stop would wait for that.
        look = {"poll_interval": 0.05}
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs=look, name="emulator", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Endpoint of all services."""
        return f"http://{self.host}:{self.port}"

    @property
    def log(self) -> str:
        """What the server said, newest last."""
        return "\n".join(self._memory.lines)

    def stop(self) -> None:
        """Stop listening; what was stored stays where it is."""
        self._server.shutdown()
        self._thread.join(timeout=10)
        self._server.server_close()
        self._logger.removeHandler(self._memory)
        self._logger.setLevel(self._level)
        self._logger.propagate = self._propagate

    def _recorded(self, application: Any) -> Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]:
        """Answer an exception as an error that no client retries, and remember it."""
        import traceback

        def call(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            def watch(status: str, headers: Any, *rest: Any) -> Any:
                # S3 answers 501 to a header that a bucket has no use for; that is an answer
                if status.startswith("5") and not environ.get("emulator.answered"):
                    self.failures.append(f"{status} for {_request(environ)}")
                return start_response(status, headers, *rest)

            try:
                return list(application(environ, watch))
            except _NotEmulatedError as error:
                self.failures.append(f"{_request(environ)}: {error}")
                return _internal_error(environ, start_response, str(error))
            except Exception as error:
                self.failures.append(f"{_request(environ)}\n{traceback.format_exc()}")
                return _internal_error(environ, start_response, f"{type(error).__name__}: {error}")

        return call


def _request(environ: dict[str, Any]) -> str:
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    return f"{environ.get('REQUEST_METHOD')} {environ.get('PATH_INFO')} {target}".strip()


def _internal_error(environ: dict[str, Any], start_response: Callable[..., Any], error: str) -> Iterable[bytes]:
    # 501, not 500: SDKs retry a 500, and the retry of a create that half worked is how a failure looks like success
    message = f"the emulator failed: {error}"
    if environ.get("HTTP_X_AMZ_TARGET") or "json" in environ.get("CONTENT_TYPE", ""):
        import json

        body = json.dumps({"__type": "EmulatorError", "message": message}).encode()
        kind = "application/x-amz-json-1.1"
    else:
        from xml.sax.saxutils import escape

        text = f"<Error><Code>EmulatorError</Code><Message>{escape(message)}</Message></Error>"
        body = f"<ErrorResponse>{text}<RequestId>0</RequestId></ErrorResponse>".encode()
        kind = "text/xml"
    start_response("501 Not Implemented", [("Content-Type", kind), ("Content-Length", str(len(body)))])
    return [body]


_shared: Server | None = None
_lock = threading.Lock()


def shared() -> Server:
    """Return this process's server, started when it is first needed."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = Server()
        return _shared


def running() -> bool:
    """Say whether this process's server runs."""
    return _shared is not None


def stop_shared() -> None:
    """Stop this process's server, if it runs."""
    global _shared
    with _lock:
        if _shared is not None:
            _shared.stop()
            _shared = None
