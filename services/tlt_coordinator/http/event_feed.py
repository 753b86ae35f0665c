"""
Changes as server-sent events, encoded once for all readers.

A reader is represented by the number of the last event sent to it. Events are kept for a while, so that an interrupted
reader continues where it stopped; one that is further behind is told to read everything again. The cost of a slow
reader is bounded, and nothing waits for it.
"""

import asyncio
import re
from collections import Counter, deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from functools import partial
from secrets import token_hex
from typing import Never

from pydantic import BaseModel

from tlt_common.aio import Signal
from tlt_common.domain.ids import WorkerId
from tlt_common.errors import InvalidRequestError, OverloadedError
from tlt_coordinator.http.answers import ChangesEvent, ResyncEvent, WorkerRow, fleet_of, row_of
from tlt_coordinator.observer import Observer

EVERY_S = 0.25
"""Minimum time between two events, in seconds."""
FIGURES_S = 1.0
"""Maximum time between two, while anybody reads."""
COMMENT_S = 10.0
"""Seconds without an event after which a comment is sent."""
MAX_ROWS = 512
"""Workers in an event; further ones are in the next."""
ROWS_AT_ONCE = 128
"""Rows that are made in one piece: a millisecond."""
KEPT_EVENTS = 64
"""Events that a reader may be behind: 16 s, and 12 MB if whole fleets change."""
LINGER_S = 30.0
"""Seconds for which events are still made when nobody reads, for readers that come back."""
MAX_READERS = 1024
MAX_READERS_PER_TOKEN = 256
"""Readers with the same token: a script that opens one after the other leaves places for the others."""
GROUPS = 64
"""Readers are woken in as many passes of the event loop: what hundreds are sent takes 20 ms."""
_ID = re.compile("([0-9a-f]{8})-([0-9]{1,18})")


class EventFeed:
    """
    Makes events while anybody reads.

    Args:
        observer: Knows what changes.
    """

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._name = ""
        """In ids of events; another one after nobody has read for a while, when it is empty."""
        self._events: deque[bytes] = deque(maxlen=KEPT_EVENTS)
        self._number = 0
        """Of the last event."""
        self._seen = 0
        self._pending: dict[WorkerId, None] = {}
        """Workers that changed and are in no event yet, first change first."""
        self._told_s = 0.0
        self._moved = [Signal() for _ in range(GROUPS)]
        """One for each group of readers."""
        self._group = 0
        """Of the next reader."""
        self._readers = Counter[str]()
        """How many read, by the name of their token."""
        self._joined = Signal()

    @property
    def readers(self) -> int:
        """Number of readers."""
        return self._readers.total()

    async def run(self) -> Never:
        """Create events until cancelled."""
        loop = asyncio.get_running_loop()
        wanted_s = -LINGER_S
        try:
            while True:
                joined, now_s = self._joined.count, loop.time()
                wanted_s = now_s if self._readers.total() else wanted_s
                if now_s - wanted_s >= LINGER_S:
                    self._restart("")
                    await self._joined.beyond(joined)
                await self._look()
                await asyncio.sleep(EVERY_S)
        finally:
            self._restart("")

    @contextmanager
    def reading(self, caller: str = "") -> Iterator[None]:
        """
        Read within the block.

        Args:
            caller: Name of the reader's token; empty without one.

        Raises:
            OverloadedError: The maximum number of readers is reached, in total or for this token.
        """
        if self.readers >= MAX_READERS:
            raise OverloadedError(f"{MAX_READERS} readers of events are connected, the maximum", retry_after_s=10.0)
        if caller and self._readers[caller] >= MAX_READERS_PER_TOKEN:
            raise OverloadedError(
                f"{MAX_READERS_PER_TOKEN} readers of events use this token, the maximum", retry_after_s=10.0
            )
        self._readers[caller] += 1
        self._joined.set()
        try:
            yield
        finally:
            self._readers[caller] -= 1
            if not self._readers[caller]:
                del self._readers[caller]

    async def events(self, last_id: str) -> AsyncGenerator[bytes, None]:
        """
        Yield events and comments, encoded, until the feed ends.

        Args:
            last_id: The id of the last event that the reader got before; empty: it reads for the first time.

        Raises:
            InvalidRequestError: The id is malformed.
        """
        if last_id and not _ID.fullmatch(last_id):
            raise InvalidRequestError(
                f"Last-Event-ID is {last_id!r:.40}; accepted: the id of an event", field="Last-Event-ID"
            )
        yield b": these are changes\n\n"
        self._group = (self._group + 1) % GROUPS
        moved = self._moved[self._group]
        if not self._name:
            await _awaited(moved, moved.count)
        name, number = self._name, self._number
        if last_id:
            last_name, _, last_number = last_id.partition("-")
            if last_name != name:
                yield self._resync("the coordinator was restarted, or nobody has read for a while")
            else:
                number = int(last_number)
        while True:
            seen = moved.count
            if self._name != name or not name:
                return
            if not self._number - len(self._events) <= number <= self._number:
                number = self._number
                yield self._resync("the reader fell behind")
            elif number < self._number:
                event = self._events[number - self._number]
                number += 1
                yield event
            elif not await _awaited(moved, seen):
                yield b": nothing changed\n\n"

    def _restart(self, name: str) -> None:
        """Begin anew, and end those who read so far. An empty name: make nothing until somebody reads."""
        self._name = name
        self._told_s = 0.0
        self._events.clear()
        self._pending.clear()
        self._seen, _ = self._observer.changed(1 << 62)
        for moved in self._moved:
            moved.set()

    async def _look(self) -> None:
        source = self._observer
        if not self._name:
            self._restart(token_hex(4))
        self._seen, changed = source.changed(self._seen)
        for worker_id in reversed(changed):
            self._pending.setdefault(worker_id)
        if not self._pending and source.now() - self._told_s < FIGURES_S:
            return
        event = await self._made()
        self._number += 1
        self._events.append(event)
        for moved in self._moved:
            moved.set()
            await asyncio.sleep(0)

    async def _made(self) -> bytes:
        source = self._observer
        ids, rows, do = list(self._pending)[:MAX_ROWS], list[WorkerRow](), source.pieces.do
        for worker_id in ids:
            del self._pending[worker_id]
        for first in range(0, len(ids), ROWS_AT_ONCE):
            part = ids[first : first + ROWS_AT_ONCE]
            rows += await do(partial(_rows, source, part))
        fleet = fleet_of(source.fleet())
        self._told_s = fleet.at_unix_s
        event = ChangesEvent.model_construct(at_unix_s=fleet.at_unix_s, fleet=fleet, workers=rows)
        return await do(lambda: _event("changes", f"{self._name}-{self._number + 1}", event))

    def _resync(self, reason: str) -> bytes:
        event = ResyncEvent(reason=reason, since_unix_s=self._observer.since_s)
        return _event("resync", f"{self._name}-{self._number}", event)


async def _awaited(moved: Signal, seen: int) -> bool:
    """Wait until a signal's count exceeds `seen`; return whether it did in time."""
    try:
        async with asyncio.timeout(COMMENT_S):
            await moved.beyond(seen)
    except TimeoutError:
        return False
    return True


def _rows(source: Observer, worker_ids: list[WorkerId]) -> list[WorkerRow]:
    return [row_of(worker) for worker in source.workers(worker_ids)]


def _event(kind: str, event_id: str, data: BaseModel) -> bytes:
    return f"event: {kind}\nid: {event_id}\ndata: {data.model_dump_json()}\n\n".encode()
