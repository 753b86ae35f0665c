"""GET /timeline: states of workers, down-sampled for display and written row by row."""

from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Depends

from tlt_common.domain.ids import WorkerId
from tlt_common.timeline import (
    MAX_LANES,
    BandRow,
    LaneRow,
    TimelineDocument,
    TimelineMark,
    Window,
    bands,
    head_of,
    lanes,
)
from tlt_coordinator.http.query import TimelineQuery, documented, reading
from tlt_coordinator.http.spans import span_of
from tlt_coordinator.http.streamed import StreamedAnswer
from tlt_coordinator.observer import Observer


def router_of(observer: Observer) -> APIRouter:
    """Return the route."""
    router = APIRouter()

    @router.get("/timeline", response_model=TimelineDocument, openapi_extra=documented(TimelineQuery))
    async def timeline(query: Annotated[TimelineQuery, Depends(reading(TimelineQuery))]) -> StreamedAnswer:
        from_s, to_s = span_of(query, observer)
        if query.worker is not None:
            observer.require(WorkerId(query.worker))
        window = Window(from_s=from_s, to_s=to_s, columns=query.columns)
        return StreamedAnswer(_written(observer, query, window), "application/json")

    return router


async def _written(observer: Observer, query: TimelineQuery, window: Window) -> AsyncGenerator[bytes, None]:
    ids: Sequence[str] = [query.worker] if query.worker is not None else observer.worker_ids[:]
    kind: Literal["lanes", "bands"] = "lanes" if len(ids) <= MAX_LANES else "bands"
    head = head_of(window, kind=kind, workers=len(ids), first=query.first, marks=marks_of(observer, window))
    yield head.model_dump_json()[:-1].encode() + b',"rows":['
    shown, separator = ids[query.first :], b""
    rows = (
        lanes(shown[: query.rows], observer.track, window)
        if kind == "lanes"
        else bands(shown, observer.track, window, min(query.rows, len(shown)))
    )
    async for row in observer.pieces.each(_encoded(row) for row in rows):
        yield separator + row
        separator = b","
    yield b"]}"


def _encoded(row: LaneRow | BandRow | None) -> bytes | None:
    return row.model_dump_json().encode() if row is not None else None


def marks_of(observer: Observer, window: Window) -> list[TimelineMark]:
    """Return the starts of steps, publications of drafters and policy updates within a window, in order."""
    steps = observer.steps(window.from_s, window.to_s)
    begins = [TimelineMark(at_unix_s=step.began_s, kind="step", label=str(step.number)) for step in steps]
    updates = [
        TimelineMark(at_unix_s=update.at_s, kind="update", label=str(update.version))
        for update in observer.updates(window.from_s, window.to_s)
    ]
    publications = [
        TimelineMark(at_unix_s=record.at_unix_s, kind="publication", label=str(record.version))
        for record in observer.drafters
    ]
    inside = [mark for mark in (*begins, *updates, *publications) if window.from_s <= mark.at_unix_s < window.to_s]
    return sorted(inside, key=lambda mark: mark.at_unix_s)
