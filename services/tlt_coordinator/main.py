"""Start-up of the coordinator: its plan, its gRPC service and its status page in one event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Never, Protocol

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
from tlt_coordinator.post import Post
from tlt_coordinator.servicer import CoordinatorServicer
from tlt_coordinator.state import Store

FIGURES_EVERY_S = 0.5
"""How old a metric may be; scrapes come every few seconds at most."""

CONNECTION_S = 10.0
"""
Callers among replicas connect anew so often: one whose connection leads to a replica that lost the Lease, but lives,
would be sent away by it for ever. Streams that run stay where they are.
"""


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
        ConfigError: An address is taken, or the state directory or the API server cannot be used.
    """
    clock = Clock()
    with ExitStack() as sockets:
        page = sockets.enter_context(bind(config.http_listen)) if config.http_listen else None
        async with _office(config, clock) as office, asyncio.TaskGroup() as parts:
            if page is not None:
                status = app(office.post.fleet, access_of(config.tokens))
                announce("http", address_of(page))
                parts.create_task(serve_http(status, page, config.tls), name="page")
            servicer = CoordinatorServicer(office.post, parts)
            service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, servicer))
            door = internal(config.tls, CALLERS)
            connection_s = CONNECTION_S if config.kubernetes else None
            async with serving(config.listen, service, door=door, connection_s=connection_s) as server:
                grpc = f"{config.listen.rpartition(':')[0]}:{server.port}"
                on_serving(Addresses(grpc=grpc, http=address_of(page) if page else None))
                await office.run()
    raise AssertionError("the plan never ends")


class Office(Protocol):
    """A post, and what fills it."""

    @property
    def post(self) -> Post: ...

    async def run(self) -> Never: ...


class Alone:
    """The only coordinator: at its post from start to end."""

    def __init__(self, config: CoordinatorConfig, clock: Clock) -> None:
        self._coordinator = Coordinator(config, Store.open(config.state_dir, now_s=clock.now()), clock)
        self.post = Post()

    async def run(self) -> Never:
        with self.post.taken_by(self._coordinator):
            async with asyncio.TaskGroup() as parts:
                parts.create_task(_export(self._coordinator), name="figures")
                await self._coordinator.run()
        raise AssertionError("the plan never ends")


@asynccontextmanager
async def _office(config: CoordinatorConfig, clock: Clock) -> AsyncIterator[Office]:
    """
    Raises:
        ConfigError: The state directory or the API server cannot be used.
    """
    if config.kubernetes is None:
        yield Alone(config, clock)
        return
    from tlt_coordinator.kube.client import KubeClient
    from tlt_coordinator.kube.replica import Replica

    place = config.kubernetes
    async with aclosing(KubeClient(place.namespace, pod=place.pod, kubeconfig=place.kubeconfig)) as kube:
        yield Replica(config, place, kube, clock, export=_export)


async def _export(coordinator: Coordinator) -> Never:
    figures = Figures()
    try:
        while True:
            figures.export(coordinator.fleet())
            await asyncio.sleep(FIGURES_EVERY_S)
    finally:
        figures.withdraw()
