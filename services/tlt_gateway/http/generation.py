"""Runs the prompts of one HTTP call and follows its connection."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import aclosing
from typing import TypeVar

from fastapi import Request

from tlt_common.domain.batch import Batch
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import AbortedError, TltError
from tlt_gateway.http.bodies.body import renamed
from tlt_gateway.requests.batch import Batches

T = TypeVar("T")


class HttpGeneration:
    """
    Args:
        batches: Runs prompts.
        names: Names of fields in the caller's protocol, by prefixes of ours.
    """

    def __init__(self, batches: Batches, names: Mapping[str, str]) -> None:
        self._batches = batches
        self._names = names

    def require_fit(self, prompts: int, samples: int) -> None:
        """
        Check the size of a call before anything is allocated per sample.

        Raises:
            InvalidRequestError: It has more samples than fit into the queue.
        """
        field = "prompt.token_ids" if samples <= 1 else "samples_per_prompt"
        try:
            self._batches.require_fit(prompts * max(1, samples), field=field)
        except TltError as error:
            raise renamed(error, self._names) from None

    async def whole(self, prompts: Sequence[Prompt], samples: int) -> list[TokenChunk]:
        """
        Return the complete responses, grouped by prompt.

        Raises:
            TltError: One failed; the others were aborted.
        """
        async with aclosing(self._samples(prompts, samples, stream_tokens=False)) as answers:
            found = {place: chunk async for place, chunk in answers}
        return [found[place] for place in sorted(found)]

    def chunks(self, prompts: Sequence[Prompt], samples: int) -> AsyncGenerator[tuple[int, TokenChunk], None]:
        """
        Yield the next tokens of a response, with its index, as they are generated.

        Raises:
            TltError: As for `whole`.
        """
        return self._samples(prompts, samples, stream_tokens=True)

    async def _samples(
        self, prompts: Sequence[Prompt], samples_each: int, *, stream_tokens: bool
    ) -> AsyncGenerator[tuple[int, TokenChunk], None]:
        batch = Batch(
            prompts=prompts,
            samples_per_prompt=samples_each,
            stream_tokens=stream_tokens,
            # A caller over HTTP cannot continue a response by itself, but may repeat the call under its own id.
            keeps_responses=True,
        )
        try:
            async with aclosing(self._batches.run(batch)) as samples:
                async for sample in samples:
                    yield sample.prompt_index * samples_each + sample.sample_index, sample.response
        except TltError as error:
            raise renamed(error, self._names, many=len(prompts) > 1) from None


async def unless_hung_up(request: Request, work: Awaitable[T]) -> T:
    """
    Return the result of `work`, or cancel it as soon as the client closes the connection.

    Raises:
        AbortedError: The client closed the connection.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise AbortedError("the client hung up")
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait({working, leaving})


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
