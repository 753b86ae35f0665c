"""Start-up of the tuner."""

import asyncio
from collections.abc import Callable
from functools import partial

from tlt_common.rpc.access import Roles
from tlt_common.rpc.app import run_app
from tlt_common.rpc.server import Service, internal, serving
from tlt_common.wire import tuner as wire
from tlt_tuner.config import TunerConfig
from tlt_tuner.servicer import TunerServicer
from tlt_tuner.tuner import Tuner

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
    servicer = TunerServicer(Tuner(config))
    service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, servicer))
    async with serving(config.listen, service, door=internal(config.tls, CALLERS)) as server:
        on_serving(f"{config.listen.rpartition(':')[0]}:{server.port}")
        await asyncio.Event().wait()
