"""Bounded queue in front of the workers, fair between callers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import AbortedError, TltError, UnavailableError
from tlt_common.telemetry import metrics
from tlt_gateway.queue.fair_queue import FairQueue
from tlt_gateway.queue.gate import Gate
from tlt_gateway.queue.queue_capacity import QueueCapacity, QueueLimits

Slot = TypeVar("Slot")


class Slots(Protocol[Slot]):
    """Slots on workers, each of which runs one request."""

    @property
    def absent_since_s(self) -> float | None:
        """Loop time since which no worker has been available; None while one is available."""
        ...

    @property
    def free(self) -> int:
        """Number of free slots."""
        ...

    @property
    def offer(self) -> Hashable:
        """Summary of what present workers serve. While it is unchanged, so is `may_ever_run` for every request."""
        ...

    def acquire(self, prompt: Prompt) -> Slot | None:
        """
        Reserve a slot for a request; return None while all are in use.

        Raises:
            NotFoundError: No slot can ever match, since another policy version is served.
        """
        ...

    def may_ever_run(self, prompt: Prompt) -> bool:
        """Whether any present worker would run a request if it had a free slot. True while no worker is present."""
        ...

    def release(self, slot: Slot) -> None:
        """Release a slot."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class _Waiter(Generic[Slot]):
    prompt: Prompt
    gate: Gate
    slot: asyncio.Future[Slot | None]
    """The slot; None if the request's turn came while its gate was closed."""
    aside_since_s: float | None = None
    """Loop time since which no present worker could run it, so that others pass it; None if one could."""


