"""Bounded queue in front of the workers, fair between callers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tlt_common.domain.ids import RequestId
from tlt_common.domain.rollout import Prompt
from tlt_common.errors import AbortedError, InvalidRequestError, OverloadedError, TltError, UnavailableError
from tlt_common.telemetry import metrics
from tlt_gateway.fair_queue import FairQueue
from tlt_gateway.room import Room

Slot = TypeVar("Slot")


class Slots(Protocol[Slot]):
    """Slots on workers, each of which runs one request."""

    @property
    def absent_since_s(self) -> float | None:
        """Loop time since which no worker has been available; None while one is."""
        ...

    @property
    def free(self) -> int:
        """Number of free slots."""
        ...

    def acquire(self, prompt: Prompt, *, owner: str, packed: bool = False) -> Slot | None:
        """
        Reserve a slot for a request of `owner`, beside others if `packed`; return None while all are in use.

        Raises:
            NotFoundError: No slot can ever match, since another policy version is served.
        """
        ...

    def release(self, slot: Slot) -> None:
        """Release a slot."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class _Waiter(Generic[Slot]):
    prompt: Prompt
    owner: str
    room: Room
    slot: asyncio.Future[Slot | None]
    """None if the request's turn came while its room was closed."""


class Admission(Generic[Slot]):
    """
    Assign slots to requests: between callers by weight, and in order of arrival for each caller.

    The caller's deadline bounds the wait for a busy worker; `worker_wait_s` bounds the wait while no worker is
    available.
    """

    def __init__(
        self,
        slots: Slots[Slot],
        *,
        max_queued: int,
        worker_wait_s: float,
        retry_after_s: float,
        on_change: Callable[[int], None] = lambda _: None,
        weight_of: Callable[[str], float] = lambda _: 1.0,
    ) -> None:
        self._slots = slots
        self._max_queued = max_queued
        self._worker_wait_s = worker_wait_s
        self._retry_after_s = retry_after_s
        self._on_change = on_change
        self._waiters: FairQueue[_Waiter[Slot]] = FairQueue(weight_of)
        self._by_id: dict[RequestId, _Waiter[Slot]] = {}
        self._held = False

    @property
    def queued(self) -> int:
        """Number of queued requests."""
        return len(self._waiters)

    @property
    def held(self) -> bool:
        """Whether no request is started."""
        return self._held

    def hold(self) -> None:
        """Start no request until `proceed`; they queue."""
        self._held = True
        self._tell()

    def proceed(self) -> None:
        """Start requests again. Does nothing unless they are held."""
        self._held = False
        self._tell()
        self.pump()

    def require_fit(self, count: int, *, field: str) -> None:
        """
        Check that `count` requests fit into an empty queue: more could never be accepted.

        Raises:
            InvalidRequestError: They do not; the error names `field`.
        """
        if count > self._max_queued:
            raise InvalidRequestError(
                f"{field} makes {count} requests; accepted: at most {self._max_queued} per call", field=field
            )

    def require_room(self, count: int = 1) -> None:
        """
        Check that there is room for `count` more requests, in free slots and in the queue.

        Raises:
            OverloadedError: The queue would exceed `max_queued`.
        """
        if self.queued + count > self._max_queued and self.queued + count > self._max_queued + self._slots.free:
            metrics.GATEWAY_REFUSED.inc(count)
            raise OverloadedError(
                f"{self.queued} requests are queued and {count} arrived; accepted: at most {self._max_queued} queued; "
                f"retry after {self._retry_after_s:g} s",
                retry_after_s=self._retry_after_s,
            )

    @asynccontextmanager
    async def slot(
        self, prompt: Prompt, *, room: Room, owner: str, first: bool = False, packed: bool = False
    ) -> AsyncIterator[Slot]:
        """
        Hold a slot, waiting behind the owner's queued requests, or ahead of them if `first` is set.

        A request whose turn comes while its room is closed leaves the queue, and enters it again, first, when it opens.

        Args:
            prompt: The request.
            room: Whether it may start.
            owner: Name of the caller's token; empty without one.
            first: An earlier attempt at the request has waited already.
            packed: It moves in the tail: prefer a worker that runs other requests.

        Raises:
            AbortedError: `withdraw` was called while the request was queued.
            NotFoundError: The requested policy version is not served.
            UnavailableError: No worker was available for `worker_wait_s`.
        """
        arrived_s = asyncio.get_running_loop().time()
        while True:
            await room.until_open()
            slot = None if self._waiters or self._held else self._slots.acquire(prompt, owner=owner, packed=packed)
            if slot := slot or await self._wait(prompt, room, owner, first=first):
                break
            first = True
        metrics.GATEWAY_QUEUE_SECONDS.observe(asyncio.get_running_loop().time() - arrived_s)
        try:
            yield slot
        finally:
            self._slots.release(slot)
            self.pump()

    def withdraw(self, request_id: RequestId) -> bool:
        """Remove a request from the queue; its wait fails with AbortedError. Return False if it is not queued."""
        waiter = self._by_id.get(request_id)
        if waiter is None or waiter not in self._waiters:
            return False
        waiter.slot.set_exception(AbortedError(f"request {request_id} was aborted"))
        self._remove(waiter)
        return True

    def pump(self) -> None:
        """Assign free slots to queued requests. Call this whenever a slot may have become free."""
        before = self.queued
        while self._waiters and not self._held:
            if not self._waiters.head().room.is_open:
                self._waiters.pop().slot.set_result(None)
                continue
            try:
                head = self._waiters.head()
                slot = self._slots.acquire(head.prompt, owner=head.owner)
            except TltError as error:
                self._waiters.pop().slot.set_exception(error)
                continue
            if slot is None:
                break
            self._waiters.pop().slot.set_result(slot)
        if self.queued != before:
            self._tell()

    async def _wait(self, prompt: Prompt, room: Room, owner: str, *, first: bool) -> Slot | None:
        slot = asyncio.get_running_loop().create_future()
        waiter: _Waiter[Slot] = _Waiter(prompt=prompt, owner=owner, room=room, slot=slot)
        self._waiters.push(waiter, owner, first=first)
        self._by_id[prompt.request_id] = waiter
        self._tell()
        try:
            while not waiter.slot.done():
                await asyncio.wait({waiter.slot}, timeout=self._wait_limit_s())
            return waiter.slot.result()
        except BaseException:
            self._forget(waiter)
            raise
        finally:
            if self._by_id.get(prompt.request_id) is waiter:
                del self._by_id[prompt.request_id]

    def _wait_limit_s(self) -> float:
        """
        Return the seconds to wait before checking again whether a worker is available.

        Raises:
            UnavailableError: No worker has been available for `worker_wait_s`.
        """
        since_s = self._slots.absent_since_s
        if since_s is None:
            return self._worker_wait_s
        left_s = since_s + self._worker_wait_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            raise UnavailableError(f"no worker has been available for {self._worker_wait_s:g} s")
        return left_s

    def _forget(self, waiter: _Waiter[Slot]) -> None:
        """Clean up after a cancelled request, which may have been assigned a slot just before."""
        if waiter in self._waiters:
            self._remove(waiter)
        elif waiter.slot.done() and waiter.slot.exception() is None and (slot := waiter.slot.result()) is not None:
            self._slots.release(slot)
            self.pump()

    def _remove(self, waiter: _Waiter[Slot]) -> None:
        self._waiters.remove(waiter)
        self._tell()

    def _tell(self) -> None:
        # Held requests ask for no worker: devices may be lent meanwhile.
        self._on_change(0 if self._held else self.queued)
