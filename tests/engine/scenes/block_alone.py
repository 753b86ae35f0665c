"""An engine in bfloat16 that is told no more than that its drafters are block drafters."""

from dataclasses import dataclass
from pathlib import Path

from tests.engine import block
from tests.engine.block import Kind
from tests.engine.scenes.engine import answer, prompt, running
from tests.lossless import cases
from tests.lossless.scenes import Drawn, draw
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

LIKE_STANDARD = Kind(block_size=7, layers=(1, 3, 4), markov="rnn")
"""What the suite makes for a policy of eight layers."""
SETTINGS = ("T 1.0", cases.SEEDED)
DRAWS, EARLY_TOKENS = 1000, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Short responses by setting."""

    target: Path
    early: TokenChunk
    """An answer before a drafter was published."""
    plain: dict[str, Drawn]
    drafted: dict[str, Drawn]
    """Under the default arms in turn, with a published drafter."""


async def alone(work: Path) -> Alone:
    """Start without a drafter, load one, and draw."""
    target = block.write_target(
        work / "target", vocabulary=cases.VOCABULARY, hidden=128, layers=8, kv_heads=4, weight=0.05, head=0.3
    )
    drafter = block.write_drafter(work / "drafter", target, LIKE_STANDARD, noise=0.02)
    config = EngineConfig(drafter_architecture="block", dtype="bfloat16", max_running=64, context_length=192)
    async with running(target, config, Experiment(seed=1)) as engine:
        early = await answer(engine, prompt("early", max_new_tokens=EARLY_TOKENS))
        engine.force_arms("off")
        plain = await draw(engine, SETTINGS, DRAWS)
        await engine.load_drafter(drafter, DrafterVersion(1))
        engine.force_arms("block-7", "off", "block-3")
        return Alone(target=target, early=early, plain=plain, drafted=await draw(engine, SETTINGS, DRAWS))
