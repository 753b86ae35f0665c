"""Bounded queue in front of the workers, fair between callers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tlt_common.domain.ids import RequestId, WorkerId
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import AbortedError, TltError, UnavailableError
from tlt_common.telemetry import metrics
from tlt_gateway.queue.fair_queue import FairQueue
from tlt_gateway.queue.queue_room import QueueLimits, QueueRoom
from tlt_gateway.queue.room import Room

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

    def acquire(self, prompt: Prompt, *, beside: WorkerId | None = None) -> Slot | None:
        """
        Reserve a slot for a request, on that worker if it has one; return None while all are in use.

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
        limits: QueueLimits,
        worker_wait_s: float,
        retry_after_s: float,
        on_change: Callable[[int], None] = lambda _: None,
        weight_of: Callable[[str], float] = lambda _: 1.0,
    ) -> None:
        self._slots = slots
        self._worker_wait_s = worker_wait_s
        self._on_change = on_change
        self._waiters: FairQueue[_Waiter[Slot]] = FairQueue(weight_of)
        self._by_key: dict[tuple[str, RequestId], _Waiter[Slot]] = {}
        self._held = False
        self.room = QueueRoom(limits, free=lambda: 0 if self._held else slots.free, retry_after_s=retry_after_s)
        """Room in the queue. A call reserves it before it is validated."""
        self.holds = 0
        """Times that requests were held so far."""

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
        self.holds += not self._held
        self._held = True
        self._tell()

    def proceed(self) -> None:
        """Start requests again. Does nothing unless they are held."""
        self._held = False
        self._tell()
        self.pump()

    @asynccontextmanager
    async def slot(
        self, prompt: Prompt, *, room: Room, first: bool = False, beside: WorkerId | None = None
    ) -> AsyncIterator[Slot]:
        """
        Hold a slot, waiting behind the owner's queued requests, or ahead of them if `first` is set.

        A request whose turn comes while its room is closed leaves the queue, and enters it again, first, when it opens.

        Args:
            prompt: The request.
            room: Whether it may start.
            first: An earlier attempt at the request has waited already.
            beside: It moves in the tail: prefer this worker, beside what it runs.

        Raises:
            AbortedError: `withdraw` was called while the request was queued.
            NotFoundError: The requested policy version is not served.
            UnavailableError: No worker was available for `worker_wait_s`.
        """
        arrived_s = asyncio.get_running_loop().time()
        while True:
            await room.until_open()
            slot = None if self._waiters or self._held else self._slots.acquire(prompt, beside=beside)
            if (slot := slot or await self._wait(prompt, room, first=first)) and not self._held:
                break
            if slot:  # held since it was assigned
                self._slots.release(slot)
            first = True
        metrics.GATEWAY_QUEUE_SECONDS.observe(asyncio.get_running_loop().time() - arrived_s)
        try:
            yield slot
        finally:
            self._slots.release(slot)
            self.pump()

    def withdraw(self, prompt: Prompt) -> bool:
        """Remove a request from the queue; its wait fails with AbortedError. Return False if it is not queued."""
        waiter = self._by_key.get(prompt.key)
        if waiter is None or waiter not in self._waiters:
            return False
        waiter.slot.set_exception(AbortedError(f"request {prompt.request_id} was aborted"))
        self._remove(waiter)
        return True

    def pump(self) -> None:
        """Assign free slots to queued requests. Call this whenever a slot may have become free."""
        before = self.queued
        while self._waiters and not self._held:
            head = self._waiters.head()
            if not head.room.is_open:
                self._waiters.remove(head)
                head.slot.set_result(None)
                continue
            try:
                slot = self._slots.acquire(head.prompt)
            except TltError as error:
                self._waiters.remove(head)
                head.slot.set_exception(error)
                continue
            if slot is None:
                break
            self._waiters.pop().slot.set_result(slot)
        if self.queued != before:
            self._tell()

    async def _wait(self, prompt: Prompt, room: Room, *, first: bool) -> Slot | None:
        slot = asyncio.get_running_loop().create_future()
        waiter: _Waiter[Slot] = _Waiter(prompt=prompt, room=room, slot=slot)
        self._waiters.push(waiter, prompt.owner, first=first)
        self._by_key[prompt.key] = waiter
        self._tell()
        try:
            while not waiter.slot.done():
                await asyncio.wait({waiter.slot}, timeout=self._wait_limit_s())
            return waiter.slot.result()
        except BaseException:
            self._forget(waiter)
            raise
        finally:
            if self._by_key.get(prompt.key) is waiter:
                del self._by_key[prompt.key]

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
