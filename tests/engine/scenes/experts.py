"""A mixture of experts: updates in both spellings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tests.engine import models
from tests.engine.scenes.engine import CHAINS, PROMPT, answer, prompt, running
from tests.families import model_of
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine_config import EngineConfig


def write_mixture(directory: Path, family: str, *, seed: int) -> Any:
    """Write a mixture of experts with random weights, as trainers save it; return the model."""
    torch.manual_seed(seed)
    model = model_of(family, max_position_embeddings=512).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(std=0.2)
    model.save_pretrained(directory)
    return model


@dataclass(frozen=True, slots=True, kw_only=True)
class SpellingsResult:
    """Greedy answers after updates with the same weights."""

    stacked: TokenChunk
    apart: TokenChunk
    expected: list[int]
    """Transformers' choice at each position."""


async def spellings(work: Path) -> SpellingsResult:
    """Send weights stacked, the first ones again, and the same weights apart."""
    family = "qwen3_moe"
    start, apart, stacked = work / "start", work / "apart", work / "stacked"
    write_mixture(start, family, seed=1)
    trained = write_mixture(apart, family, seed=2)
    stacked.mkdir()
    save_file(trained.state_dict(), stacked / "model.safetensors")
    config = EngineConfig(dtype="float32", max_running=4, context_length=256, arms=CHAINS)
    answers = []
    async with running(start, config) as engine:
        for version, directory in enumerate((stacked, start, apart), 1):
            await engine.load_weights(directory, PolicyVersion(version))
            answers.append(await answer(engine, prompt(f"{version}", temperature=0.0, max_new_tokens=40)))
    whole = torch.tensor([[*PROMPT, *answers[0].token_ids]])
    with torch.no_grad():
        logits = models.load(apart)(whole).logits[0]
    return SpellingsResult(
        stacked=answers[0], apart=answers[2], expected=logits[len(PROMPT) - 1 : -1].argmax(-1).tolist()
    )
