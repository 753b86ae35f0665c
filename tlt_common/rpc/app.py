"""The frame of a service's process: logs, metrics, addresses, signals."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from prometheus_client import start_http_server

from tlt_common.config.base import ServiceConfig
from tlt_common.errors import ConfigError, TltError
from tlt_common.rpc.addresses import announce, announced_in
from tlt_common.telemetry import log


@contextmanager
def exposed(config: ServiceConfig) -> Iterator[None]:
    """
    Set up logs, serve metrics and keep the port file, while within.

    Raises:
        ConfigError: The metrics port is taken.
    """
    log.configure(config.log_level)
    with announced_in(config.port_file):
        if config.metrics_port is None:
            yield
            return
        host = config.listen.rpartition(":")[0]
        try:
            server, thread = start_http_server(config.metrics_port, addr=host)
        except OSError as error:
            raise ConfigError(
                f"metrics_port {config.metrics_port} cannot be bound: {error.strerror}", field="metrics_port"
            ) from error
        announce("metrics", f"{host}:{server.server_port}")
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def run_app(config: ServiceConfig, main: Callable[[], Awaitable[None]]) -> None:
    """
    Run a service until it ends or the process gets SIGTERM or SIGINT, which cancel it.

    Raises:
        TltError: It failed. Of several failures the first one, without the task group around it.
    """
    with exposed(config):
        try:
            asyncio.run(_until_signalled(main))
        except BaseExceptionGroup as group:
            raise _first(group) from group


async def _until_signalled(main: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.ensure_future(main())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error of ours within, or else the first of all."""
    ours, rest = group.split(TltError)
    found: BaseException = ours or rest or group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
