"""Start-up of the tuner."""

import asyncio
from collections.abc import Callable
from functools import partial

from tlt_common.rpc.access import Roles
from tlt_common.rpc.app import run_app
from tlt_common.rpc.server import Service, internal, serving
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import tuner as wire
from tlt_tuner.config import TunerConfig
from tlt_tuner.keeper import Keeper
from tlt_tuner.servicer import TunerServicer
from tlt_tuner.tuner import Tuner

log = get_logger(__name__)

CALLERS = Roles(dict.fromkeys(wire.METHODS, ("worker",)))


def run(config: TunerConfig) -> None:
    """Serve until the process is told to end."""
    run_app(config, lambda: serve(config))


async def serve(config: TunerConfig, *, on_serving: Callable[[str], None] = lambda _: None) -> None:
    """
    Serve until cancelled. `on_serving` is told the bound host:port.

    Raises:
        ConfigError: The address is taken.
    """
    tuner = Tuner(config)
    service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, TunerServicer(tuner)))
    async with serving(config.listen, service, door=internal(config.tls, CALLERS)) as server:
        on_serving(f"{config.listen.rpartition(':')[0]}:{server.port}")
        await kept(tuner, config)


async def kept(tuner: Tuner, config: TunerConfig) -> None:
    """Keep what the tuner learns over restarts, if there is a Redis for it, until cancelled."""
    if config.redis == "memory":
        log.info("pools_in_memory", hint="set redis to keep them over restarts")
        await asyncio.Event().wait()
        return
    from tlt_tuner.store import RedisStore

    store = RedisStore(config.redis, fleet=config.fleet)
    try:
        await Keeper(tuner, store, every_s=config.save_interval_s).run()
    finally:
        await store.aclose()
