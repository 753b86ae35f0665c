"""Runs the warm-up requests on a started engine."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import aclosing

from tlt_common.domain.arm import Arm
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import EngineError
from tlt_common.telemetry.log import get_logger
from tlt_worker.engine.base import Engine, EngineInfo
from tlt_worker.engine.warming.requests import warm_up_requests
from tlt_worker.link.messages import Warming
from tlt_worker.link.worker_end import WorkerEnd

log = get_logger(__name__)

WARM_UP_S = 900.0
"""Longest warm-up. Compiling takes tens of seconds per function at most, and is kept for later starts."""


async def warm_up(engine: Engine, link: WorkerEnd, info: EngineInfo, largest: Mapping[Arm, int]) -> None:
    """
    Send requests that use everything that is compiled on first use. They are not rewarded, captured or indexed.

    `largest` maps arms to the largest number of requests at which each runs.

    Raises:
        EngineError: A request failed, or the warm-up timed out.
    """
    began_s, before = time.perf_counter(), link.pulse.compiled
    link.send(Warming(on=True))
    try:
        async with asyncio.timeout(WARM_UP_S):
            for together in warm_up_requests(largest, vocabulary=info.vocab_size, context=info.context_length):
                engine.force_arms(together.arm.name)
                async with asyncio.TaskGroup() as running:
                    for prompt in together.prompts:
                        running.create_task(_answered(engine, prompt), name=prompt.request_id)
    except TimeoutError as error:
        raise EngineError(f"the engine's warm-up took longer than {WARM_UP_S:g} s") from error
    except BaseExceptionGroup as failed:
        raise EngineError(f"the engine failed in its warm-up: {failed.exceptions[0]}") from failed
    finally:
        engine.force_arms()
        link.send(Warming(on=False))
    log.info("engine_warm", seconds=round(time.perf_counter() - began_s, 1), compiled=link.pulse.compiled - before)


async def _answered(engine: Engine, prompt: Prompt) -> None:
    async with aclosing(engine.generate(prompt)) as chunks:  # type: ignore[type-var] # an asynchronous generator
        async for _ in chunks:
            pass
