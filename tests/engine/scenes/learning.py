"""An engine without a drafter, and a spot trainer that trains EAGLE-3 drafters from what the engine captures."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.engine import models
from tests.engine.scenes.answers import accepted, stats
from tests.engine.scenes.engine import answer, frames, prompt, running
from tests.integration.trainer.peers import Bench
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.reading import format_of
from tlt_trainer.drafter.files import from_files
from tlt_trainer.drafter.vocabulary import tokens_of
from tlt_trainer.store.storage import read_uri
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig

VOCABULARY, DRAFT_TOKENS, LAYERS = 24, 20, (0, 1)
RESPONSES = 48
LENGTH = 64
STEPS = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What the trainer made of the engine's responses, and the engine of its drafters."""

    off: list[tuple[int, ...]]
    """Greedy answers without a drafter."""
    drafted: list[tuple[int, ...]]
    """The same with the drafter."""
    first_accepted: float
    """Drafts accepted per round with chains of 3, by the first drafter that was published."""
    accepted: float
    """The same, by the last one."""
    tokens: list[int]
    """Tokens that it can draft."""
    said: set[int]
    """Tokens that the engine generated while it captured."""


async def learned(work: Path) -> Learned:
    """Capture responses, train on them, and serve the drafters in place."""
    target = models.write_target(work / "target", vocabulary=VOCABULARY, hidden=48, layers=4, weight=0.12, head=0.6)
    config = EngineConfig(
        drafter_architecture=DrafterArchitecture.EAGLE3, draft_vocabulary=DRAFT_TOKENS, drafter_layers=LAYERS,
        dtype="float32", max_running=16, context_length=128, arms=("off", "chain-3"),
    )  # fmt: skip
    tests = [prompt(f"test{n}", _ids(100 + n), temperature=0.0, max_new_tokens=LENGTH) for n in range(6)]
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(running(target, config))
        bench = Bench(
            target,
            work,
            stack,
            drafter_architecture=DrafterArchitecture.EAGLE3,
            draft_vocabulary=DRAFT_TOKENS,
            drafter_layers=LAYERS,
            plateau_evaluations=None,  # so many steps, whether they pay or not
            nice=0,  # and whatever else runs on the machine
        )
        await bench.open()
        off = await _answers(engine, tests, "off")
        engine.set_capture(CapturePolicy(enabled=True, frame_tokens=32))
        prompts = [prompt(f"r{n}", _ids(n), temperature=1.0, max_new_tokens=LENGTH) for n in range(RESPONSES)]
        said = await _answers(engine, prompts, "off")
        await bench.put(await frames(engine))
        engine.set_capture(CapturePolicy(enabled=False))
        worker = await bench.worker()
        await worker.start(1)
        first = await bench.coordinator.reached(1)
        await engine.load_drafter(Path(first.uri), first.version)  # at once: its trainer removes old ones
        await worker.has_made(STEPS, within_s=120)
        await worker.preempt(1)
        last = bench.coordinator.history[-1]
        before = await _answers(engine, tests, "chain-3")
        await engine.load_drafter(Path(last.uri), last.version)
        after = await _answers(engine, tests, "chain-3")
        form = format_of(read_config(Path(last.uri)), read_config(target))
        weights = from_files(read_uri(last.uri, mark="meta.json"), form)
        return Learned(
            off=[chunk.token_ids for chunk in off],
            drafted=[chunk.token_ids for chunk in after],
            first_accepted=_per_round(before),
            accepted=_per_round(after),
            tokens=tokens_of(weights["d2t"]).tolist(),
            said={token for chunk in said for token in chunk.token_ids},
        )


def _ids(seed: int) -> tuple[int, ...]:
    return tuple((7 * seed + 5 * n * (seed % 3 + 1)) % VOCABULARY for n in range(6))


async def _answers(engine: SglangEngine, prompts: list[Prompt], arm: str) -> list[TokenChunk]:
    engine.force_arms(arm)
    return await asyncio.gather(*(answer(engine, one) for one in prompts))


def _per_round(answers: list[TokenChunk]) -> float:
    return accepted(answers) / sum(stats(chunk).rounds for chunk in answers)
