"""Sends requests continuously and compares every response to the undisturbed run's."""

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tlt_bench.campaign.suite.requests import GROUP, Request, difference
from tlt_common.client import Client
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import TltError

BATCH_EVERY = 4
"""Each fourth sender sends batches, the others single requests."""

STEP_S = 15.0
"""Seconds between two pauses."""
BUBBLE_S = 2.0
"""Length of a pause in seconds, after the last response."""


@dataclass(slots=True, eq=False)
class Flight:
    """A request or batch in flight."""

    requests: tuple[Request, ...]
    began_s: float
    arrivals_s: list[float] = field(default_factory=list)
    """Arrival times of its chunks."""
    ended_s: float | None = None

    def moved_s(self, stopped_s: float, *, in_transit_s: float) -> float | None:
        """
        Return when it moved after a stop: when a chunk that was not in transit arrived, or when it ended. None if it
        has not moved.
        """
        later = (at_s for at_s in self.arrivals_s if at_s > stopped_s + in_transit_s)
        return next(later, self.ended_s)


class Load:
    """
    Senders with one request or batch in flight each.

    Args:
        clients: Send the requests, in turn.
        requests: Groups of GROUP requests, sent again and again in this order.
        expected: Response of the undisturbed run, by request number.
        senders: Number of senders.
        report: Called with a sentence about each lost or changed response, and the time its request began.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        requests: Sequence[Request],
        expected: Mapping[int, TokenChunk],
        *,
        senders: int,
        report: Callable[[str, float], None],
    ) -> None:
        self._clients = itertools.cycle(clients)
        self._single = itertools.cycle(requests)
        self._groups = itertools.cycle([tuple(requests[at : at + GROUP]) for at in range(0, len(requests), GROUP)])
        self._expected = expected
        self._senders = senders
        self._report = report
        self._stopping = False
        self._flights: set[Flight] = set()
        self._open = asyncio.Event()
        self._open.set()
        self.answers = self.lost = self.changed = 0
        self.progress_s = time.monotonic()
        """When the last token arrived."""

    @property
    def streams(self) -> frozenset[Flight]:
        """Single requests in flight, whose chunks show progress."""
        return frozenset(flight for flight in self._flights if len(flight.requests) == 1)

    def stop(self) -> None:
        """Send no further requests. `run` returns when all requests sent have ended."""
        self._stopping = True
        self._open.set()

    async def is_open(self) -> bool:
        """Wait for the end of a pause; return False once the load is stopped."""
        await self._open.wait()
        return not self._stopping

    async def run(self) -> None:
        """Send until stopped."""
        self.progress_s = time.monotonic()
        async with asyncio.TaskGroup() as group:
            pauses = group.create_task(self._pause(), name="pauses")
            async with asyncio.TaskGroup() as senders:
                for number in range(self._senders):
                    sends_batches = number % BATCH_EVERY == BATCH_EVERY - 1
                    senders.create_task(self._send(sends_batches=sends_batches), name=f"sender-{number}")
            pauses.cancel()

    def give_up(self) -> None:
        """Count requests in flight as lost. The owner cancels `run` afterwards."""
        for flight in self._flights:
            self._lose(flight, flight.requests, f"no end, and {len(flight.arrivals_s)} chunks before the last progress")

    async def _pause(self) -> None:
        """Let the workers become idle from time to time, as between two steps of a trainer, so that they are lent."""
        while not self._stopping:
            await asyncio.sleep(STEP_S)
            self._open.clear()
            while self._flights:  # noqa: ASYNC110 - many tasks change it
                await asyncio.sleep(BUBBLE_S)
            await asyncio.sleep(BUBBLE_S)
            self._open.set()

    async def _send(self, *, sends_batches: bool) -> None:
        while await self.is_open():
            requests = next(self._groups) if sends_batches else (next(self._single),)
            flight = Flight(requests, time.monotonic())
            self._flights.add(flight)
            try:
                await (self._batch(flight) if sends_batches else self._stream(flight))
            finally:
                flight.ended_s = time.monotonic()
                self._flights.discard(flight)

    async def _stream(self, flight: Flight) -> None:
        (request,) = flight.requests
        answer: TokenChunk | None = None
        try:
            async for chunk in next(self._clients).stream(request.prompt_ids, request.sampling):
                self._note_progress(flight)
                answer = answer.followed_by(chunk) if answer else chunk
        except TltError as error:
            received = len(answer.token_ids) if answer else 0
            self._lose(flight, [request], f"{error.reason} after {received} tokens: {error.message}")
        else:
            self._compare(flight, request, answer)

    async def _batch(self, flight: Flight) -> None:
        missing = dict(enumerate(flight.requests))
        prompts = [request.prompt_ids for request in flight.requests]
        try:
            async for sample in next(self._clients).stream_batch(prompts, 1, flight.requests[0].sampling):
                self._note_progress(flight)
                self._compare(flight, missing.pop(sample.prompt_index), sample.response)
        except TltError as error:
            self._lose(flight, list(missing.values()), f"batch failed, {error.reason}: {error.message}")
        else:
            self._lose(flight, list(missing.values()), "batch ended without it")

    def _note_progress(self, flight: Flight) -> None:
        self.progress_s = time.monotonic()
        flight.arrivals_s.append(self.progress_s)

    def _compare(self, flight: Flight, request: Request, answer: TokenChunk | None) -> None:
        if answer is None:
            self._lose(flight, [request], "ended without tokens")
            return
        self.answers += 1
        if what := difference(answer, self._expected[request.number]):
            self.changed += 1
            self._report(f"request {request.number} changed: {what}", flight.began_s)

    def _lose(self, flight: Flight, requests: Sequence[Request], why: str) -> None:
        for request in requests:
            self.lost += 1
            self._report(f"request {request.number} lost: {why}", flight.began_s)


async def undisturbed(client: Client, requests: Sequence[Request]) -> dict[int, TokenChunk]:
    """Return the response to each request by its number, from an undisturbed suite."""
    async with asyncio.TaskGroup() as group:
        tasks = {
            request.number: group.create_task(client.generate(request.prompt_ids, request.sampling))
            for request in requests
        }
    return {number: task.result() for number, task in tasks.items()}
