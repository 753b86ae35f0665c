"""The requests of a gateway: registers, aborts and moves them. Requests and their ids belong to their owner."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count

from tlt_common.aio import Signal
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.request_ids import is_named
from tlt_common.errors import InvalidRequestError, TltError, UnavailableError
from tlt_common.telemetry.log import get_logger
from tlt_gateway.requests.aborts import Aborts
from tlt_gateway.requests.running_request import Ending, RunningRequest
from tlt_gateway.workers.pooled_worker import PooledWorker

log = get_logger(__name__)

LEAVE_S = 8.0
"""Seconds for requests to leave their workers; less than the deadline of a peer that waits for it."""
ASK_S = 0.5
"""Seconds after which a worker is asked again to end requests."""


class Requests:
    """
    Args:
        withdraw: Removes a request from the queue if it is queued.
        over: Called with every ended request.
    """

    def __init__(
        self, withdraw: Callable[[Prompt], object], over: Callable[[RunningRequest], object] = lambda _: None
    ) -> None:
        self._withdraw = withdraw
        self._over = over
        self._refs = count(1)
        self._requests: dict[tuple[str, RequestId], RunningRequest] = {}
        self._aborts = Aborts()
        self._changed = Signal()
        """Set whenever a request leaves a worker."""

    @property
    def running(self) -> int:
        """Number of requests running on workers."""
        return sum(request.response is not None for request in self._requests.values())

    @contextmanager
    def entered(self, request: RunningRequest) -> Iterator[None]:
        """
        Register a request within the block. An earlier attempt whose client or connection is gone is aborted.

        Raises:
            InvalidRequestError: This attempt or a later one is running.
        """
        prompt = request.transcript.prompt
        if running := self._requests.get(prompt.key):
            if running.transcript.prompt.attempt >= prompt.attempt:
                raise InvalidRequestError(
                    f"prompt.request_id {prompt.request_id!r} is in use; accepted: a unique id per running request, or "
                    "a higher attempt",
                    field="prompt.request_id",
                )
            self._end(running, Ending.ABORTED)
        self._requests[prompt.key] = request
        request.ref = next(self._refs)
        if self._aborts.concern(prompt, now_s=asyncio.get_running_loop().time()):
            request.ending = Ending.ABORTED
        try:
            yield
        finally:
            request.started()
            if self._requests.get(prompt.key) is request:  # a newer attempt may run
                del self._requests[prompt.key]
            self._over(request)

    def left(self) -> None:
        """Record that a request has left its worker."""
        self._changed.set()

    def abort(self, request_ids: Iterable[RequestId], *, owner: str) -> set[RequestId]:
        """
        Abort requests of an owner by request id, or by the id of their prompt in a batch; return the ids of those
        aborted.

        Later attempts at them at this gateway are aborted on arrival.
        """
        wanted = set(request_ids)
        self._aborts.remember(owner, wanted, now_s=asyncio.get_running_loop().time())
        return self._end_all(
            request for (whose, name), request in self._requests.items() if whose == owner and is_named(name, wanted)
        )

    def abort_all(self, *, owner: str | None = None) -> set[RequestId]:
        """Abort all queued and running requests, or those of one owner; return their ids."""
        return self._end_all(
            request for (whose, _), request in self._requests.items() if owner is None or whose == owner
        )

    def abort_begun(self, *, hold: int) -> set[RequestId]:
        """Abort all requests except those that arrived during this pause, as SGLang does."""
        return self._end_all(request for request in self._requests.values() if request.hold != hold)

    def end_all(self) -> None:
        """End all requests because this gateway shuts down."""
        for request in list(self._requests.values()):
            self._end(request, Ending.DRAINED)

    async def until_idle(self) -> None:
        """Wait until no worker generates for this gateway."""
        while any(request.occupies for request in self._requests.values()):
            await self._until_changed(ASK_S)

    @property
    def all(self) -> tuple[RunningRequest, ...]:
        """All queued and running requests."""
        return tuple(self._requests.values())

    async def hand_over(self, worker: PooledWorker) -> None:
        """
        Ask a worker to end its requests, so that other workers continue them.

        The worker ends them, and sends the tokens generated so far, so that none is generated twice and moving does not
        depend on tokens in flight. A request that finishes meanwhile stays finished. Repeat the call if it may have
        failed: each request moves at most once.
        """
        leaving = [request for request in self._requests.values() if request.can_leave(worker)]
        if not leaving:
            return
        for request in leaving:
            request.leave()
        try:
            await worker.remote.abort([request.attempt for request in leaving], owner="")
        except TltError as error:  # the worker may have done it, or may still do it
            log.warning("hand_over_failed", worker=worker.name, requests=len(leaving), error=error.message)

    async def vacate(self) -> None:
        """
        Make all requests leave their workers, and wait until they have.

        Raises:
            UnavailableError: A worker, named in the message, still runs some after `LEAVE_S`.
        """
        try:
            async with asyncio.timeout(LEAVE_S):
                while workers := self._occupied():
                    await asyncio.gather(*(self.hand_over(worker) for worker in workers))
                    await self._until_changed(ASK_S)
        except TimeoutError:
            names = ", ".join(sorted(worker.name for worker in self._occupied()))
            raise UnavailableError(f"requests still run on {names} after {LEAVE_S:g} s; repeat the call") from None

    def _occupied(self) -> set[PooledWorker]:
        return {request.worker for request in self._requests.values() if request.worker and request.occupies}

    async def _until_changed(self, within_s: float) -> None:
        """Wait for a request to leave. A request with a slow reader may have left earlier than its stream shows."""
        if not self._occupied():
            return
        try:
            async with asyncio.timeout(within_s):
                await self._changed.beyond(self._changed.count)
        except TimeoutError:
            return

    def _end_all(self, requests: Iterable[RunningRequest]) -> set[RequestId]:
        return {
            request.transcript.prompt.request_id for request in list(requests) if self._end(request, Ending.ABORTED)
        }

    def _end(self, request: RunningRequest, ending: Ending) -> bool:
        if request.ending is not None:
            return False
        request.ending = ending
        if request.response is not None:
            request.response.hang_up()
        else:
            self._withdraw(request.transcript.prompt)
        return True
