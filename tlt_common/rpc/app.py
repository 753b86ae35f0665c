"""Runs a service's process: logs, metrics, addresses, signals."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

from tlt_common import __version__
from tlt_common.config.base import ServiceConfig
from tlt_common.errors import ConfigError, TltError
from tlt_common.rpc import descriptors
from tlt_common.rpc.addresses import announce, announced_in, joined, split
from tlt_common.rpc.probes.operations import answering
from tlt_common.rpc.probes.readiness import Readiness, watched
from tlt_common.rpc.security.certificates import certificates
from tlt_common.telemetry import log, metrics
from tlt_common.telemetry.shown import Shown
from tlt_common.telemetry.tracing import traced


@contextmanager
def exposed(config: ServiceConfig) -> Iterator[None]:
    """
    Set up logs, the limit of descriptors, traces, the metrics port and the port file within the block.

    Raises:
        ConfigError: The metrics port is in use, the TLS files are invalid, or tracing is not installed.
    """
    log.configure(config.log_level)
    descriptors.raise_limit()
    metrics.BUILD_INFO.labels(version=__version__, component=config.component).set(1)
    with (
        traced(config.traces, config.component),
        announced_in(config.port_file),
        watched(config.liveness_s) as readiness,
        _operated(config, readiness),
    ):
        yield


@contextmanager
def _operated(config: ServiceConfig, readiness: Readiness) -> Iterator[None]:
    files = certificates(config.tls) if config.tls else None
    if config.metrics_port is None:
        yield
        return
    host = config.metrics_host or split(config.listen)[0]
    with ExitStack() as server:
        try:
            port = server.enter_context(answering(host, config.metrics_port, readiness, files, Shown(config.component)))
        except OSError as error:
            raise ConfigError(
                f"metrics_port {config.metrics_port} cannot be bound: {error.strerror}", field="metrics_port"
            ) from error
        announce("metrics", joined(host, port))
        yield


def run_app(
    config: ServiceConfig, main: Callable[[], Awaitable[None]], *, leave: Callable[[], Awaitable[object]] | None = None
) -> None:
    """
    Run a service until it ends. SIGTERM and SIGINT cancel it.

    If `leave` is given, the first signal runs it, and the service is cancelled when it completes or at a second signal.

    Raises:
        TltError: The service failed. The first of several failures is raised, without its task group.
    """
    with exposed(config):
        try:
            asyncio.run(_until_signaled(main, leave))
        except BaseExceptionGroup as group:
            raise _first(group) from group


async def _until_signaled(main: Callable[[], Awaitable[None]], leave: Callable[[], Awaitable[object]] | None) -> None:
    signaled, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.set_exception_handler(descriptors.exhaustion_logged(loop.time))
    task = asyncio.ensure_future(main())
    leaving = asyncio.ensure_future(_leave(signaled, leave, task))

    def note() -> None:
        if leave is None or signaled.is_set():
            task.cancel()
        signaled.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, note)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
    finally:
        leaving.cancel()
        await asyncio.wait({leaving})
        if not leaving.cancelled():
            leaving.result()


async def _leave(
    signaled: asyncio.Event, leave: Callable[[], Awaitable[object]] | None, task: asyncio.Future[None]
) -> None:
    await signaled.wait()
    try:
        if leave:
            await leave()
    finally:
        task.cancel()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first TltError within an exception, or the first exception."""
    ours, rest = group.split(TltError)
    found: BaseException = ours or rest or group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
