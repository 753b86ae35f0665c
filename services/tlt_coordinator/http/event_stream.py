"""GET /events: sends a reader what the feed makes."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from tlt_common.errors import TltError
from tlt_common.rpc.http.calls import ENDED_WITH, code_of
from tlt_common.rpc.http.failures import status_of
from tlt_coordinator.active import ActiveCoordinator
from tlt_coordinator.http.event_feed import EventFeed
from tlt_coordinator.http.query import NoQuery, reading
from tlt_coordinator.http.viewer_access import ViewerAccess

STALLED_S = 30.0
"""Seconds after which a reader that does not take an event is disconnected."""
HEAD = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ],
}


def router_of(active: ActiveCoordinator, feed: EventFeed, viewers: ViewerAccess) -> APIRouter:
    """
    Return the route.

    Args:
        active: Holds the coordinator, if this process leads.
        feed: Makes the events.
        viewers: Says whether a reader may still read.
    """
    router = APIRouter()

    @router.get("/events", response_class=Response, dependencies=[Depends(reading(NoQuery))])
    async def events(request: Request, last_event_id: Annotated[str, Header()] = "") -> ServerSentEvents:
        active.coordinator  # noqa: B018 - raises if another process leads
        return ServerSentEvents(feed, last_event_id, lambda: viewers.admit(request))

    return router


class ServerSentEvents(Response):
    """
    A response that goes on until the reader hangs up, does not take what it is sent, or may no longer read.

    Args:
        feed: Makes the events.
        last_id: See `EventFeed.events`.
        permit: Raises an error once the reader may no longer read.
    """

    media_type = "text/event-stream"

    def __init__(self, feed: EventFeed, last_id: str, permit: Callable[[], None]) -> None:
        super().__init__()
        self._feed = feed
        self._last_id = last_id
        self._permit = permit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """
        Send the response.

        Raises:
            TltError: The id is none, or too many read.
        """
        with self._feed.reading():
            async with aclosing(self._feed.events(self._last_id)) as events:
                first = await anext(events)  # raises before anything is sent
                await send(HEAD)
                async with asyncio.TaskGroup() as parts:
                    sending = parts.create_task(self._send_all(scope, send, first, events))
                    hung_up = parts.create_task(_hung_up(receive))
                    await asyncio.wait({sending, hung_up}, return_when=asyncio.FIRST_COMPLETED)
                    sending.cancel()
                    hung_up.cancel()

    async def _send_all(self, scope: Scope, send: Send, first: bytes, events: AsyncGenerator[bytes, None]) -> None:
        try:
            await _send(send, first)
            async for event in events:
                self._permit()
                await _send(send, event)
        except TltError as error:
            scope.setdefault("state", {})[ENDED_WITH] = code_of(status_of(error))
        except TimeoutError:
            scope.setdefault("state", {})[ENDED_WITH] = "DEADLINE_EXCEEDED"
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, event: bytes) -> None:
    """
    Raises:
        TimeoutError: The reader does not take it.
    """
    async with asyncio.timeout(STALLED_S):
        await send({"type": "http.response.body", "body": event, "more_body": True})


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