class Admission(Generic[Slot]):
    """
    Assigns slots to requests: by weight between callers, and in order of arrival for each caller.

    The caller's deadline bounds the wait for a busy worker; `worker_wait_s` bounds the wait while no worker is
    available. A request that no present worker could ever run, even idle, is set aside for that time; only such
    requests are overtaken, so that none starves.
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
        self._aside: dict[_Waiter[Slot], None] = {}
        """Requests that were taken out of the queue, in order, until the offer is another one."""
        self._offer: Hashable = None
        """What workers served when requests were set aside."""
        self._by_key: dict[tuple[str, RequestId], _Waiter[Slot]] = {}
        self._held = False
        self.capacity = QueueCapacity(limits, free=lambda: 0 if self._held else slots.free, retry_after_s=retry_after_s)
        """Capacity of the queue. A call reserves its share before it is validated."""
        self.holds = 0
        """Times that requests were held so far."""

    @property
    def queued(self) -> int:
        """Number of queued requests."""
        return len(self._waiters) + len(self._aside)

    @property
    def held(self) -> bool:
        """Whether starting requests is on hold."""
        return self._held

    def hold(self) -> None:
        """Queue requests without starting any until `proceed` is called."""
        self.holds += not self._held
        self._held = True
        self._tell()

    def proceed(self) -> None:
        """Resume starting requests. Does nothing unless they are on hold."""
        self._held = False
        self._tell()
        self.pump()

    @asynccontextmanager
    async def slot(self, prompt: Prompt, *, gate: Gate, first: bool = False) -> AsyncIterator[Slot]:
        """
        Hold a slot within the block, after waiting behind the owner's queued requests, or ahead of them if `first` is
        set.

        A request whose turn comes while its gate is closed leaves the queue, and enters it again, first, when it opens.

        Args:
            prompt: The request.
            gate: Whether the request may start.
            first: An earlier attempt at the request has waited already.

        Raises:
            AbortedError: `withdraw` was called while the request was queued.
            NotFoundError: The requested policy version is not served.
            UnavailableError: No worker was available for `worker_wait_s`.
        """
        arrived_s = asyncio.get_running_loop().time()
        while True:
            await gate.until_open()
            slot = None if self._waiters or self._held else self._slots.acquire(prompt)
            if (slot := slot or await self._wait(prompt, gate, first=first)) and not self._held:
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
        if waiter is None or not self._is_queued(waiter):
            return False
        waiter.slot.set_exception(AbortedError(f"request {prompt.request_id} was aborted"))
        self._remove(waiter)
        return True

    def pump(self) -> None:
        """Assign free slots to queued requests. Call this whenever a slot may have become free."""
        before = self.queued
        self._take_back()
        while self._waiters and not self._held:
            head = self._waiters.head()
            if not head.gate.is_open:
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
                if self._slots.may_ever_run(head.prompt):
                    break
                self._waiters.remove(head)
                self._set_aside(head)
                continue
            self._waiters.pop().slot.set_result(slot)
        if self.queued != before:
            self._tell()

    async def _wait(self, prompt: Prompt, gate: Gate, *, first: bool) -> Slot | None:
        slot = asyncio.get_running_loop().create_future()
        waiter: _Waiter[Slot] = _Waiter(prompt=prompt, gate=gate, slot=slot)
        if self._waiters or self._held or self._slots.may_ever_run(prompt):
            self._waiters.push(waiter, prompt.owner, first=first)
        else:
            self._set_aside(waiter)
        self._by_key[prompt.key] = waiter
        self._tell()
        try:
            while not waiter.slot.done():
                await asyncio.wait({waiter.slot}, timeout=self._wait_limit_s(waiter))
            return waiter.slot.result()
        except BaseException:
            self._forget(waiter)
            raise
        finally:
            if self._by_key.get(prompt.key) is waiter:
                del self._by_key[prompt.key]

    def _wait_limit_s(self, waiter: _Waiter[Slot]) -> float:
        """
        Return the seconds to wait before checking again whether a worker is available.

        Raises:
            UnavailableError: No worker, or none that serves what the request requires, has been available for
                `worker_wait_s`.
        """
        absent_s, aside_s = self._slots.absent_since_s, waiter.aside_since_s if waiter in self._aside else None
        since_s = min((each for each in (absent_s, aside_s) if each is not None), default=None)
        if since_s is None:
            return self._worker_wait_s
        left_s = since_s + self._worker_wait_s - asyncio.get_running_loop().time()
        if left_s <= 0:
            which = "no worker" if absent_s is not None else "no worker that serves prompt.policy_version"
            raise UnavailableError(f"{which} has been available for {self._worker_wait_s:g} s")
        return left_s

    def _set_aside(self, waiter: _Waiter[Slot]) -> None:
        """Let other requests pass one that no present worker could ever run."""
        if not self._aside:
            self._offer = self._slots.offer
        if waiter.aside_since_s is None:
            waiter.aside_since_s = asyncio.get_running_loop().time()
        self._aside[waiter] = None

    def _take_back(self) -> None:
        """Return requests set aside to the head of their owners' queues if workers now serve something else."""
        if not self._aside or self._slots.offer == self._offer:
            return
        for waiter in reversed(tuple(self._aside)):
            if self._slots.may_ever_run(waiter.prompt):
                waiter.aside_since_s = None
            self._waiters.push(waiter, waiter.prompt.owner, first=True)
        self._aside.clear()

    def _is_queued(self, waiter: _Waiter[Slot]) -> bool:
        return waiter in self._waiters or waiter in self._aside

    def _forget(self, waiter: _Waiter[Slot]) -> None:
        """Clean up after a cancelled request, which may have been assigned a slot just before."""
        if self._is_queued(waiter):
            self._remove(waiter)
        elif waiter.slot.done() and waiter.slot.exception() is None and (slot := waiter.slot.result()) is not None:
            self._slots.release(slot)
            self.pump()

    def _remove(self, waiter: _Waiter[Slot]) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        else:
            del self._aside[waiter]
        self._tell()

    def _tell(self) -> None:
        # Held requests ask for no worker: devices may be lent meanwhile.
        self._on_change(0 if self._held else self.queued)
