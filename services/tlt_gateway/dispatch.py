"""The life of a request: validate it, assign it to a worker, stream it, move it when its worker is lost, abort it."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import replace

from tlt_common.aio import Signal
from tlt_common.domain.bounds import MAX_REQUEST_ID, require_name
from tlt_common.domain.ids import RequestId
from tlt_common.domain.request_ids import attempt_id, is_named, new_request_id
from tlt_common.domain.rollout import FinishReason, Prompt, TokenChunk
from tlt_common.domain.transcript import Transcript
from tlt_common.errors import (
    AbortedError,
    DrainingError,
    EngineError,
    HungUpError,
    InvalidRequestError,
    RequestFailedError,
    StaleVersionError,
    TltError,
    UnavailableError,
)
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_gateway.aborts import Aborts
from tlt_gateway.across import learn_of
from tlt_gateway.admission import Admission
from tlt_gateway.pooled_worker import PooledWorker
from tlt_gateway.request_metrics import RequestMetrics
from tlt_gateway.room import Room
from tlt_gateway.running_request import RunningRequest
from tlt_gateway.worker_pool import WorkerPool

log = get_logger(__name__)

VERSION_S = 5.0
"""Seconds to wait for the gateway to learn of a policy version that workers already serve."""


class Dispatch:
    """All requests of a gateway."""

    def __init__(
        self, pool: WorkerPool, admission: Admission[PooledWorker], *, worker_wait_s: float, max_moves: int
    ) -> None:
        self._pool = pool
        self._admission = admission
        self._worker_wait_s = worker_wait_s
        self._max_moves = max_moves
        self._requests: dict[RequestId, RunningRequest] = {}
        self._aborts = Aborts()
        self._left = Signal()
        """Set whenever a request leaves a worker."""

    @property
    def running(self) -> int:
        """Number of requests running on workers."""
        return sum(request.response is not None for request in self._requests.values())

    async def checked(self, prompt: Prompt) -> Prompt:
        """
        Validate a prompt against the model, and assign a request id if it has none.

        Raises:
            InvalidRequestError: The prompt does not fit the model, or its id is too long.
            UnavailableError: No worker became available to report the model.
        """
        require_name("prompt.request_id", prompt.request_id, most=MAX_REQUEST_ID)
        model = await self._pool.model(self._worker_wait_s)
        if prompt.policy_version is not None and prompt.policy_version > self._pool.version:
            await learn_of(prompt.policy_version, self._pool, within_s=VERSION_S)
        finds = bool(prompt.sampling.stop) and self._pool.finds_stop_strings
        prompt = prompt.for_model(
            vocab_size=model.vocab_size, context_length=model.context_length, finds_stop_strings=finds
        )
        return prompt if prompt.request_id else replace(prompt, request_id=new_request_id())

    def stream(self, prompt: Prompt, room: Room | None = None) -> AsyncGenerator[TokenChunk, None]:
        """
        Generate the response to a validated prompt, once `room` is open. Closing the iterator aborts the request.

        After `abort` the stream ends with FinishReason.ABORT.

        Raises:
            InvalidRequestError: The request id is in use.
            NotFoundError: The requested policy version is not served.
            UnavailableError: No worker is available, or too many were lost.
            RequestFailedError: The engine failed on this request, or two engines died of it.
        """
        return self._counted(RunningRequest(transcript=Transcript(prompt), room=room or Room()))

    def abort(self, request_ids: Iterable[RequestId]) -> set[RequestId]:
        """
        Abort requests by request id, or by the id of their prompt in a batch; return the ids of those aborted.

        Later attempts at them, at this gateway, end at once.
        """
        wanted = set(request_ids)
        self._aborts.remember(wanted, now_s=asyncio.get_running_loop().time())
        return self._abort_all(request for name, request in self._requests.items() if is_named(name, wanted))

    def abort_all(self) -> set[RequestId]:
        """Abort all queued and running requests; return their ids."""
        return self._abort_all(self._requests.values())

    async def until_idle(self) -> None:
        """Wait until no request runs on a worker."""
        while self.running:
            await self._left.beyond(self._left.count)

    async def hand_over(self, worker: PooledWorker, *, after_s: float) -> None:
        """
        Move all requests from a worker to others that run some.

        The worker ends them, and sends what it has generated until then, so nothing is generated twice, and whether a
        request moves cannot depend on tokens that are still underway. One that finishes meanwhile has finished.

        Args:
            worker: The worker.
            after_s: Does nothing unless all have run there for this many seconds.
        """
        now_s = asyncio.get_running_loop().time()
        leaving = [request for request in self._requests.values() if request.can_leave(worker)]
        if not leaving or any(now_s - request.began_s < after_s for request in leaving):
            return
        for request in leaving:
            request.leave()
        try:
            await worker.remote.abort([request.attempt for request in leaving])
        except TltError as error:
            log.warning("not_handed_over", worker=worker.name, requests=len(leaving), error=error.message)
            for request in leaving:
                request.stay()

    def _abort_all(self, requests: Iterable[RunningRequest]) -> set[RequestId]:
        return {request.transcript.prompt.request_id for request in list(requests) if self._abort(request)}

    def _enter(self, request: RunningRequest) -> None:
        """
        Register a request. An older attempt at it, whose client or connection is gone, is aborted.

        Raises:
            InvalidRequestError: This attempt, or a newer one, is running.
        """
        prompt = request.transcript.prompt
        if running := self._requests.get(prompt.request_id):
            if running.transcript.prompt.attempt >= prompt.attempt:
                raise InvalidRequestError(
                    f"prompt.request_id {prompt.request_id!r} is in use; accepted: a unique id per running request, or "
                    "a higher attempt",
                    field="prompt.request_id",
                )
            self._abort(running)
        self._requests[prompt.request_id] = request
        request.aborted = self._aborts.concern(prompt, now_s=asyncio.get_running_loop().time())

    async def _counted(self, request: RunningRequest) -> AsyncGenerator[TokenChunk, None]:
        """Register the request, stream it to completion, and remove it."""
        self._enter(request)
        outcome, measured = "failed", RequestMetrics(request.transcript.prompt)
        try:
            async with aclosing(self._moving(request)) as chunks:
                async for chunk in chunks:
                    measured.chunk(chunk)
                    yield chunk
            outcome = "finished"
            measured.finished()
        except AbortedError:
            outcome = "stale" if request.stale else "aborted"
            yield request.transcript.end(FinishReason.ABORT)
        except (GeneratorExit, asyncio.CancelledError):
            outcome = "hung_up"
            raise
        finally:
            if self._requests.get(request.transcript.prompt.request_id) is request:  # a newer attempt may run
                del self._requests[request.transcript.prompt.request_id]
            metrics.GATEWAY_REQUESTS.labels(outcome=outcome).inc()

    async def _moving(self, request: RunningRequest) -> AsyncGenerator[TokenChunk, None]:
        """Stream from one worker after another until the response is complete."""
        transcript, refused, packed = request.transcript, False, False
        while transcript.finish_reason is None:
            self._require_wanted(request)
            again = refused or transcript.prompt.attempt + transcript.ended_attempts > 0
            async with self._admission.slot(
                transcript.rest(), room=request.room, owner=request.owner, first=again, packed=packed
            ) as worker:
                packed = False
                try:
                    async with aclosing(self._from_worker(request, worker)) as chunks:
                        async for chunk in chunks:
                            if packed := request.leaving and chunk.finish_reason is FinishReason.ABORT:
                                yield transcript.add(replace(chunk, finish_reason=None, stats=None))
                            else:
                                fresh = transcript.fresh(chunk)
                                yield transcript.add(fresh)
                                if fresh is not chunk:
                                    raise _stale(request)
                            if transcript.finish_reason is None:
                                self._require_wanted(request)
                    if packed:
                        self._hand_over(transcript, worker)
                except DrainingError:  # nothing was generated: queue the request again, ahead of others
                    self._pool.refused(worker)
                    refused = True
                except StaleVersionError:  # an update through another gateway that is not known here yet
                    await self._pool.refresh(VERSION_S)
                    refused = True
                except (UnavailableError, EngineError) as error:
                    self._move(transcript, worker, error)
        if not transcript.closed:
            yield transcript.end(transcript.finish_reason)

    async def _from_worker(self, request: RunningRequest, worker: PooledWorker) -> AsyncGenerator[TokenChunk, None]:
        """
        Stream from one worker.

        Raises:
            AbortedError: The request was aborted before or during the stream.
            UnavailableError: The worker is lost, or ended the stream before the response was complete.
        """
        self._require_wanted(request)  # it may be aborted between assignment and start
        rest = request.transcript.rest()
        request.worker, request.attempt = worker, attempt_id(rest.request_id)
        request.began_s = asyncio.get_running_loop().time()
        request.response = worker.remote.generate(
            replace(
                rest,
                request_id=request.attempt,
                policy_version=self._pool.version if rest.is_continued and rest.policy_version else rest.policy_version,
            )
        )
        metrics.GATEWAY_RUNNING.inc()
        try:
            async with aclosing(request.response.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            request.stay()
            request.response = request.worker = None
            self._left.set()
            metrics.GATEWAY_RUNNING.dec()

    def _move(self, transcript: Transcript, worker: PooledWorker, error: UnavailableError | EngineError) -> None:
        """
        Mark the worker as lost, so that the request continues on another.

        Raises:
            RequestFailedError: Two engines died while they ran the request, which is the likely cause.
            UnavailableError: The request has already moved `max_moves` times.
        """
        self._pool.lose(worker, error.message)
        if transcript.moves == self._max_moves:
            raise UnavailableError(
                f"worker {worker.name} was lost ({error.message}) after the request had moved {transcript.moves} times"
            ) from error
        # A worker that was leaving is ended by whoever asked it to leave, however early.
        left = worker.info is not None and worker.info.draining
        transcript.move(died=not (left or isinstance(error, HungUpError)))
        if transcript.is_suspect:
            raise RequestFailedError(
                f"two engines died while they ran the request, the last one on worker {worker.name} ({error.message}); "
                "it is not moved again"
            ) from error
        metrics.GATEWAY_MOVED_REQUESTS.inc()
        log.info("request_moved", request_id=transcript.prompt.request_id, lost=worker.name, moves=transcript.moves)

    def _hand_over(self, transcript: Transcript, worker: PooledWorker) -> None:
        transcript.hand_over()
        metrics.GATEWAY_CONSOLIDATED_REQUESTS.inc()
        log.info("request_handed_over", request_id=transcript.prompt.request_id, by=worker.name)

    def _abort(self, request: RunningRequest) -> bool:
        if request.aborted:
            return False
        request.aborted = True
        if request.response is not None:
            request.response.hang_up()
        else:
            self._admission.withdraw(request.transcript.rest().request_id)
        return True

    def _require_wanted(self, request: RunningRequest) -> None:
        """
        Check that a request was not aborted while neither the queue nor a worker had it, and that it is not stale.

        Raises:
            AbortedError: It was, or it is.
        """
        if request.aborted:
            raise AbortedError(f"request {request.transcript.prompt.request_id} was aborted")
        if request.transcript.is_stale(self._pool.version):
            raise _stale(request)


def _stale(request: RunningRequest) -> AbortedError:
    request.stale = True
    return AbortedError(f"request {request.transcript.prompt.request_id} may not continue with the weights served")
