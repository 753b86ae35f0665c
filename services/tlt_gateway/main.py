"""`tlt serve gateway`."""

import asyncio
import gc
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Never

from tlt_common.rpc.addresses import with_port
from tlt_common.rpc.app import run_app
from tlt_common.rpc.drain import Drain
from tlt_common.rpc.limits import Limits
from tlt_common.rpc.server import ServerSecurity, Service, serving
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import rollout as wire
from tlt_gateway.access import access_of
from tlt_gateway.config import GatewayConfig
from tlt_gateway.gateway import Gateway
from tlt_gateway.servicer import RolloutServicer

if TYPE_CHECKING:
    from tlt_gateway.http.server import HttpServer

log = get_logger(__name__)

STREAM_BYTES = 512 * 2**30
"""Maximum size of the weights that one caller streams at the same time, beside the limit that the spool's volume sets:
more than any policy that one worker serves."""


def run(config: GatewayConfig) -> None:
    """Serve until SIGTERM."""
    drain = draining()
    run_app(
        config, lambda: live(config, drain=drain, on_serving=_settle), leave=partial(drain.complete, config.drain_s)
    )


def _settle(_address: str) -> None:
    """Exclude startup objects from garbage collection: a full collection blocks the event loop."""
    gc.collect()
    gc.freeze()


def draining() -> Drain:
    """Return the drain of a gateway. It disconnects clients, which then reconnect to another replica, if any."""
    return Drain("Generate", "GenerateBatch", "UpdateWeights", hangs_up=True)


async def live(
    config: GatewayConfig, *, drain: Drain | None = None, on_serving: Callable[[str], None] = lambda _address: None
) -> Never:
    """Serve until cancelled; `on_serving` is called with the bound address once the server accepts requests."""
    with tempfile.TemporaryDirectory(prefix="tlt-gateway-", ignore_cleanup_errors=True) as scratch:
        gateway = Gateway(config, spool_dir=config.spool_dir or Path(scratch))
        service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, RolloutServicer(gateway)))
        if config.tokens and not config.tls:
            log.warning("tokens_without_tls", advice="set tls unless a service mesh encrypts traffic")
        security = ServerSecurity(tls=config.tls, requires_certificate=False, access=access_of(config))
        with ExitStack() as sockets:
            page = sockets.enter_context(await _http_server(config, config.http.listen)) if config.http.listen else None
            limits, drain = _limits(config), drain or draining()
            drain.when_over(gateway.requests.end_all)
            async with (
                serving(config.listen, service, security=security, drain=drain, limits=limits) as server,
                asyncio.TaskGroup() as parts,
            ):
                if page is not None:
                    parts.create_task(page.run(gateway, security.access, limits, drain), name="http")
                log.info("gateway_serving", port=server.port, workers=config.workers, coordinator=config.coordinator)
                on_serving(with_port(config.listen, server.port))
                await gateway.run()


async def _http_server(config: GatewayConfig, listen: str) -> "HttpServer":
    # FastAPI imports OpenTelemetry if it is installed, which a gateway without HTTP and traces does not need.
    from tlt_gateway.http.server import HttpServer

    server = HttpServer(config, listen)
    await server.prepare()
    return server


def _limits(config: GatewayConfig) -> Limits:
    return Limits(
        message_bytes=config.max_message_bytes,
        calls=config.max_calls_per_token,
        stream_bytes=STREAM_BYTES,
        connections=config.max_connections,
    )
