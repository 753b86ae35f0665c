"""Sampled responses of one engine under each arm, for comparison with the model's own distribution."""

from dataclasses import replace
from pathlib import Path

from tests.engine.scenes.engine import running
from tests.lossless import cases
from tests.lossless.scenes import Answer, answers
from tests.real.model import DRAFTER, MODEL, asked
from tlt_common.domain.prompt import Prompt
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

ARMS = ("off", "chain-3", "chain-7-top1", "tree-3x4-8", "ngram-4")
SETTINGS = ("T 1.0", "T 0.6 top-p 0.9", cases.SEEDED)
RESPONSES, TOKENS = 18, 120
"""Of an arm; every token is compared."""


async def lossless(work: Path) -> dict[str, list[Answer]]:
    """Return the responses under each arm."""
    del work
    return await _responses(ARMS)


async def broken(work: Path) -> list[Answer]:
    """
    Return responses under a chain, of an engine with the plug-in `tests.lossless.broken`.

    None is seeded: those draw with their own noise, not by its rule. All are at temperature 1, where a rule that
    favors likely drafts has the most to favor: with half of them at 0.6, this many tokens do not show it.
    """
    del work
    return (await _responses(("chain-3",), settings=("T 1.0",)))["chain-3"]


async def _responses(arms: tuple[str, ...], settings: tuple[str, ...] = SETTINGS) -> dict[str, list[Answer]]:
    config = EngineConfig(drafter=DRAFTER, dtype="float32", max_running=RESPONSES, context_length=256, arms=arms)
    async with running(MODEL.directory, config, Experiment(seed=1)) as engine:
        return {arm: await _under(engine, arm, settings, seed=place) for place, arm in enumerate(arms)}


async def _under(engine: SglangEngine, arm: str, settings: tuple[str, ...], *, seed: int) -> list[Answer]:
    engine.force_arms(arm)
    prompts = [
        _set(one, settings[place % len(settings)], place)
        for place, one in enumerate(asked(RESPONSES, f"{arm}-", seed=seed))
    ]
    return await answers(engine, prompts, RESPONSES)


def _set(one: Prompt, name: str, place: int) -> Prompt:
    sampling = replace(cases.SETTINGS[name], max_new_tokens=TOKENS, seed=place if name == cases.SEEDED else None)
    return replace(one, sampling=sampling)
