"""A small trainer's load: steps of responses with a long tail, single responses of a session, weight updates."""

import asyncio
import random
from pathlib import Path
from typing import Any, Never

from tlt_common.client import Client, SamplingParams

RESPONSES = 24
BUBBLE_S = 5.0
"""Seconds between two steps, when an RL trainer would run its own training."""
STEPS_PER_UPDATE = 2


async def train(endpoint: str, model: Path, *, seed: int = 0, **access: Any) -> Never:
    """Send requests until cancelled. Workers load weights from `model`; `access` holds the client's credentials."""
    lengths = random.Random(seed)
    async with Client(endpoint, **access) as client:
        step = 0
        while True:
            step += 1
            async with asyncio.TaskGroup() as group:
                for number in range(RESPONSES):
                    asked = min(600, int(lengths.lognormvariate(4.0, 0.9)) + 16)
                    group.create_task(_answer(client, 5 + number, asked))
            await _answer(client, 5, 200, session_id="conversation")
            await asyncio.sleep(BUBBLE_S)
            if step % STEPS_PER_UPDATE == 0:
                version = (await client.info()).policy_version + 1  # an earlier client may have published versions
                async with asyncio.TaskGroup() as group:  # with a response in flight, so that it spans two versions
                    group.create_task(_answer(client, 7, 300))
                    group.create_task(_update(client, version, model))


async def _update(client: Client, version: int, model: Path) -> None:
    await client.publish_weights(version=version, weights=model)


async def _answer(client: Client, token: int, tokens: int, *, session_id: str = "") -> None:
    sampling = SamplingParams(max_new_tokens=tokens, ignore_eos=True)
    await client.generate([1, token], sampling, session_id=session_id)
