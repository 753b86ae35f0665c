"""Startup of the coordinator: planning, gRPC service and status page in one event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Never, TypeAlias

from tlt_common.errors import ConfigError, UnavailableError
from tlt_common.rpc.addresses import announce, with_port
from tlt_common.rpc.app import run_app
from tlt_common.rpc.http.protocol import timed
from tlt_common.rpc.http.server import address_of, bind, serve_http
from tlt_common.rpc.security.access import Access, Roles
from tlt_common.rpc.server import Service, internal, serving
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_common.telemetry.optional import kept_running
from tlt_common.wire import coordinator as wire
from tlt_coordinator.account.fleet_metrics import FleetMetrics
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.http.app import app
from tlt_coordinator.http.event_feed import EventFeed
from tlt_coordinator.http.viewer_access import access_of
from tlt_coordinator.journal import CoordinatorJournal
from tlt_coordinator.observer import Observer
from tlt_coordinator.servicer import CoordinatorServicer
from tlt_coordinator.settled_heap import SettledHeap
from tlt_coordinator.state import StateStore, locked

log = get_logger(__name__)

OBSERVE = "observe"
"""Role of those who only look: a certificate for observe.tlt.internal, like a token with that scope."""

EXPORT_EVERY_S = 0.5
"""Seconds between exports of metrics; scrapes are several seconds apart."""

TRAINED_EVERY_S = 60.0
"""Seconds of training that are one line of the journal, per worker."""

BIND_EVERY_S = 5.0
"""Seconds between attempts to bind the page's address, which another process may have."""

RECEIVE_S = 30.0
"""Seconds in which a request for the status page must arrive."""

UNREAD_S = 60.0
"""Seconds after which a connection is cut whose other end takes nothing, as a browser that sleeps, so that nothing is
kept for it."""

EXPORT_WORKERS, EXPORT_PARTS = 32, 16
"""Workers per part of an export, and parts of one, in turn: of 10,240, each is exported every 10 seconds, and no part
holds the loop for longer than a millisecond."""

CALLERS = Roles(
    {
        "HoldLease": ("worker",),
        "PublishDrafter": ("worker",),
        "GetDrafter": ("worker",),
        "WatchFleet": ("gateway",),
        "ReportQueue": ("gateway",),
        "GetFleet": (OBSERVE,),
    }
)
"""SetLending and ExcludeWorkers are for operators."""

Beside: TypeAlias = Callable[[Coordinator], Coroutine[None, None, Never]]
"""What runs beside a coordinator. If it raises, the coordinator ends with that error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Addresses of a coordinator, as host:port."""

    grpc: str
    http: str | None
    """None: the status page is disabled, or its address is in use for now."""


def run(config: CoordinatorConfig) -> None:
    """Serve until the process is told to stop."""
    run_app(config, lambda: serve(config))


async def serve(config: CoordinatorConfig, *, on_serving: Callable[[Addresses], None] = lambda _: None) -> Never:
    """
    Serve until cancelled. `on_serving` is called with the bound addresses.

    Raises:
        ConfigError: The address of gRPC is in use, that of the page is none, or the state directory, the token file or
            the API server cannot be used.
        UnavailableError: Another coordinator is at work in this one's place.
    """
    clock = Clock()
    with ExitStack() as sockets:
        journal = sockets.enter_context(CoordinatorJournal.open(config, clock.now))
        page = _bound(config.http_listen, sockets) if config.http_listen else None
        access = access_of(config.tokens)
        async with _opened(config, clock) as (store, beside), asyncio.TaskGroup() as parts:
            coordinator = Coordinator(config, store, clock, journal)
            if config.http_listen:
                page_of = partial(_page, config, config.http_listen, access, page, coordinator.observer)
                parts.create_task(kept_running("page", page_of), name="page")
            servicer = CoordinatorServicer(coordinator, parts)
            service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, servicer))
            async with serving(config.listen, service, security=internal(config.tls, CALLERS)) as server:
                grpc = with_port(config.listen, server.port)
                on_serving(Addresses(grpc=grpc, http=address_of(page) if page else None))
                await lend(coordinator, beside)
    raise AssertionError("the plan never ends")


