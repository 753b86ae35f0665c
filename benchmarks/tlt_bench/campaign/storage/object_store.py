"""An S3 server whose calls can be made to fail."""

import itertools
import socket
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

ANSWERS = (
    ("500 Internal Server Error", b"<Error><Code>InternalError</Code><Message>try again</Message></Error>"),
    ("503 Slow Down", b"<Error><Code>SlowDown</Code><Message>reduce your request rate</Message></Error>"),
    None,
)
"""How calls fail, in turn. None: the connection is cut."""


@dataclass(slots=True)
class FailingCalls:
    """A WSGI application that passes calls on to moto's S3, but fails every `one_in`-th; 0 fails none."""

    one_in: int = 0
    calls: int = 0
    failed: int = 0
    bucket: str = field(default_factory=lambda: f"tlt-{uuid.uuid4().hex}")
    """A new name, since moto's data outlives the server within the process."""
    _app: Any = field(default_factory=lambda: DomainDispatcherApplication(create_backend_app))
    _answers: Any = field(default_factory=lambda: itertools.cycle(ANSWERS))
    _turn: Any = field(default_factory=threading.Lock)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a WSGI call."""
        with self._turn:
            self.calls += 1
            fails = bool(self.one_in) and self.calls % self.one_in == 0
            self.failed += fails
            answer = next(self._answers) if fails else None
        if not fails:
            passed: Iterable[bytes] = self._app(environ, start_response)
            return passed
        if answer is None:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError
        status, body = answer
        start_response(status, [("Content-Type", "application/xml")])
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]


class _Quiet(WSGIRequestHandler):
    """Logs nothing, since the campaign prints its progress there."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - the base's name
        pass


@contextmanager
def serving() -> Iterator[tuple[FailingCalls, str]]:
    """Run an S3 server on this machine within the block; yield it, without its bucket, and its address."""
    calls = FailingCalls()
    server = make_server("127.0.0.1", 0, calls, threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, name="object store")
    thread.start()
    try:
        yield calls, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def environment(endpoint: str) -> Mapping[str, str]:
    """Return the environment variables by which common clients find an S3 server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def create_bucket(bucket: str) -> str:
    """Create a bucket in the S3 server that the environment names; return its URL."""
    boto3.client("s3").create_bucket(Bucket=bucket)
    return f"s3://{bucket}"
