"""One engine under every kind of arm: the same responses, while drafters, requests and weights come and go."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from tests.engine import models
from tests.engine.scenes import capture
from tests.engine.scenes.arms import with_aborts
from tests.engine.scenes.engine import answer, running
from tests.engine.scenes.family import over_an_update
from tests.engine.scenes.switching import storm
from tests.lossless.scenes import Answer
from tests.real.model import DRAFTER, MODEL, asked, task, write_noisy
from tlt_common.domain.ids import DrafterVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

ARMS = ("off", "chain-3", "chain-7-top1", "tree-3x4-8", "ngram-4")
ALL = "all"
"""Every arm in turn."""
TOKENS = 24
EACH = 3
"""Greedy requests, and as many with seeds."""
PREFIX_TOKENS = 13
CAPTURED_TOKENS = 30
"""Length of the prompt whose states are captured; of a longer one, the first are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmsResult:
    """Responses of one engine."""

    by_arm: dict[str, list[Answer]]
    """Greedy ones, then seeded ones at temperature 0.6."""
    resumed: list[TokenChunk]
    """What follows the first tokens of each of them, under all arms in turn."""
    stormed: list[TokenChunk]
    """Greedy ones while arms and drafters changed."""
    beside_aborts: list[TokenChunk]
    """Greedy ones while other requests were aborted."""
    captured: capture.Captured
    updated: Answer
    """A greedy one during which the weights changed."""
    fresh: Answer
    """One with the new weights."""
    newer: Path
    """Their checkpoint."""


async def arms(work: Path) -> ArmsResult:
    """Answer word problems under each arm, and under all in turn."""
    newer = write_noisy(work / "newer")
    config = EngineConfig(drafter=DRAFTER, dtype="float32", max_running=8, context_length=512, arms=ARMS)
    async with running(MODEL.directory, config, Experiment(seed=1)) as engine:
        by_arm = {arm: await _answered(engine, arm) for arm in (*ARMS, ALL)}
        resumed = await _resumed(engine, by_arm["off"])
        greedy = asked(EACH, temperature=0.0, max_new_tokens=TOKENS)
        other = models.write_drafter(work / "other", MODEL.directory, noise=0.02)
        stormed = await storm(engine, _named("storm", greedy), [other, DRAFTER], ARMS)
        await engine.load_drafter(DRAFTER, DrafterVersion(1000))
        engine.force_arms(*ARMS)
        beside = await with_aborts(engine, _named("aborts", greedy))
        # The end of a prompt: of a longer one, and of what the prefix cache has, states are not captured.
        end = task().hard(1, seed=7)[0][-CAPTURED_TOKENS:]
        captured = await capture.sampled(engine, MODEL.directory, ids=end, tokens=60)
        (whole,) = asked(1, "update-", seed=8, temperature=0.0, max_new_tokens=120)
        updated = await over_an_update(engine, newer, whole)
        (late,) = asked(1, "late-", seed=8, temperature=0.0, max_new_tokens=TOKENS)
        return ArmsResult(
            by_arm=by_arm,
            resumed=resumed,
            stormed=stormed,
            beside_aborts=beside,
            captured=captured,
            updated=Answer(prompt=whole, chunk=updated),
            fresh=Answer(prompt=late, chunk=await answer(engine, late)),
            newer=newer,
        )


async def _answered(engine: SglangEngine, arm: str) -> list[Answer]:
    """Answer all requests together."""
    engine.force_arms(*(ARMS if arm == ALL else (arm,)))
    greedy = asked(EACH, f"{arm}/greedy-", temperature=0.0, max_new_tokens=TOKENS)
    drawn = [
        replace(one, sampling=replace(one.sampling, seed=place))
        for place, one in enumerate(asked(EACH, f"{arm}/seeded-", seed=1, temperature=0.6, max_new_tokens=TOKENS))
    ]
    prompts = [*greedy, *drawn]
    chunks = await asyncio.gather(*(answer(engine, one) for one in prompts))
    return [Answer(prompt=one, chunk=chunk) for one, chunk in zip(prompts, chunks, strict=True)]


async def _resumed(engine: SglangEngine, answers: list[Answer]) -> list[TokenChunk]:
    """Continue responses from their first tokens."""
    rest = [
        replace(
            each.prompt,
            request_id=RequestId(f"{each.prompt.request_id}/rest"),
            prefix_token_ids=each.chunk.token_ids[:PREFIX_TOKENS],
        )
        for each in answers
    ]
    return list(await asyncio.gather(*(answer(engine, one) for one in rest)))


def _named(label: str, prompts: list[Prompt]) -> list[Prompt]:
    return [replace(one, request_id=RequestId(f"{label}/{one.request_id}")) for one in prompts]
