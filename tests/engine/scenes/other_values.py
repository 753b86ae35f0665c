"""A model whose config.json has another value of every key, in an engine and in transformers."""

from dataclasses import dataclass
from pathlib import Path

import torch

from tests.engine import models
from tests.engine.scenes.engine import answer, prompt, running
from tests.families import model_of, others
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.files import require_model

CASE = "model_type"
"""In the scene's folder: the family."""
LENGTH = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Valued:
    """An answer, and what transformers makes of the same tokens."""

    answer: TokenChunk
    expected_logprobs: list[float]


async def other_values(work: Path) -> Valued:
    """Sample from a model with large random weights, so that every key matters."""
    family = (work / CASE).read_text()
    torch.manual_seed(5)
    model = model_of(family, **others(family))
    with torch.no_grad():
        for name, parameter in (*model.named_parameters(), *model.named_buffers()):
            if "norm" not in name and "inv_freq" not in name:
                # SGLang keeps sinks in bfloat16.
                parameter.copy_((torch.randn_like(parameter) * 0.4).bfloat16())
    target = work / "target"
    model.save_pretrained(target)
    config = EngineConfig(dtype="float32", max_running=4, context_length=96, arms=("off",))
    require_model(target, config)
    asked = prompt("sampled", tuple(range(3, 33)), max_new_tokens=LENGTH)
    async with running(target, config) as engine:
        chunk = await answer(engine, asked)
    with torch.no_grad():
        logits = models.load(target)(torch.tensor([[*asked.token_ids, *chunk.token_ids]])).logits[0]
    logprobs = torch.log_softmax(logits, -1)[len(asked.token_ids) - 1 : -1]
    return Valued(
        answer=chunk,
        expected_logprobs=logprobs.gather(1, torch.tensor(chunk.token_ids).unsqueeze(1)).squeeze(1).tolist(),
    )
