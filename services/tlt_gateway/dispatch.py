"""The life of one request: checked, seated, streamed, moved when its worker is lost, aborted."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace

from tlt_common.domain.ids import RequestId
from tlt_common.domain.rollout import FinishReason, Prompt, TokenChunk
from tlt_common.errors import AbortedError, DrainingError, EngineError, InvalidRequestError, UnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_gateway.admission import Admission
from tlt_gateway.fleet import Fleet
from tlt_gateway.link import Link
from tlt_gateway.measured import Measured
from tlt_gateway.remote import Answer
from tlt_gateway.transcript import Transcript

log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _Request:
    """A request that waits or runs."""

    transcript: Transcript
    answer: Answer | None = None
    """While a worker streams it."""
    aborted: bool = False


class Dispatch:
    """All requests of a gateway."""

    def __init__(self, fleet: Fleet, admission: Admission[Link], *, worker_wait_s: float, max_moves: int) -> None:
        self._fleet = fleet
        self._admission = admission
        self._worker_wait_s = worker_wait_s
        self._max_moves = max_moves
        self._requests: dict[RequestId, _Request] = {}

    @property
    def running(self) -> int:
        """Requests that a worker has."""
        return sum(request.answer is not None for request in self._requests.values())

    async def checked(self, prompt: Prompt) -> Prompt:
        """
        Check a prompt against the model, and give it an id if it has none.

        Raises:
            InvalidRequestError: It does not fit the model.
            UnavailableError: No worker came that could say what the model is.
        """
        model = await self._fleet.model(self._worker_wait_s)
        prompt = prompt.for_model(vocab_size=model.vocab_size, context_length=model.context_length)
        return prompt if prompt.request_id else replace(prompt, request_id=RequestId(uuid.uuid4().hex))

    async def stream(self, prompt: Prompt) -> AsyncGenerator[TokenChunk, None]:
        """
        Answer a checked prompt. Closing the iterator aborts it; after `abort` it ends with FinishReason.ABORT.

        Raises:
            InvalidRequestError: Its id is in use.
            NotFoundError: It asks for a policy version that is not served.
            UnavailableError: No worker is there, or too many were lost.
        """
        async with aclosing(self._counted(self._enter(prompt))) as chunks:
            async for chunk in chunks:
                yield chunk

    async def complete(self, prompt: Prompt) -> TokenChunk:
        """Answer a checked prompt in one piece; otherwise as `stream`."""
        request = self._enter(prompt)
        async with aclosing(self._counted(request)) as chunks:
            async for _ in chunks:
                pass
        return request.transcript.whole()

    def abort(self, request_ids: Iterable[RequestId]) -> int:
        """End requests, given by their own id or that of their batch prompt; return how many were ended."""
        wanted = set(request_ids) - {""}  # the empty id would be the parent of all that have none
        return sum(
            self._abort(request)
            for request_id, request in list(self._requests.items())
            if request_id in wanted or request_id.rpartition("/")[0] in wanted
        )

    def abort_all(self) -> int:
        """End everything that waits or runs; return how many requests that was."""
        return sum(self._abort(request) for request in list(self._requests.values()))

    def _enter(self, prompt: Prompt) -> _Request:
        if prompt.request_id in self._requests:
            raise InvalidRequestError(
                f"prompt.request_id {prompt.request_id!r} is in use; accepted: one of its own per running request",
                field="prompt.request_id",
            )
        request = self._requests[prompt.request_id] = _Request(transcript=Transcript(prompt))
        return request

    async def _counted(self, request: _Request) -> AsyncGenerator[TokenChunk, None]:
        """Stream to whatever end it has, and forget the request."""
        outcome, measured = "failed", Measured(request.transcript.prompt)
        try:
            async with aclosing(self._moving(request)) as chunks:
                async for chunk in chunks:
                    measured.chunk(chunk)
                    yield chunk
            outcome = "finished"
            measured.finished()
        except AbortedError:
            outcome = "aborted"
            yield request.transcript.end(FinishReason.ABORT)
        except (GeneratorExit, asyncio.CancelledError):
            outcome = "hung_up"
            raise
        finally:
            del self._requests[request.transcript.prompt.request_id]
            metrics.GATEWAY_REQUESTS.labels(outcome=outcome).inc()

    async def _moving(self, request: _Request) -> AsyncGenerator[TokenChunk, None]:
        """Stream from one worker after the other until the response is complete."""
        transcript, refused = request.transcript, False
        while transcript.finish_reason is None:
            async with self._admission.seat(transcript.rest(), first=refused or transcript.moves > 0) as link:
                try:
                    async with aclosing(self._seated(request, link)) as chunks:
                        async for chunk in chunks:
                            yield transcript.add(chunk)
                except DrainingError:  # it began nothing: the request is as it was, and first in the queue
                    self._fleet.refused(link)
                    refused = True
                except (UnavailableError, EngineError) as error:
                    self._move(transcript, link, error)
        if not transcript.closed:
            yield transcript.end(transcript.finish_reason)

    async def _seated(self, request: _Request, link: Link) -> AsyncGenerator[TokenChunk, None]:
        """
        Stream from one worker.

        Raises:
            AbortedError: It was aborted before or meanwhile.
            UnavailableError: The worker is lost, or ended the stream before the response was complete.
        """
        if request.aborted:  # between being given the seat and taking it
            raise AbortedError(f"request {request.transcript.prompt.request_id} was aborted")
        request.answer = link.remote.generate(request.transcript.rest())
        metrics.GATEWAY_RUNNING.inc()
        try:
            async with aclosing(request.answer.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            request.answer = None
            metrics.GATEWAY_RUNNING.dec()
        if request.transcript.finish_reason is None:
            raise UnavailableError("the worker ended the stream before the response was complete")

    def _move(self, transcript: Transcript, link: Link, error: UnavailableError | EngineError) -> None:
        """
        Leave a lost worker behind, so that the request goes on elsewhere.

        Raises:
            UnavailableError: Not again.
        """
        self._fleet.lose(link, error.message)
        if transcript.moves == self._max_moves:
            raise UnavailableError(
                f"worker {link.name} was lost ({error.message}) after the request had moved {transcript.moves} times"
            ) from error
        transcript.move()
        metrics.GATEWAY_MOVED_REQUESTS.inc()
        log.info("request_moved", request_id=transcript.prompt.request_id, lost=link.name, moves=transcript.moves)

    def _abort(self, request: _Request) -> bool:
        if request.aborted:
            return False
        request.aborted = True
        if request.answer is not None:
            request.answer.hang_up()
        else:
            self._admission.withdraw(request.transcript.rest().request_id)
        return True
