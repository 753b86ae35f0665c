"""The life of a request: validate, assign to a worker, stream, move if the worker is lost, end."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from hashlib import sha256

from tlt_common.domain.bounds import MAX_REQUEST_ID, require_name
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.request_ids import attempt_id, new_request_id
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.domain.transcript import Transcript
from tlt_common.errors import (
    AbortedError,
    DrainingError,
    EngineError,
    HungUpError,
    RequestFailedError,
    StaleVersionError,
    UnavailableError,
)
from tlt_common.rpc.security.access import caller_name
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_gateway.queue.admission import Admission
from tlt_gateway.queue.gate import Gate
from tlt_gateway.queue.queue_capacity import Reservation
from tlt_gateway.requests.keeping import keep_key, taken
from tlt_gateway.requests.other_gateways import learn_of
from tlt_gateway.requests.request_metrics import RequestMetrics
from tlt_gateway.requests.requests import Requests
from tlt_gateway.requests.running_request import Ending, RequestStage, RunningRequest
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.response_stream import ResponseStream
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)

MAX_MOVES = 3
"""
Maximum number of times a request moves to another worker after its worker is lost, so that it does not wander forever.
A request that killed two engines is not moved at all.
"""
VERSION_S = 5.0
"""Seconds to wait for the gateway to learn of a policy version that workers already serve."""


class Dispatch:
    """
    Streams the responses of a gateway.

    Args:
        pool: The workers.
        admission: The queue in front of them.
        requests: Registry of requests.
        worker_wait_s: Seconds to wait while no worker is available.
        max_moves: Maximum number of moves of a request whose workers were lost.
        share_cache: Whether requests of different owners may use one another's cached prefixes.
        over: Called with every ended request, its measurements and its outcome.
    """

    def __init__(
        self,
        pool: WorkerPool,
        admission: Admission[PooledWorker],
        requests: Requests,
        *,
        worker_wait_s: float,
        max_moves: int,
        share_cache: bool = False,
        over: Callable[[RunningRequest, RequestMetrics, str], object] = lambda *_: None,
    ) -> None:
        self._pool = pool
        self._admission = admission
        self._requests = requests
        self._worker_wait_s = worker_wait_s
        self._max_moves = max_moves
        self._share_cache = share_cache
        self._over = over

    async def vocab_size(self) -> int:
        """
        Return the size of the model's vocabulary.

        Raises:
            UnavailableError: No worker became available to report the model.
        """
        return (await self._pool.model(self._worker_wait_s)).vocab_size

    async def checked(self, prompt: Prompt, *, keeps_response: bool = False) -> Prompt:
        """
        Validate a prompt against the model; give it its owner and, if it has none, a request id.

        Args:
            prompt: The prompt, as decoded.
            keeps_response: Whether workers keep the response if this gateway is lost and the caller chose the id.

        Raises:
            InvalidRequestError: The prompt does not fit the model, or its id is too long.
            UnavailableError: No worker became available to report the model.
        """
        require_name("prompt.request_id", prompt.request_id, most=MAX_REQUEST_ID)
        model = await self._pool.model(self._worker_wait_s)
        if prompt.policy_version is not None and prompt.policy_version > self._pool.version:
            await learn_of(prompt.policy_version, self._pool, within_s=VERSION_S)
        owner = caller_name.get()
        return prompt.for_model(
            vocab_size=model.vocab_size,
            context_length=model.context_length,
            finds_stop_strings=bool(prompt.sampling.stop) and self._pool.finds_stop_strings,
            returns_routed_experts=prompt.routed_experts_start is not None and self._pool.returns_routed_experts,
            request_id=prompt.request_id or new_request_id(),
            owner=owner,
            cache_key=cache_key(prompt.cache_salt, owner="" if self._share_cache else owner),
            keep_key=prompt.request_id if keeps_response else "",
        )

    async def stream(
        self, prompt: Prompt, gate: Gate | None = None, reservation: Reservation | None = None
    ) -> AsyncGenerator[TokenChunk, None]:
        """
        Generate the response to a validated prompt, once `gate` is open. Closing the iterator aborts the request.

        After an abort the stream ends with FinishReason.ABORT.

        Args:
            prompt: The prompt, as `checked` returned it.
            gate: Flow control of the caller.
            reservation: Its place in the queue.

        Raises:
            InvalidRequestError: The request id is in use.
            NotFoundError: The requested policy version is not served.
            UnavailableError: No worker is available, too many were lost, or this gateway shuts down.
            RequestFailedError: The engine failed on this request, or two engines died of it.
        """
        if prompt.keep_key:
            # Routed experts and a prompt's logprobs would fill a worker's memory; a repeated call computes them anew.
            keeps = prompt.routed_experts_start is None and prompt.prompt_logprobs_start is None
            prompt = replace(prompt, keep_key=keep_key(prompt) if keeps else "")
        hold = self._admission.holds if self._admission.held else None
        transcript = Transcript(prompt)
        request = RunningRequest(transcript=transcript, gate=gate or Gate(), reservation=reservation, hold=hold)
        with self._recorded(request) as measured:
            try:
                if prompt.keep_key and (kept := await taken(prompt, self._pool.workers)):
                    yield measured.chunk(transcript.add(kept))
                    transcript.move(died=False)
                while transcript.finish_reason is None:
                    self._require_wanted(request)
                    async with self._attempt(request) as response, aclosing(response.chunks()) as chunks:
                        async for received in chunks:
                            chunk = request.received(received)
                            fresh = transcript.fresh(chunk)
                            yield measured.chunk(transcript.add(fresh))
                            if fresh is not chunk:
                                raise _stale(request)
                            if transcript.finish_reason is None:
                                self._require_wanted(request)
                if not transcript.closed:
                    yield measured.chunk(transcript.end(transcript.finish_reason))
                measured.finished()
            except AbortedError:
                measured.outcome = (request.ending or Ending.ABORTED).value
                if request.ending is Ending.DRAINED:
                    raise DrainingError("this gateway is shutting down and no longer waits for the response") from None
                yield transcript.end(FinishReason.ABORT)

    @contextmanager
    def _recorded(self, request: RunningRequest) -> Iterator[RequestMetrics]:
        """Register a request within the block, and record how it ended."""
        with self._requests.entered(request):
            measured = RequestMetrics(request.transcript.prompt)
            try:
                yield measured
            except (GeneratorExit, asyncio.CancelledError):
                if measured.outcome == "failed":
                    measured.outcome = "hung_up"
                raise
            finally:
                metrics.GATEWAY_REQUESTS.labels(outcome=measured.outcome).inc()
                self._over(request, measured, measured.outcome)

    @asynccontextmanager
    async def _attempt(self, request: RunningRequest) -> AsyncIterator[ResponseStream]:
        """Wait for a worker and run the request on it within the block, which ends early if another is to continue."""
        transcript = request.transcript
        async with self._admission.slot(transcript.rest(), gate=request.gate, first=request.waits_first) as worker:
            try:
                with self._running_on(worker, request) as response:
                    yield response
                if request.stage is RequestStage.MOVED:
                    self._handed_over(transcript, worker)
            except DrainingError:  # nothing was generated: queue the request again, ahead of others
                self._pool.refused(worker)
            except StaleVersionError:  # an update through another gateway that is not known here yet
                await self._pool.refresh(VERSION_S)
            except (UnavailableError, EngineError) as error:
                self._move(transcript, worker, error)

    @contextmanager
    def _running_on(self, worker: PooledWorker, request: RunningRequest) -> Iterator[ResponseStream]:
        """
        Record within the block that a request runs on a worker; return the rest of its response.

        Raises:
            AbortedError: The request ended before.
        """
        self._require_wanted(request)  # it may be aborted between assignment and start
        rest = request.transcript.rest()
        attempt = attempt_id(rest.request_id)
        response = worker.remote.generate(
            replace(
                rest,
                request_id=attempt,
                # Of a response that continues, this worker gets only the rest: it could not hand on the whole.
                keep_key="" if request.transcript.ended_attempts else rest.keep_key,
                policy_version=self._pool.version
                if rest.is_continued and rest.policy_version is not None
                else rest.policy_version,
            )
        )
        request.begin(worker, attempt, response, now_s=asyncio.get_running_loop().time())
        metrics.GATEWAY_RUNNING.inc()
        try:
            yield response
        finally:
            request.ended(now_s=asyncio.get_running_loop().time())
            self._requests.left()
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

    def _handed_over(self, transcript: Transcript, worker: PooledWorker) -> None:
        transcript.hand_over()
        log.info("request_handed_over", request_id=transcript.prompt.request_id, by=worker.name)

    def _require_wanted(self, request: RunningRequest) -> None:
        """
        Check that a request was not ended between queue and worker, and that it is not stale.

        Raises:
            AbortedError: The request was ended or is stale.
        """
        if request.ending is not None:
            raise AbortedError(f"request {request.transcript.prompt.request_id} was ended")
        if request.transcript.is_stale(self._pool.version):
            raise _stale(request)


def _stale(request: RunningRequest) -> AbortedError:
    request.ending = Ending.STALE
    return AbortedError(f"request {request.transcript.prompt.request_id} cannot continue under the served weights")


def cache_key(salt: str, *, owner: str) -> str:
    """
    Return the cache key of a prompt. Prompts with different keys share no cached prefixes.

    Args:
        salt: The caller's salt, scoped to the owner; empty without one.
        owner: Name of the caller's token; empty if all callers share.
    """
    if not (salt or owner):
        return ""
    return sha256(f"{len(owner)}:{owner}{salt}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