def _bound(listen: str, sockets: ExitStack) -> socket.socket | None:
    """
    Bind the page's address; None if that fails for now, which stops no coordinator.

    Raises:
        ConfigError: It is not an address.
    """
    try:
        page = sockets.enter_context(bind(listen))
    except ConfigError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        log.warning("page_not_served", reason=error.message, retry_s=BIND_EVERY_S)
        return None
    page.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_S * 1000))
    announce("http", address_of(page))
    return page


async def _page(
    config: CoordinatorConfig, listen: str, access: Access | None, page: socket.socket | None, observer: Observer
) -> None:
    """Serve the page until cancelled, once its address can be bound."""
    with ExitStack() as sockets:
        while page is None:
            await asyncio.sleep(BIND_EVERY_S)
            page = _bound(listen, sockets)
        feed = EventFeed(observer)
        async with asyncio.TaskGroup() as parts:
            parts.create_task(feed.run(), name="events")
            served = app(observer, feed, access, config.http_hosts)
            await serve_http(served, page, config.tls, protocol=timed(RECEIVE_S))


@asynccontextmanager
async def _opened(config: CoordinatorConfig, clock: Clock) -> AsyncIterator[tuple[StateStore, Beside | None]]:
    """
    Read the state; with it, yield what runs beside the coordinator.

    Raises:
        ConfigError: The state directory or the API server cannot be used, or what is stored is no coordinator's state.
    """
    if config.kubernetes is None:
        with locked(config.state_dir):
            yield StateStore.open(config.state_dir, now_s=clock.now()), None
        return
    from tlt_coordinator.kube.client import KubeClient
    from tlt_coordinator.kube.cluster import Cluster

    place = config.kubernetes
    async with aclosing(KubeClient(place.namespace, pod=place.pod, kubeconfig=place.kubeconfig)) as kube:
        cluster = Cluster(kube, place)
        yield await cluster.open(clock.now), cluster.run


async def lend(coordinator: Coordinator, beside: Beside | None = None) -> Never:
    """Run a coordinator and what accompanies it; at the end, end all its streams."""
    metrics.COORDINATOR_ACTIVE.set(1)
    try:
        async with asyncio.TaskGroup() as parts:
            if beside is not None:
                parts.create_task(beside(coordinator), name="beside")
            parts.create_task(kept_running("trained", partial(_note_training, coordinator)), name="trained")
            heap = SettledHeap(lambda: coordinator.opened)
            parts.create_task(kept_running("heap", heap.run), name="heap")
            parts.create_task(kept_running("metrics", partial(_export, coordinator)), name="metrics")
            await coordinator.run()
    finally:
        metrics.COORDINATOR_ACTIVE.set(0)
        coordinator.end(UnavailableError("this coordinator has ended"))
    raise AssertionError("the plan never ends")


async def _note_training(coordinator: Coordinator) -> Never:
    """Write down what workers train, a few at a time. What is left at the end, the coordinator does."""
    while True:
        await asyncio.sleep(TRAINED_EVERY_S)
        position = coordinator.note_training(0, EXPORT_WORKERS)
        while position:
            await asyncio.sleep(0)
            position = coordinator.note_training(position, EXPORT_WORKERS)


async def _export(coordinator: Coordinator) -> Never:
    fleet_metrics, position, loop = FleetMetrics(), 0, asyncio.get_running_loop()
    try:
        while True:
            began_s = loop.time()
            fleet_metrics.export(coordinator.figures())
            for part in range(EXPORT_PARTS):
                position, standings = coordinator.standings(position, EXPORT_WORKERS)
                for standing in standings:
                    fleet_metrics.export_worker(standing)
                if not position:
                    break
                await asyncio.sleep(began_s + (part + 1) * EXPORT_EVERY_S / EXPORT_PARTS - loop.time())
            await asyncio.sleep(began_s + EXPORT_EVERY_S - loop.time())
    finally:
        fleet_metrics.withdraw()
