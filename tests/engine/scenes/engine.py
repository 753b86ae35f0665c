"""A running engine, and requests to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tlt_common.domain.hidden import EncodedFrame
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import NONE, Experiment

PROMPT = (3, 7, 5, 9, 4, 12, 8)
CHAINS = ("off", "chain-3", "chain-7")


@asynccontextmanager
async def running(model: Path, config: EngineConfig, experiment: Experiment = NONE) -> AsyncIterator[SglangEngine]:
    """Start an engine and close it at the end."""
    engine = SglangEngine(model, config, experiment)
    try:
        await engine.start()
        yield engine
    finally:
        await engine.aclose()


def prompt(name: str, ids: tuple[int, ...] = PROMPT, **sampling: Any) -> Prompt:
    """Return a request that ignores the end-of-sequence token."""
    return Prompt(request_id=RequestId(name), token_ids=ids, sampling=SamplingParams(ignore_eos=True, **sampling))


async def answer(engine: SglangEngine, prompt: Prompt) -> TokenChunk:
    """Return the complete answer to a request."""
    whole: TokenChunk | None = None
    async for chunk in engine.generate(prompt):
        whole = chunk if whole is None else whole.followed_by(chunk)
    assert whole is not None
    return whole


async def frames(engine: SglangEngine) -> list[EncodedFrame]:
    """Collect captured frames until none arrives for half a second."""
    found, source = list[EncodedFrame](), engine.frame_batches()
    while True:
        try:
            async with asyncio.timeout(0.5):
                found += await anext(source)
        except TimeoutError:
            return found
