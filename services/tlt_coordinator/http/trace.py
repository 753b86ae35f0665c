"""
GET /trace: a span of time in the JSON of Chrome's traces, which https://ui.perfetto.dev opens. Times are microseconds.

The fleet is the first process, with threads for steps, publications and updates; each worker is a process with its
states and leases.
"""

import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends

from tlt_common.domain.ids import WorkerId
from tlt_common.errors import InvalidRequestError
from tlt_common.timeline import STATES, UNKNOWN, Window
from tlt_coordinator.account.lease_history import PastLease
from tlt_coordinator.http.answers import TraceAnswer
from tlt_coordinator.http.query import TraceQuery, documented, reading
from tlt_coordinator.http.spans import span_of
from tlt_coordinator.http.streamed import StreamedAnswer
from tlt_coordinator.observer import Observer

MAX_EVENTS = 200_000
"""Events of a trace: 20 MB."""
EVENTS_AT_ONCE = 512
WORKERS_AT_ONCE = 512
FLEET, FIRST_WORKER = 1, 2
"""Processes."""
STEPS, PUBLICATIONS, UPDATES = 1, 2, 3
"""Threads of the fleet."""
STATE, LEASE = 1, 2
"""Threads of a worker."""


def router_of(observer: Observer) -> APIRouter:
    """Return the route."""
    router = APIRouter()

    @router.get("/trace", response_model=TraceAnswer, openapi_extra=documented(TraceQuery))
    async def trace(query: Annotated[TraceQuery, Depends(reading(TraceQuery))]) -> StreamedAnswer:
        from_s, to_s = span_of(query, observer)
        if query.worker is not None:
            observer.require(WorkerId(query.worker))
        ids: Sequence[WorkerId] = [WorkerId(query.worker)] if query.worker else observer.worker_ids[:]
        window = Window(from_s=from_s, to_s=to_s, columns=1)
        leases = await observer.pieces.do(partial(observer.leases, from_s, to_s))
        await _check(observer, ids, window, len(leases))
        return StreamedAnswer(_written(observer, ids, window, leases), "application/json")

    return router


async def _check(observer: Observer, ids: Sequence[WorkerId], window: Window, leases: int) -> None:
    """
    Raises:
        InvalidRequestError: There are too many events.
    """
    events = leases + 4 * len(ids)

    def count(some: Sequence[WorkerId]) -> int:
        return sum(observer.track(worker_id).changes_in(window) for worker_id in some)

    for first in range(0, len(ids), WORKERS_AT_ONCE):
        events += await observer.pieces.do(partial(count, ids[first : first + WORKERS_AT_ONCE]))
    if events > MAX_EVENTS:
        raise InvalidRequestError(
            f"from {window.from_s:.3f} to {window.to_s:.3f} there are {events} events; accepted: {MAX_EVENTS} at most, "
            "as in a shorter span, or of one worker",
            field="from",
        )


async def _written(
    observer: Observer, ids: Sequence[WorkerId], window: Window, leases: Sequence[PastLease]
) -> AsyncGenerator[bytes, None]:
    yield b'{"displayTimeUnit":"ms","traceEvents":['
    separator = b""
    async for part in observer.pieces.each(_parts(_events(observer, ids, window, leases))):
        yield separator + part
        separator = b","
    yield b"]}"


def _parts(events: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yield events as elements of a JSON array, some at a time."""
    while part := list(islice(events, EVENTS_AT_ONCE)):
        yield json.dumps(part, separators=(",", ":"))[1:-1].encode()


def _events(
    observer: Observer, ids: Sequence[WorkerId], window: Window, leases: Sequence[PastLease]
) -> Iterator[dict[str, Any]]:
    yield from _fleet(observer, window)
    held = defaultdict[WorkerId, list[PastLease]](list)
    for lease in leases:
        held[lease.worker_id].append(lease)
    for process, worker_id in enumerate(ids, FIRST_WORKER):
        yield from _names(process, worker_id, {STATE: "state", LEASE: "lease"})
        # All at once: the track is read before anything else happens.
        length_s = window.to_s - window.from_s
        spans = list(observer.track(worker_id).spans(window))
        for state, begin, end in spans:
            if state != UNKNOWN:
                from_s, to_s = window.from_s + begin * length_s, window.from_s + end * length_s
                yield _span(process, STATE, STATES[state].value, from_s, to_s)
        for lease in held[worker_id]:
            yield _span(process, LEASE, f"lease {lease.epoch}", lease.from_s, lease.to_s)


def _fleet(observer: Observer, window: Window) -> Iterator[dict[str, Any]]:
    yield from _names(FLEET, "fleet", {STEPS: "steps", PUBLICATIONS: "publications", UPDATES: "updates"})
    for step in observer.steps(window.from_s, window.to_s):
        ended_s = step.ended_s if step.ended_s is not None else min(observer.now(), window.to_s)
        event = _span(FLEET, STEPS, f"step {step.number}", step.began_s, ended_s)
        yield event | {"args": {"policy": step.policy_version, "requests": step.requests, "tokens": step.tokens}}
    for record in observer.drafters:
        if window.from_s <= record.at_unix_s < window.to_s:
            event = _instant(FLEET, PUBLICATIONS, f"drafter {record.version}", record.at_unix_s)
            yield event | {"args": {"worker": record.worker_id, "held_out_top1": record.held_out_top1}}
    for update in observer.updates(window.from_s, window.to_s):
        yield _instant(FLEET, UPDATES, f"policy {update.version}", update.at_s)


def _names(process: int, name: str, threads: dict[int, str]) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": process}}
    for thread, of in threads.items():
        yield {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": of}}


def _span(process: int, thread: int, name: str, from_s: float, to_s: float) -> dict[str, Any]:
    begin_us = round(from_s * 1e6)
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": name,
        "ts": begin_us,
        "dur": max(0, round(to_s * 1e6) - begin_us),
    }


def _instant(process: int, thread: int, name: str, at_s: float) -> dict[str, Any]:
    return {"ph": "i", "s": "g", "pid": process, "tid": thread, "name": name, "ts": round(at_s * 1e6)}
