"""Many prompts, n samples each, handed out as they finish."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeAlias

from tlt_common.domain.ids import RequestId
from tlt_common.domain.rollout import Prompt, Sample, TokenChunk
from tlt_common.errors import InvalidRequestError, TltError
from tlt_gateway.admission import Admission
from tlt_gateway.dispatch import Dispatch
from tlt_gateway.link import Link

Finished: TypeAlias = tuple[int, int, TokenChunk]
"""Index of the prompt, index of the sample, response."""


class Batches:
    """Runs batches: all samples of one succeed, or the batch fails with the error of the first that did not."""

    def __init__(self, dispatch: Dispatch, admission: Admission[Link]) -> None:
        self._dispatch = dispatch
        self._admission = admission

    async def run(self, prompts: Sequence[Prompt], samples_per_prompt: int) -> AsyncGenerator[Sample, None]:
        """
        Answer each prompt so many times. Closing the iterator aborts what still runs.

        Raises:
            InvalidRequestError: Nothing was asked, or a prompt does not fit; the field says which.
            OverloadedError: The queue does not hold so many.
            TltError: A sample failed; the others were aborted.
        """
        checked = await self._admitted(prompts, samples_per_prompt)
        started_s = asyncio.get_running_loop().time()
        count = 0
        async with aclosing(self._finished(checked, samples_per_prompt)) as finished:
            async for prompt_index, sample_index, response in finished:
                count += 1
                yield Sample(
                    prompt_index=prompt_index,
                    sample_index=sample_index,
                    response=response,
                    finished_count=count,
                    total_count=len(checked) * samples_per_prompt,
                    elapsed_s=asyncio.get_running_loop().time() - started_s,
                )

    async def _admitted(self, prompts: Sequence[Prompt], samples_per_prompt: int) -> list[Prompt]:
        if not prompts:
            raise InvalidRequestError("prompts is empty; accepted: at least one", field="prompts")
        if samples_per_prompt < 1:
            raise InvalidRequestError(
                f"samples_per_prompt is {samples_per_prompt}; accepted: at least 1", field="samples_per_prompt"
            )
        self._admission.require_room(len(prompts) * samples_per_prompt)
        checked = [await self._checked(index, prompt) for index, prompt in enumerate(prompts)]
        _require_distinct(checked)
        return checked

    async def _finished(self, prompts: Sequence[Prompt], samples_per_prompt: int) -> AsyncGenerator[Finished, None]:
        """Run all samples; those that finish first come first."""
        outcomes: asyncio.Queue[Finished | TltError] = asyncio.Queue()
        failure: TltError | None = None
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._sample(prompt, prompt_index, sample_index, outcomes))
                for prompt_index, prompt in enumerate(prompts)
                for sample_index in range(samples_per_prompt)
            ]
            try:
                for _ in tasks:
                    outcome = await outcomes.get()
                    if isinstance(outcome, TltError):
                        failure = outcome
                        break
                    yield outcome
            except GeneratorExit:
                return  # a task group would wrap it, which nobody who closes a generator expects
            finally:
                for task in tasks:
                    task.cancel()
        if failure:
            raise failure

    async def _sample(
        self, prompt: Prompt, prompt_index: int, sample_index: int, outcomes: asyncio.Queue[Finished | TltError]
    ) -> None:
        try:
            response = await self._dispatch.complete(_sample_of(prompt, sample_index))
        except TltError as error:
            outcomes.put_nowait(error)
        else:
            outcomes.put_nowait((prompt_index, sample_index, response))

    async def _checked(self, index: int, prompt: Prompt) -> Prompt:
        try:
            return await self._dispatch.checked(prompt)
        except InvalidRequestError as error:
            raise at_index(error, index) from None


def at_index(error: InvalidRequestError, index: int) -> InvalidRequestError:
    """Say of which prompt of a batch an error speaks: `prompt.token_ids` becomes `prompts[3].token_ids`."""
    field = error.field.removeprefix("prompt.")
    field_in_batch = f"prompts[{index}].{field}"
    return InvalidRequestError(error.message.replace(error.field, field_in_batch, 1), field=field_in_batch)


def _sample_of(prompt: Prompt, index: int) -> Prompt:
    """Sample `index` of a prompt. A seed makes a batch repeatable, not its samples equal."""
    seed = prompt.sampling.seed
    return replace(
        prompt,
        request_id=RequestId(f"{prompt.request_id}/{index}"),
        sampling=prompt.sampling if seed is None else replace(prompt.sampling, seed=(seed + index) % 2**63),
    )


def _require_distinct(prompts: Sequence[Prompt]) -> None:
    seen: dict[RequestId, int] = {}
    for index, prompt in enumerate(prompts):
        if (first := seen.setdefault(prompt.request_id, index)) != index:
            raise InvalidRequestError(
                f"prompts[{index}].request_id is {prompt.request_id!r}, as is that of prompts[{first}]; "
                "accepted: empty or unique",
                field=f"prompts[{index}].request_id",
            )
