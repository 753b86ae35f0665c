"""Compares an engine's captured hidden states to transformers', row by row."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from tlt_bench.engines.commands import CaptureCheck, CheckCapture
from tlt_common import codec
from tlt_common.domain.hidden import CapturePolicy, EncodedFrame
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_worker.engine.sglang import SglangEngine

FRAME_TOKENS = 64
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16}
"""By safetensors' names."""
IDLE_S = 1.0
"""Seconds without a frame after which all have come."""
TOLERANCE = 0.01
"""Largest difference of a row from the expected one, relative to its norm. Rows of other positions differ by 1."""


async def check(engine: SglangEngine, command: CheckCapture) -> CaptureCheck:
    """Generate responses with capture enabled, and compare every captured row. The engine computes in float32."""
    engine.set_capture(CapturePolicy(enabled=True, frame_tokens=FRAME_TOKENS))
    sampling = SamplingParams(max_new_tokens=command.max_new_tokens, ignore_eos=True)
    warm = Prompt(request_id=RequestId("warm"), token_ids=(1,), sampling=SamplingParams(max_new_tokens=2))
    await _text(engine, warm)  # the policy arrives with a round
    prompts = [
        Prompt(request_id=RequestId(f"captured-{place}"), token_ids=ids, sampling=sampling)
        for place, ids in enumerate(command.prompts)
    ]
    texts = await asyncio.gather(*(_text(engine, prompt) for prompt in prompts))
    by_request = dict(zip((prompt.request_id for prompt in prompts), texts, strict=True))
    frames = [frame async for frame in captured(engine) if frame.header.request_id in by_request]
    engine.set_capture(CapturePolicy(enabled=False))
    expected = await asyncio.to_thread(expected_states, engine.model, by_request)
    rows = sum(frame.header.token_count for frame in frames)
    names = [frame.header.request_id for frame in frames]
    right = sum(right_rows(frame, by_request[name], expected[name]) for name, frame in zip(names, frames, strict=True))
    # The last token of a response has no successor, so its state is not captured.
    return CaptureCheck(rows=rows, wrong=rows - right, missing=sum(len(text) - 1 for text in texts) - rows)


async def _text(engine: SglangEngine, prompt: Prompt) -> list[int]:
    """Return the tokens of prompt and response."""
    return [*prompt.token_ids, *[token async for chunk in engine.generate(prompt) for token in chunk.token_ids]]


async def captured(engine: SglangEngine) -> AsyncIterator[EncodedFrame]:
    """Yield captured frames until none has arrived for `IDLE_S`."""
    source = engine.frame_batches()
    while True:
        try:
            async with asyncio.timeout(IDLE_S):
                for frame in await anext(source):
                    yield frame
        except TimeoutError:
            return


@torch.no_grad()
def expected_states(model: Path, texts: Mapping[RequestId, list[int]]) -> dict[RequestId, Tensor]:
    """Return transformers' states of texts, in float32."""
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)  # in evaluation mode
    return {
        name: loaded(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0] for name, ids in texts.items()
    }


def right_rows(frame: EncodedFrame, text: Sequence[int], expected: Tensor, *, tolerance: float = TOLERANCE) -> int:
    """
    Return how many rows of a frame match the states of its tokens, given the expected states of the text.

    Args:
        frame: Frame in float32 or bfloat16.
        text: Tokens of prompt and response.
        expected: States of the text, by position, in float32.
        tolerance: Largest difference of a row, relative to its norm.
    """
    header, end = frame.header, frame.header.start + frame.header.token_count
    decoded = codec.decode(header, frame.blob)
    if list(decoded.token_ids) != list(text[header.start : end + 1]):
        return 0
    elements = torch.frombuffer(bytearray(decoded.hidden), dtype=DTYPES[header.dtype])
    states = elements.float().view(header.token_count, -1)
    wanted = expected[header.start : end]
    return int(((states - wanted).norm(dim=1) <= tolerance * wanted.norm(dim=1)).sum())
