"""Start-up of the coordinator: its plan, its gRPC service and its status page in one event loop."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Never

from tlt_common.rpc.access import Roles
from tlt_common.rpc.addresses import announce
from tlt_common.rpc.app import run_app
from tlt_common.rpc.server import Service, internal, serving
from tlt_common.wire import coordinator as wire
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.figures import Figures
from tlt_coordinator.http.server import address_of, bind, serve_http
from tlt_coordinator.http.status import access_of, app
from tlt_coordinator.servicer import CoordinatorServicer
from tlt_coordinator.state import Store

FIGURES_EVERY_S = 0.5
"""How old a metric may be; scrapes come every few seconds at most."""


CALLERS = Roles(
    {
        "HoldLease": ("worker",),
        "PublishDrafter": ("worker",),
        "GetFleet": ("worker",),
        "WatchFleet": ("gateway",),
        "ReportQueue": ("gateway",),
    }
)
"""SetLending is for operators."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where a coordinator can be reached, as host:port."""

    grpc: str
    http: str | None
    """None: the status page is off."""


def run(config: CoordinatorConfig) -> None:
    """Serve until the process is told to end."""
    run_app(config, lambda: serve(config))


async def serve(config: CoordinatorConfig, *, on_serving: Callable[[Addresses], None] = lambda _: None) -> Never:
    """
    Serve until cancelled. `on_serving` is told the bound addresses.

    Raises:
        ConfigError: An address is taken, or the state directory cannot be used.
    """
    clock = Clock()
    coordinator = Coordinator(config, Store.open(config.state_dir, now_s=clock.now()), clock)
    with ExitStack() as sockets:
        page = sockets.enter_context(bind(config.http_listen)) if config.http_listen else None
        async with asyncio.TaskGroup() as parts:
            if page is not None:
                status = app(coordinator.fleet, access_of(config.tokens))
                announce("http", address_of(page))
                parts.create_task(serve_http(status, page, config.tls), name="page")
            servicer = CoordinatorServicer(coordinator, parts)
            service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, servicer))
            async with serving(config.listen, service, door=internal(config.tls, CALLERS)) as server:
                parts.create_task(_export(coordinator), name="figures")
                grpc = f"{config.listen.rpartition(':')[0]}:{server.port}"
                on_serving(Addresses(grpc=grpc, http=address_of(page) if page else None))
                await coordinator.run()
    raise AssertionError("the plan never ends")


async def _export(coordinator: Coordinator) -> Never:
    figures = Figures()
    while True:
        figures.export(coordinator.fleet())
        await asyncio.sleep(FIGURES_EVERY_S)
