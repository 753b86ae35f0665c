"""The queue in front of the workers: first come, first served, bounded."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tlt_common.domain.ids import RequestId
from tlt_common.domain.rollout import Prompt
from tlt_common.errors import AbortedError, OverloadedError, TltError, UnavailableError
from tlt_common.telemetry import metrics

Seat = TypeVar("Seat")


class Seats(Protocol[Seat]):
    """Where requests run."""

    @property
    def absent_since_s(self) -> float | None:
        """Loop time since when no worker has been there; None while one is."""
        ...

    def take(self, prompt: Prompt) -> Seat | None:
        """
        Reserve a seat; None while all are taken.

        Raises:
            NotFoundError: None will ever fit, since another policy version is served.
        """
        ...

    def leave(self, seat: Seat) -> None:
        """Give a seat back."""
        ...


@dataclass(slots=True, kw_only=True)
class _Waiter(Generic[Seat]):
    prompt: Prompt
    seat: asyncio.Future[Seat]


class Admission(Generic[Seat]):
    """
    Gives seats to requests in the order they came.

    Waiting for a busy worker is bounded by the caller's own deadline; waiting for any worker at all to be there, by
    `worker_wait_s`.
    """

    def __init__(
        self,
        seats: Seats[Seat],
        *,
        max_queued: int,
        worker_wait_s: float,
        retry_after_s: float,
        on_change: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._seats = seats
        self._max_queued = max_queued
        self._worker_wait_s = worker_wait_s
        self._retry_after_s = retry_after_s
        self._on_change = on_change
        self._waiters: deque[_Waiter[Seat]] = deque()

    @property
    def queued(self) -> int:
        """Requests that wait."""
        return len(self._waiters)

    def require_room(self, count: int = 1) -> None:
        """
        Check that so many requests may join the queue.

        Raises:
            OverloadedError: They would make it too long.
        """
        if self.queued + count > self._max_queued:
            metrics.GATEWAY_REFUSED.inc(count)
            raise OverloadedError(
                f"{self.queued} requests wait and {count} came; accepted: {self._max_queued} in all, "
                f"come back after {self._retry_after_s:g} s",
                retry_after_s=self._retry_after_s,
            )

    @asynccontextmanager
    async def seat(self, prompt: Prompt, *, first: bool = False) -> AsyncIterator[Seat]:
        """
        Hold a seat, after waiting for it behind all who came before; with `first`, before all.

        Raises:
            AbortedError: `withdraw` was called meanwhile.
            NotFoundError: The policy version it asks for is not served.
            UnavailableError: No worker was there for `worker_wait_s`.
        """
        came_s = asyncio.get_running_loop().time()
        seat = (None if self._waiters else self._seats.take(prompt)) or await self._wait(prompt, first=first)
        metrics.GATEWAY_QUEUE_SECONDS.observe(asyncio.get_running_loop().time() - came_s)
        try:
            yield seat
        finally:
            self._seats.leave(seat)
            self.pump()

    def withdraw(self, request_id: RequestId) -> bool:
        """End a request's wait with AbortedError. False: it does not wait."""
        for waiter in self._waiters:
            if waiter.prompt.request_id == request_id:
                waiter.seat.set_exception(AbortedError(f"request {request_id} was aborted"))
                self._waiters.remove(waiter)
                self._on_change(self.queued)
                return True
        return False

    def pump(self) -> None:
        """Give free seats to those who wait. Called whenever a seat may have become free."""
        before = self.queued
        while self._waiters:
            try:
                seat = self._seats.take(self._waiters[0].prompt)
            except TltError as error:
                self._waiters.popleft().seat.set_exception(error)
                continue
            if seat is None:
                break
            self._waiters.popleft().seat.set_result(seat)
        if self.queued != before:
            self._on_change(self.queued)

    async def _wait(self, prompt: Prompt, *, first: bool) -> Seat:
        waiter: _Waiter[Seat] = _Waiter(prompt=prompt, seat=asyncio.get_running_loop().create_future())
        (self._waiters.appendleft if first else self._waiters.append)(waiter)
        self._on_change(self.queued)
        self.pump()
        try:
            while not waiter.seat.done():
                await asyncio.wait({waiter.seat}, timeout=self._patience_s())
            return waiter.seat.result()
        except BaseException:
            self._forget(waiter)
            raise

    def _patience_s(self) -> float:
        """
        Time until there may be a reason to give up.

        Raises:
            UnavailableError: There is one now.
        """
        since_s = self._seats.absent_since_s
        if since_s is None:
            return self._worker_wait_s
        left_s = since_s + self._worker_wait_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise UnavailableError(f"no worker has been there for {self._worker_wait_s:g} s")
        return left_s

    def _forget(self, waiter: _Waiter[Seat]) -> None:
        """Its request went away, perhaps in the moment it got a seat."""
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            self._on_change(self.queued)
        elif waiter.seat.done() and waiter.seat.exception() is None:
            self._seats.leave(waiter.seat.result())
            self.pump()
