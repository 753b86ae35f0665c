"""The life of one request: checked, run, streamed; aborted when the caller leaves."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import replace

from tlt_common.domain.ids import PolicyVersion, RequestId, WorkerId
from tlt_common.domain.rollout import FinishReason, Prompt, TokenChunk
from tlt_common.errors import InvalidRequestError, StaleVersionError
from tlt_common.telemetry import metrics
from tlt_worker.activity import Activity
from tlt_worker.engine.base import Engine, EngineInfo

ABORT_S = 5.0
"""An engine that does not take an abort for so long is about to be declared dead anyway."""


class Generation:
    """All requests of one engine. `make_way` is called when a request arrives, before the engine sees it."""

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
        self._running: set[RequestId] = set()
        self._produced_tokens = 0

    @property
    def produced_tokens(self) -> int:
        """Since start."""
        return self._produced_tokens

    async def generate(self, asked: Prompt) -> AsyncGenerator[TokenChunk, None]:
        """
        Answer one prompt. Closing the iterator, or cancelling whoever reads it, aborts the request.

        Raises:
            InvalidRequestError: The prompt does not fit the model, or its id is in use.
            StaleVersionError: It asks for a policy version that is not served.
        """
        prompt = self._checked(asked)
        self._running.add(prompt.request_id)
        finished: FinishReason | None = None
        try:
            self._make_way()
            with self._activity.request(), metrics.WORKER_RUNNING.track_inprogress():
                async for chunk in self._engine.generate(prompt):
                    finished = chunk.finish_reason
                    yield self._counted(chunk)
        finally:
            self._running.discard(prompt.request_id)
            metrics.WORKER_REQUESTS.labels(outcome=finished.value if finished else "hung_up").inc()
            if finished is None:
                async with asyncio.timeout(ABORT_S):
                    await asyncio.shield(self._engine.abort(prompt.request_id))

    async def abort(self, request_ids: Iterable[RequestId]) -> int:
        """End requests; return how many of them ran. Their streams end with FinishReason.ABORT."""
        known = [request_id for request_id in request_ids if request_id in self._running]
        return sum([await self._engine.abort(request_id) for request_id in known])

    def _checked(self, asked: Prompt) -> Prompt:
        prompt = asked.for_model(vocab_size=self._info.vocab_size, context_length=self._info.context_length)
        if not prompt.request_id:
            prompt = replace(prompt, request_id=RequestId(uuid.uuid4().hex))
        if prompt.request_id in self._running:
            raise InvalidRequestError(
                f"prompt.request_id {prompt.request_id!r} runs already; accepted: one of its own per request",
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
