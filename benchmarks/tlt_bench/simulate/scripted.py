"""An engine and a trainer without models, with known durations."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from tlt_bench.simulated_engine import SimulatedEngine
from tlt_common.domain.fleet import Lease, TrainingProgress
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import StaleEpochError
from tlt_worker.engine.base import EngineInfo

SLOTS = 8
CHUNK = 8
"""Tokens of a request in one round."""
ROUND_S, REQUEST_S = 0.04, 0.001
"""A round, and each request in it."""
UPDATE_S = 0.1
START_S, STOP_S = 0.05, 0.02
CONTEXT = 4096


class PacedEngine(SimulatedEngine):
    """Gives every running request CHUNK tokens per round, whose duration grows with their number."""

    def __init__(self) -> None:
        super().__init__()
        self._info = replace(self._info, context_length=CONTEXT, max_running=SLOTS)
        self._running = 0
        self._round = asyncio.Event()
        self._rounds: asyncio.Task[None] | None = None

    async def start(self) -> EngineInfo:
        self._rounds = asyncio.create_task(self._decode())
        return self._info

    async def generate(self, prompt: Prompt) -> AsyncIterator[TokenChunk]:
        done, count = len(prompt.prefix_token_ids), prompt.sampling.max_new_tokens or 1
        self._running += 1
        try:
            while done < count:
                await self._round.wait()
                tokens = (1,) * min(CHUNK, count - done)
                done += len(tokens)
                yield self._chunk(prompt, tokens, count, is_last=done == count)
        finally:
            self._running -= 1

    async def load_weights(self, directory: Path, version: PolicyVersion) -> float:
        await asyncio.sleep(UPDATE_S)
        return await super().load_weights(directory, version)

    async def aclose(self) -> None:
        if self._rounds is not None:
            self._rounds.cancel()

    async def _decode(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            # From the round before, not from now: a late wake-up does not add up.
            due_s = max(due_s + ROUND_S + REQUEST_S * self._running, loop.time() - ROUND_S)
            await asyncio.sleep(due_s - loop.time())
            self._round.set()
            self._round = asyncio.Event()


class ScriptedTrainer:
    """A trainer that starts and stops in known times and never rests. Implements TrainerControl."""

    def __init__(self) -> None:
        self._epoch = Epoch(0)
        self._since_s: float | None = None
        self._trained_s = 0.0

    async def start(self, lease: Lease, *, policy: Path, version: PolicyVersion, accept_length: float) -> None:
        del policy, version, accept_length
        if lease.epoch <= self._epoch and self._since_s is None:
            raise StaleEpochError(f"lease {lease.epoch} has ended")
        if self._since_s is None:
            await asyncio.sleep(START_S)
            self._since_s = asyncio.get_running_loop().time()
        self._epoch = lease.epoch

    async def preempt(self, epoch: Epoch) -> TrainingProgress:
        del epoch
        await asyncio.sleep(STOP_S)
        self._trained_s, self._since_s = self._trained_now_s, None
        return await self.progress()

    async def prepare(self, policy: Path, version: PolicyVersion) -> None:
        """Prepare nothing."""

    async def progress(self) -> TrainingProgress:
        return TrainingProgress(
            training=self._since_s is not None,
            steps=0,
            tokens=0,
            training_s=self._trained_now_s,
            loss=0.0,
            held_out_top1=0.0,
            drafter_version=DrafterVersion(0),
        )

    @property
    def _trained_now_s(self) -> float:
        running_s = 0.0 if self._since_s is None else asyncio.get_running_loop().time() - self._since_s
        return self._trained_s + running_s
