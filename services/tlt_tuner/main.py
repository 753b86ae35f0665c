"""Startup of the tuner."""

import asyncio
from collections.abc import Callable
from functools import partial

from tlt_common.config.redis_url import connection_options
from tlt_common.rpc.addresses import with_port
from tlt_common.rpc.app import run_app
from tlt_common.rpc.security.access import Roles
from tlt_common.rpc.server import Service, internal, serving
from tlt_common.telemetry.log import get_logger
from tlt_common.telemetry.optional import kept_running
from tlt_common.wire import tuner as wire
from tlt_tuner.config import TunerConfig
from tlt_tuner.persistence import PoolPersistence
from tlt_tuner.servicer import TunerServicer
from tlt_tuner.tuner import Tuner

log = get_logger(__name__)

SAVE_INTERVAL_S = 5.0
"""Minimum seconds between saves; a killed process loses at most the changes of that time, which engines report again
within seconds."""
CALLERS = Roles(dict.fromkeys(wire.METHODS, ("worker",)))


def run(config: TunerConfig) -> None:
    """Serve until SIGTERM."""
    run_app(config, lambda: serve(config))


async def serve(config: TunerConfig, *, on_serving: Callable[[str], None] = lambda _: None) -> None:
    """
    Serve until cancelled. `on_serving` is called with the bound host:port.

    Raises:
        ConfigError: The address is already in use.
    """
    tuner = Tuner()
    service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, TunerServicer(tuner)))
    async with serving(config.listen, service, security=internal(config.tls, CALLERS)) as server:
        on_serving(with_port(config.listen, server.port))
        await persist(tuner, config)


async def persist(tuner: Tuner, config: TunerConfig) -> None:
    """Persist the pools in Redis, if configured, until cancelled."""
    url = config.redis.get_secret_value()
    if url == "memory":
        log.info("pools_in_memory", hint="set redis to keep them across restarts")
        await asyncio.Event().wait()
        return
    from tlt_tuner.redis_pool_store import RedisPoolStore

    store = RedisPoolStore(url, fleet=config.fleet, tls=connection_options(url, config.redis_ca))
    try:
        await kept_running("persistence", PoolPersistence(tuner, store, every_s=SAVE_INTERVAL_S).run)
    finally:
        await store.aclose()
