"""Batches of responses, continued after interruptions."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from tlt_common.aio import Start, tasks_of_block
from tlt_common.client.gateways import Gateways
from tlt_common.client.patience import Patience
from tlt_common.domain.batch import Batch, Sample, SampleStart, require_samples, sample_of
from tlt_common.domain.merged_chunk import MergedChunk
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.transcript import Transcript
from tlt_common.errors import InvalidRequestError, TltError, UnavailableError
from tlt_common.rpc.streams import received
from tlt_common.wire import rollout as wire

CALL_BYTES = 8 * 2**20
"""Size, in bytes, up to which samples go into one call; gateways accept twice as much."""
TOKEN_BYTES = 5
"""Upper limit of the size of a token id in a message."""
SAMPLE_BYTES = 32
"""Upper limit of the size of the rest of a sample or prompt."""
MAX_UNREAD = 64
"""Finished samples held for a caller that reads slowly."""

Place: TypeAlias = tuple[int, int]
"""Prompt index, sample index."""


class _Sample:
    """Tokens received of a sample."""

    def __init__(self, prompt: Prompt) -> None:
        self.transcript = Transcript(prompt)
        self.merged = MergedChunk()

    def add(self, chunk: TokenChunk) -> None:
        self.merged.add(self.transcript.add(chunk))

    def move(self) -> None:
        self.transcript.move(died=False)
        if self.transcript.finish_reason is not None and not self.transcript.closed:
            self.merged.add(self.transcript.end(self.transcript.finish_reason))


_Samples: TypeAlias = dict[Place, _Sample]


class ResumedBatch:
    """
    A batch that survives interruptions. Large batches are split into several calls; if a call breaks, its unfinished
    samples go into new calls.
    """

    def __init__(self, gateways: Gateways, prompts: Sequence[Prompt], samples: int, patience: Patience) -> None:
        self._gateways = gateways
        self._prompts = prompts
        self._samples = samples
        self._patience = patience
        self._attempt = 0
        self._outcomes: asyncio.Queue[tuple[Place, TokenChunk] | TltError] = asyncio.Queue(MAX_UNREAD)

    async def run(self) -> AsyncGenerator[Sample, None]:
        """
        Yield each sample when it finishes. Closing the iterator aborts the others.

        Raises:
            TltError: The batch was refused, a sample failed, or the batch could not be continued in time.
        """
        require_samples(self._prompts, self._samples)
        total = len(self._prompts) * self._samples
        started_s = asyncio.get_running_loop().time()
        async with tasks_of_block() as start:
            self._start(start, self._all())
            for count in range(1, total + 1):
                outcome = await self._outcomes.get()
                if isinstance(outcome, TltError):
                    raise outcome
                (prompt_index, sample_index), chunk = outcome
                yield Sample(
                    prompt_index=prompt_index,
                    sample_index=sample_index,
                    response=chunk,
                    finished_count=count,
                    total_count=total,
                    elapsed_s=asyncio.get_running_loop().time() - started_s,
                )

    def _all(self) -> _Samples:
        return {
            (index, sample): _Sample(sample_of(prompt, sample))
            for index, prompt in enumerate(self._prompts)
            for sample in range(self._samples)
        }

    def _start(self, start: Start, samples: _Samples) -> None:
        for part in _parts(samples):
            start(self._call(start, part))

    async def _call(self, start: Start, samples: _Samples) -> None:
        """Complete samples with one call; if it breaks, start new ones."""
        stub = self._gateways.stub
        try:
            try:
                await self._receive(stub, samples)
            except TltError as error:
                self._gateways.failed(stub, error)
                await self._patience.after(error, self._prompts[0].request_id)
            else:
                return
        except TltError as error:
            await self._outcomes.put(error)
            return
        self._attempt += 1
        for place, sample in list(samples.items()):
            sample.move()
            await self._take(samples, place)
        self._start(start, samples)

    async def _receive(self, stub: wire.AsyncStub, samples: _Samples) -> None:
        """Receive tokens of samples and remove finished samples."""
        prompt_indices = sorted({place[0] for place in samples})
        call = stub.GenerateBatch(wire.batch_to_pb(self._batch(samples, prompt_indices)), timeout=self._patience.left_s)
        try:
            async with received(call) as messages:
                async for message in messages:
                    self._patience.progressed()
                    place = (prompt_indices[message.prompt_index], message.sample_index)
                    samples[place].add(wire.chunk_from_pb(message.response))
                    await self._take(samples, place)
        except InvalidRequestError as error:
            raise _renumbered(error, prompt_indices) from error.__cause__
        if samples:
            raise UnavailableError("the gateway ended the stream before the batch was complete")

    async def _take(self, samples: _Samples, place: Place) -> None:
        if samples[place].transcript.closed:
            await self._outcomes.put((place, samples.pop(place).merged.whole()))

    def _batch(self, samples: _Samples, prompt_indices: Sequence[int]) -> Batch:
        positions = {index: position for position, index in enumerate(prompt_indices)}
        return Batch(
            prompts=[replace(self._prompts[index], attempt=self._attempt) for index in prompt_indices],
            samples_per_prompt=self._samples,
            stream_tokens=True,
            starts=[
                SampleStart(
                    prompt_index=positions[prompt_index],
                    sample_index=sample_index,
                    prefix_token_ids=(rest := sample.transcript.rest()).prefix_token_ids,
                    begun_version=rest.begun_version,
                )
                for (prompt_index, sample_index), sample in samples.items()
            ],
        )


def _parts(samples: _Samples) -> Iterator[_Samples]:
    """Split samples into calls of at most `CALL_BYTES`, or of one sample if it is larger."""
    part: _Samples = {}
    prompt_index, size_bytes = -1, 0
    for place, sample in samples.items():
        prompt_bytes = SAMPLE_BYTES + TOKEN_BYTES * len(sample.transcript.prompt.token_ids)
        sample_bytes = SAMPLE_BYTES + TOKEN_BYTES * sample.transcript.count
        needed_bytes = sample_bytes + (0 if place[0] == prompt_index else prompt_bytes)
        if part and size_bytes + needed_bytes > CALL_BYTES:
            yield part
            part, size_bytes, needed_bytes = {}, 0, sample_bytes + prompt_bytes
        part[place] = sample
        prompt_index, size_bytes = place[0], size_bytes + needed_bytes
    if part:
        yield part


def _renumbered(error: InvalidRequestError, prompt_indices: Sequence[int]) -> InvalidRequestError:
    """Return the error with the prompt's index in the whole batch instead of in the call."""
    head, bracket, rest = error.field.partition("]")
    if not bracket or not head.startswith("prompts["):
        return error
    field = f"prompts[{prompt_indices[int(head.removeprefix('prompts['))]}]{rest}"
    return InvalidRequestError(error.message.replace(error.field, field, 1), field=field)


def arranged(responses: Mapping[tuple[int, int], TokenChunk], prompts: int, samples: int) -> list[list[TokenChunk]]:
    """Return the responses by prompt and sample."""
    return [[responses[prompt, sample] for sample in range(samples)] for prompt in range(prompts)]
