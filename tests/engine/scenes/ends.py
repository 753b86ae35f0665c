"""A model whose end of turn is known to its tokenizer alone."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from tests.engine import models
from tests.engine.scenes.engine import PROMPT, answer, running
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine_config import EngineConfig

END, LEAST, MOST = 10, 40, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EndsResult:
    """Sampled answers, with the same seeds."""

    ended: list[TokenChunk]
    long: list[TokenChunk]
    """With a minimum length."""
    ignoring: list[TokenChunk]
    """With `ignore_eos`."""


async def ends(work: Path) -> EndsResult:
    """Sample eight answers in each of three ways, with drafts."""
    target = models.write_target(work / "target", head=0.2)
    vocabulary = json.loads((target / "config.json").read_text())["vocab_size"]
    Tokenizer(WordLevel({f"w{token}": token for token in range(vocabulary)})).save(str(target / "tokenizer.json"))
    (target / "tokenizer_config.json").write_text(json.dumps({"eos_token": f"w{END}"}))
    drafter = models.write_drafter(work / "drafter", target, noise=0.02)
    config = EngineConfig(drafter=drafter, dtype="float32", max_running=8, context_length=256, arms=("off", "chain-3"))
    async with running(target, config) as engine:
        engine.force_arms("chain-3")

        async def eight(name: str, **sampling: object) -> list[TokenChunk]:
            params = [SamplingParams(max_new_tokens=MOST, seed=seed, **sampling) for seed in range(8)]  # type: ignore[arg-type]
            prompts = [
                Prompt(request_id=RequestId(f"{name}{place}"), token_ids=PROMPT, sampling=one)
                for place, one in enumerate(params)
            ]
            return list(await asyncio.gather(*(answer(engine, one) for one in prompts)))

        return EndsResult(
            ended=await eight("ended"),
            long=await eight("long", min_new_tokens=LEAST),
            ignoring=await eight("ignoring", ignore_eos=True),
        )
