"""The lifecycle of a request: checked, run, streamed, and aborted when the caller disconnects."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import replace

from tlt_common.domain.ids import PolicyVersion, RequestId, WorkerId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.request_ids import is_named, request_of
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import DrainingError, InvalidRequestError, StaleVersionError, TltError
from tlt_common.telemetry import metrics
from tlt_worker.activity import Activity
from tlt_worker.engine.base import Engine, EngineInfo

ABORT_S = 5.0
"""Timeout of an abort in seconds; an engine that takes longer is about to be declared dead anyway."""


class Generation:
    """All requests of one engine. `make_way` is called when a request arrives, before it reaches the engine."""

    def __init__(
        self,
        engine: Engine,
        info: EngineInfo,
        activity: Activity,
        *,
        worker_id: WorkerId,
        policy_version: Callable[[], PolicyVersion],
        make_way: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._info = info
        self._activity = activity
        self._worker_id = worker_id
        self._policy_version = policy_version
        self._make_way = make_way
        self._running: dict[RequestId, str] = {}
        """The owner of each request."""
        self._produced_tokens = 0

    @property
    def produced_tokens(self) -> int:
        """Number of tokens produced since start."""
        return self._produced_tokens

    async def generate(self, submitted: Prompt) -> AsyncGenerator[TokenChunk, None]:
        """
        Respond to one prompt. Closing the iterator, or cancelling its reader, aborts the request.

        Raises:
            InvalidRequestError: The prompt does not fit the model, or its id is in use.
            StaleVersionError: The prompt requires a policy version that is not served.
            TltError: As for `Engine.generate`.
        """
        if self._activity.released:  # it came from a gateway that has not heard of that yet
            raise DrainingError("the RL trainer has this worker's devices")
        prompt = self._checked(submitted)
        self._running[prompt.request_id] = prompt.owner
        finished, outcome = False, "hung_up"
        try:
            self._make_way()
            with self._activity.request(), metrics.WORKER_RUNNING.track_inprogress():
                async for chunk in self._engine.generate(prompt):
                    if chunk.finish_reason is not None:
                        finished, outcome = True, chunk.finish_reason.value
                    yield self._counted(chunk)
        except TltError:
            outcome = "failed"
            raise
        finally:
            self._running.pop(prompt.request_id, None)
            metrics.WORKER_REQUESTS.labels(outcome=outcome).inc()
            if not finished:
                async with asyncio.timeout(ABORT_S):
                    await asyncio.shield(self._engine.abort(prompt.request_id))

    async def abort(self, request_ids: Iterable[RequestId], *, owner: str) -> set[RequestId]:
        """
        Abort an owner's requests with all their attempts, or single attempts of any owner by ids that only gateways
        know. Their streams end with FinishReason.ABORT.

        Returns:
            The ids of the requests that were running.
        """
        wanted = set(request_ids)
        known = [
            name
            for name, whose in self._running.items()
            if name in wanted or (whose == owner and is_named(request_of(name), wanted))
        ]
        return {request_of(name) for name in known if await self._engine.abort(name)}

    def _checked(self, submitted: Prompt) -> Prompt:
        # A gateway has checked the prompt against its fleet. The engine is protected here as well: on a GPU, a token id
        # outside the vocabulary would end it with all its requests.
        prompt = submitted.for_model(
            vocab_size=self._info.vocab_size,
            context_length=self._info.context_length,
            finds_stop_strings=self._info.finds_stop_strings,
            returns_routed_experts=self._info.returns_routed_experts,
        )
        if not prompt.request_id:
            prompt = replace(prompt, request_id=RequestId(uuid.uuid4().hex))
        if prompt.request_id in self._running:
            raise InvalidRequestError(
                f"prompt.request_id {prompt.request_id!r} is already in use; accepted: a unique id per request",
                field="prompt.request_id",
            )
        if prompt.policy_version not in {None, self._policy_version()}:
            raise StaleVersionError(
                f"prompt.policy_version is {prompt.policy_version}; served: {self._policy_version()}",
                field="prompt.policy_version",
            )
        return prompt

    def _counted(self, chunk: TokenChunk) -> TokenChunk:
        self._produced_tokens += len(chunk.token_ids)
        metrics.WORKER_PRODUCED_TOKENS.inc(len(chunk.token_ids))
        return chunk if chunk.stats is None else replace(chunk, stats=replace(chunk.stats, worker_id=self._worker_id))
