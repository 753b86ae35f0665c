"""An exported drafter in SGLang without our plug-in."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from countdown.settings import DRAFTER
from tests.engine.scenes.answers import accepted, rounds
from tests.engine.scenes.engine import answer, prompt
from tlt_bench.stock import StockEngine
from tlt_common.domain.rollout import TokenChunk
from tlt_trainer.drafter.exporting import export_to
from tlt_worker.capacity.engine_plan import EnginePlan
from tlt_worker.engine_config import EngineConfig

CHECKPOINT = DRAFTER.with_name("checkpoint")
STEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """The same greedy answer, with and without the drafter."""

    plain: TokenChunk
    drafted: TokenChunk
    accept_length: float


class _Drafting(StockEngine):
    """SGLang's own EAGLE with an exported drafter."""

    drafter: Path

    def arguments(self, plan: EnginePlan) -> dict[str, Any]:
        found = super().arguments(plan)
        return found | {
            "max_total_tokens": 4 * found["context_length"],
            "speculative_algorithm": "EAGLE",
            "speculative_draft_model_path": str(self.drafter),
            "speculative_num_steps": STEPS,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": STEPS + 1,
        }


async def exported(work: Path) -> ExportResult:
    """Export the demo's drafter, and let SGLang use it."""
    export_to(str(DRAFTER), work / "drafter", "sglang")
    config = EngineConfig(dtype="float32", max_running=2, context_length=512)
    plain = await _answer(StockEngine(CHECKPOINT, config))
    engine = _Drafting(CHECKPOINT, config)
    engine.drafter = work / "drafter"
    drafted = await _answer(engine)
    return ExportResult(plain=plain, drafted=drafted, accept_length=1 + accepted([drafted]) / rounds([drafted]))


async def _answer(engine: StockEngine) -> TokenChunk:
    try:
        await engine.start()
        return await answer(engine, prompt("ask", (1, 5, 9), temperature=0.0, max_new_tokens=64))
    finally:
        await engine.aclose()
