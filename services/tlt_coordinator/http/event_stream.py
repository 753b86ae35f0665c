"""GET /events: sends the feed's events to a reader."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import Response

from tlt_coordinator.http.event_feed import EventFeed
from tlt_coordinator.http.query import NoQuery, reading
from tlt_coordinator.http.streamed import StreamedAnswer
from tlt_coordinator.http.viewer_access import ViewerAccess

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def router_of(feed: EventFeed, viewers: ViewerAccess) -> APIRouter:
    """
    Return the route.

    Args:
        feed: Makes the events.
        viewers: Says whether a reader may still read.
    """
    router = APIRouter()

    @router.get("/events", response_class=Response, dependencies=[Depends(reading(NoQuery))])
    async def events(request: Request, last_event_id: Annotated[str, Header()] = "") -> StreamedAnswer:
        return event_stream(feed, last_event_id, lambda: viewers.check(request), viewers.check(request))

    return router


def event_stream(feed: EventFeed, last_id: str, permit: Callable[[], object], caller: str = "") -> StreamedAnswer:
    """
    Return the answer to a reader.

    Args:
        feed: Makes the events.
        last_id: See `EventFeed.events`.
        permit: Raises an error once the reader may no longer read.
        caller: Name of the reader's token; empty without one.
    """

    async def events() -> AsyncGenerator[bytes, None]:
        with feed.reading(caller):
            async with aclosing(feed.events(last_id)) as found:
                async for event in found:
                    permit()
                    yield event

    return StreamedAnswer(events(), "text/event-stream", HEADERS)
