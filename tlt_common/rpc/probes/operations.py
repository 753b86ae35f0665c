"""HTTP endpoints for operators: /metrics for Prometheus, /livez and /readyz for probes."""

import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from socketserver import ThreadingMixIn
from threading import Lock, Thread
from typing import Any, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import REGISTRY, CollectorRegistry, make_wsgi_app

from tlt_common.rpc.addresses import listener
from tlt_common.rpc.probes.readiness import Readiness
from tlt_common.rpc.security.certificates import Certificates
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

TIMEOUT_S = 10.0
"""Timeout of a handshake and of a request, so that silent callers do not occupy threads forever."""
CONNECTION_S = 30.0
"""Maximum duration of a connection: each byte of a slow caller begins the timeout anew. Prometheus waits for 10 s."""
MAX_CONNECTIONS = 32
POLL_S = 0.1
"""Maximum delay of the server's shutdown."""
PATHS = "accepted: /metrics, /livez and /readyz"

HttpResponse: TypeAlias = tuple[str, str]
"""Status line and body."""


def application(readiness: Readiness, metrics: CollectorRegistry = REGISTRY) -> WSGIApplication:
    """Return the WSGI application, which reads `readiness` on every request."""
    exposition = make_wsgi_app(metrics)
    answers: dict[str, Callable[[], HttpResponse]] = {
        "/livez": lambda: _liveness(readiness),
        "/readyz": lambda: _readiness(readiness),
    }

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path == "/metrics":
            exposed: Iterable[bytes] = exposition(environ, start_response)
            return exposed
        status, text = answers[path]() if path in answers else ("404 Not Found", f"unknown path {path}; {PATHS}")
        if environ.get("REQUEST_METHOD") not in {"GET", "HEAD"}:
            status, text = "405 Method Not Allowed", "accepted: GET"
        body = f"{text}\n".encode()
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        start_response(status, headers)
        return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]

    return answer


def _liveness(readiness: Readiness) -> HttpResponse:
    failure = readiness.liveness.failure
    return ("503 Service Unavailable", f"not alive: {failure}") if failure else ("200 OK", "alive")


def _readiness(readiness: Readiness) -> HttpResponse:
    why = readiness.waits_for
    return ("503 Service Unavailable", f"not ready: {why}") if why else ("200 OK", "ready")


class _Handler(WSGIRequestHandler):
    timeout = TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing: probes arrive every second."""


class _Server(ThreadingMixIn, WSGIServer):
    """
    Server with one thread per connection, so that a slow scrape does not delay probes, and at most `MAX_CONNECTIONS`:
    another connection replaces the oldest. Probes take milliseconds; older connections are silent or deliberately slow.
    """

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, host: str, port: int, certificates: Certificates | None) -> None:
        self._certificates = certificates
        self._open: dict[socket.socket, float] = {}
        """Open connections and the moments at which they are cut, the oldest first."""
        self._lock = Lock()
        super().__init__((host, port), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener(host, port)
        # The base class would resolve the host's full name, which queries DNS.
        self.server_address = self.socket.getsockname()[:2]
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Without free descriptors, wait briefly: the base class would retry immediately."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(POLL_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the thread of a connection."""
        with self._lock:
            self._open[request] = time.monotonic() + CONNECTION_S
            while len(self._open) > MAX_CONNECTIONS:
                self._cut(next(iter(self._open)))
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections that have lasted too long. Called at least every `POLL_S`."""
        with self._lock:
            now_s = time.monotonic()
            for request in [one for one, until_s in self._open.items() if until_s <= now_s]:
                self._cut(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def _cut(self, request: socket.socket) -> None:
        """Shut a connection down, so that its thread's pending call returns."""
        del self._open[request]
        with suppress(OSError):
            socket.socket.shutdown(request, socket.SHUT_RDWR)  # not TLS's, whose state another thread uses

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Handle the request in its own thread, including the handshake, which the caller may delay."""
        if self._certificates is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(TIMEOUT_S)
        context = self._certificates.current().context
        with context.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as encrypted:
            with self._lock:  # the descriptor is the encrypted socket's from here on
                until_s = self._open.pop(request, 0.0)
                self._open[encrypted] = until_s
            try:
                encrypted.do_handshake()
                super().finish_request(encrypted, client_address)
            finally:
                with self._lock:
                    self._open.pop(encrypted, None)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's signature
        """Log at debug level that the caller hung up or does not speak TLS."""
        log.debug("operations_request_failed", caller=str(client_address), error=repr(sys.exception()))


@contextmanager
def answering(
    host: str,
    port: int,
    readiness: Readiness,
    certificates: Certificates | None = None,
    metrics: CollectorRegistry = REGISTRY,
) -> Iterator[int]:
    """
    Serve HTTP, or HTTPS with `certificates`, within the block; yield the bound port.

    Raises:
        OSError: The port is in use.
    """
    with _Server(host, port, certificates) as server:
        server.set_app(application(readiness, metrics))
        thread = Thread(target=server.serve_forever, args=(POLL_S,), name="operations", daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
