"""The coordinator's HTTP application, without sockets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tlt_common.rpc.security.access import Access
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.http.app import app
from tlt_coordinator.http.event_feed import EventFeed


@asynccontextmanager
async def client_of(coordinator: Coordinator, access: Access | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the application."""
    observer = coordinator.observer
    transport = httpx.ASGITransport(app(observer, EventFeed(observer), access))
    async with httpx.AsyncClient(transport=transport, base_url="http://coordinator") as client:
        yield client
