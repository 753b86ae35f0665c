"""Batches: n samples of each of many prompts, streamed per sample or per token."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import product

from tlt_common.aio import Start, tasks_of_block
from tlt_common.domain.batch import Batch, Sample, SampleStart, at_index, require_samples, sample_of
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import InvalidRequestError, TltError
from tlt_common.rpc.security.access import caller_name
from tlt_gateway.queue.admission import Admission
from tlt_gateway.queue.queue_capacity import Reservation
from tlt_gateway.requests.dispatch import Dispatch
from tlt_gateway.requests.outbox import Outbox, Place
from tlt_gateway.workers.pooled_worker import PooledWorker

AT_ONCE = 32
"""Samples that are checked or started at once."""


class Batches:
    """Runs batches. Either all samples of a batch succeed, or the batch fails with its first error."""

    def __init__(self, dispatch: Dispatch, admission: Admission[PooledWorker]) -> None:
        self._dispatch = dispatch
        self._admission = admission

    def require_fit(self, count: int, *, tokens: int = 0, field: str) -> None:
        """
        Check that `count` samples with this many prompt tokens fit into an empty queue. Call it before allocating
        anything per sample: a small message may request many.

        Raises:
            InvalidRequestError: They do not fit; the error names `field`.
        """
        self._admission.capacity.require_fit(caller_name.get(), requests=count, tokens=tokens, field=field)

    async def run(self, batch: Batch) -> AsyncGenerator[Sample, None]:
        """
        Generate the samples of a batch. Closing the iterator aborts the unfinished ones.

        Raises:
            InvalidRequestError: The batch is empty or larger than the queue, or a prompt is invalid; `field` names it.
            OverloadedError: The queue has no room for all samples.
            TltError: A sample failed; the others were aborted.
        """
        require_samples(batch.prompts, batch.samples_per_prompt)
        with self._admission.capacity.reserved(
            caller_name.get(),
            requests=len(batch.starts) or len(batch.prompts) * batch.samples_per_prompt,
            tokens=tokens_of(batch),
            field="prompts" if batch.samples_per_prompt == 1 else "samples_per_prompt",
        ) as reservation:
            samples = await self._checked_samples(batch)
            started_s = asyncio.get_running_loop().time()
            count, outbox = 0, Outbox(stream_tokens=batch.stream_tokens)
            async with tasks_of_block() as start, aclosing(outbox.chunks(len(samples))) as chunks:
                start(self._start(start, samples, outbox, reservation))
                async for (prompt_index, sample_index), chunk in chunks:
                    count += chunk.finish_reason is not None
                    yield Sample(
                        prompt_index=prompt_index,
                        sample_index=sample_index,
                        response=chunk,
                        finished_count=count,
                        total_count=len(samples),
                        elapsed_s=asyncio.get_running_loop().time() - started_s,
                    )

    async def _checked_samples(self, batch: Batch) -> dict[Place, Prompt]:
        """Return the prompt of each sample."""
        checked = list[Prompt]()
        for index, prompt in enumerate(batch.prompts):
            try:
                checked.append(await self._dispatch.checked(prompt, keeps_response=batch.keeps_responses))
            except InvalidRequestError as error:
                raise at_index(error, index) from None
            await let_others_run(index)
        _require_distinct(checked)
        samples: dict[Place, Prompt] = {}
        if not batch.starts:
            for at in product(range(len(checked)), range(batch.samples_per_prompt)):
                samples[at] = sample_of(checked[at[0]], at[1])
                await let_others_run(len(samples))
            return samples
        vocab_size = await self._dispatch.vocab_size()
        for place, start in enumerate(batch.starts):
            at = _place(place, start, batch)
            if at in samples:
                raise InvalidRequestError(
                    f"samples[{place}] repeats sample {at[1]} of prompt {at[0]}; list each sample once",
                    field=f"samples[{place}]",
                )
            prompt = checked[at[0]]
            if start.prefix_token_ids:
                prompt = _begun(at[0], prompt, start, vocab_size)
            samples[at] = sample_of(prompt, at[1])
            await let_others_run(place)
        return samples

    async def _start(
        self, start: Start, samples: dict[Place, Prompt], outbox: Outbox, reservation: Reservation
    ) -> None:
        for count, (place, prompt) in enumerate(samples.items(), 1):
            start(self._sample(place, prompt, outbox, reservation))
            await let_others_run(count)

    async def _sample(self, place: Place, prompt: Prompt, outbox: Outbox, reservation: Reservation) -> None:
        try:
            async with aclosing(self._dispatch.stream(prompt, outbox.gate, reservation)) as chunks:
                async for chunk in chunks:
                    outbox.put(place, chunk)
        except TltError as error:
            outbox.fail(error)


async def let_others_run(count: int) -> None:
    """Let the event loop run between parts of a batch, which may have thousands of samples."""
    if count % AT_ONCE == AT_ONCE - 1:
        await asyncio.sleep(0)


def _place(index: int, start: SampleStart, batch: Batch) -> Place:
    for field, value, limit in (
        ("prompt_index", start.prompt_index, len(batch.prompts)),
        ("sample_index", start.sample_index, batch.samples_per_prompt),
    ):
        if not 0 <= value < limit:
            name = f"samples[{index}].{field}"
            raise InvalidRequestError(f"{name} is {value}; accepted: 0 to {limit - 1}", field=name)
    return start.prompt_index, start.sample_index


def _begun(index: int, prompt: Prompt, start: SampleStart, vocab_size: int) -> Prompt:
    """
    Return a checked prompt that continues from a sample's prefix. It is not checked again: a prompt may have many
    samples.
    """
    begun = replace(
        prompt,
        prefix_token_ids=start.prefix_token_ids,
        begun_version=start.begun_version,
        prompt_logprobs_start=None,  # they came with the sample's first token
    )
    try:
        begun.require_prefix(vocab_size=vocab_size)
    except InvalidRequestError as error:
        raise at_index(error, index) from None
    return begun


def tokens_of(batch: Batch) -> int:
    """Return the number of tokens that a batch holds. Samples of a prompt share its tokens."""
    prompts = sum(len(prompt.token_ids) + len(prompt.prefix_token_ids) for prompt in batch.prompts)
    return prompts + sum(len(start.prefix_token_ids) for start in batch.starts)


def _require_distinct(prompts: Sequence[Prompt]) -> None:
    seen: dict[RequestId, int] = {}
    for index, prompt in enumerate(prompts):
        if (first := seen.setdefault(prompt.request_id, index)) != index:
            raise InvalidRequestError(
                f"prompts[{index}].request_id is {prompt.request_id!r}, the same as prompts[{first}]; "
                "request ids must be unique; leave them empty to have them generated",
                field=f"prompts[{index}].request_id",
            )
