"""Batches whose reader is slow."""

import asyncio
from array import array
from collections.abc import AsyncGenerator
from typing import cast

import pytest

from tlt_common.domain.batch import Batch
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import FinishReason, PromptLogprobs, TokenChunk
from tlt_gateway.queue.admission import Admission
from tlt_gateway.queue.gate import Gate
from tlt_gateway.queue.queue_capacity import QueueLimits, Reservation
from tlt_gateway.requests import outbox
from tlt_gateway.requests.batch import Batches
from tlt_gateway.requests.dispatch import Dispatch
from tlt_gateway.requests.outbox import Outbox
from tlt_gateway.workers.pooled_worker import PooledWorker

pytestmark = pytest.mark.looptime

SAMPLES = 100
TOKENS = 10
AT_ONCE = 4


class Workers:
    """Answers `AT_ONCE` requests at a time with `TOKENS` tokens each."""

    def __init__(self) -> None:
        self.started = 0
        self.free = AT_ONCE
        self.absent_since_s: float | None = None
        limits = QueueLimits(requests=SAMPLES, tokens=SAMPLES)
        self.admission = Admission[str](self, limits=limits, worker_wait_s=60.0, retry_after_s=1.0)

    @property
    def offer(self) -> None:
        return None

    def may_ever_run(self, _prompt: Prompt) -> bool:
        return True

    def acquire(self, _prompt: Prompt) -> str | None:
        if not self.free:
            return None
        self.free -= 1
        return "slot"

    def release(self, _slot: str) -> None:
        self.free += 1

    async def checked(self, prompt: Prompt, *, keeps_response: bool) -> Prompt:
        assert not keeps_response
        return prompt

    async def stream(self, prompt: Prompt, gate: Gate, reservation: Reservation) -> AsyncGenerator[TokenChunk, None]:
        async with self.admission.slot(prompt, gate=gate):
            reservation.use()
            self.started += 1
            await asyncio.sleep(0.1)
            yield TokenChunk(
                request_id=prompt.request_id,
                token_ids=tuple(range(TOKENS)),
                logprobs=(0.0,) * TOKENS,
                policy_versions=(),
                finish_reason=FinishReason.LENGTH,
            )


@pytest.mark.parametrize("stream_tokens", [False, True])
async def test_a_slow_reader_costs_bounded_memory_and_no_slots(
    monkeypatch: pytest.MonkeyPatch, *, stream_tokens: bool
) -> None:
    monkeypatch.setattr(outbox, "MAX_HELD_TOKENS", 5 * TOKENS)
    workers = Workers()
    batches = Batches(cast("Dispatch", workers), cast("Admission[PooledWorker]", workers.admission))
    prompt = Prompt(request_id=RequestId("r"), token_ids=(1,))
    batch = Batch(prompts=(prompt,), samples_per_prompt=SAMPLES, stream_tokens=stream_tokens)
    samples = batches.run(batch)
    read = [await anext(samples)]
    await asyncio.sleep(60)
    assert workers.started <= 6 + 2 * AT_ONCE
    assert (workers.free, workers.admission.queued) == (AT_ONCE, 0)
    read += [sample async for sample in samples]
    assert {sample.sample_index for sample in read} == set(range(SAMPLES))
    assert sum(len(sample.response.token_ids) for sample in read) == SAMPLES * TOKENS


async def test_scored_prompts_count_as_memory_until_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MAX_HELD_TOKENS", 10)
    held = Outbox(stream_tokens=False)
    scored = PromptLogprobs(first=1, logprobs=array("f", range(50)))
    chunk = TokenChunk(
        request_id=RequestId("r"), token_ids=(1,), logprobs=(0.0,), policy_versions=(), prompt_logprobs=scored
    )
    held.put((0, 0), chunk)
    assert not held.gate.is_open
    held.put(
        (0, 0),
        TokenChunk(
            request_id=RequestId("r"), token_ids=(), logprobs=(), policy_versions=(), finish_reason=FinishReason.STOP
        ),
    )
    [(_, read)] = [found async for found in held.chunks(1)]
    assert read.prompt_logprobs == scored
    assert held.gate.is_open
