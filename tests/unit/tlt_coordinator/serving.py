"""The coordinator's HTTP application, without sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tlt_common.rpc.security.access import Access
from tlt_coordinator.active import ActiveCoordinator
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.http.app import app
from tlt_coordinator.http.event_feed import EventFeed


@asynccontextmanager
async def client_of(coordinator: Coordinator | None, access: Access | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the application; None: another process leads."""
    active = ActiveCoordinator(lambda: "other")
    transport = httpx.ASGITransport(app(active, EventFeed(active), access))
    async with httpx.AsyncClient(transport=transport, base_url="http://coordinator") as client:
        if coordinator is None:
            yield client
            return
        with active.activate(coordinator):
            yield client
