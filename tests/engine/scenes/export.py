"""An exported drafter in SGLang without our plug-in."""

from dataclasses import dataclass
from pathlib import Path

from countdown.settings import DRAFTER
from tests.engine import eagle3, models
from tests.engine.scenes.answers import accepted, rounds
from tests.engine.scenes.engine import answer, prompt
from tlt_bench.engines.commands import StockSpeculation
from tlt_bench.engines.stock import SpeculatingEngine, StockEngine
from tlt_common.domain.response import TokenChunk
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.meta import WEIGHTS_FILE, DrafterMeta
from tlt_trainer.drafter.files import from_files, to_files
from tlt_trainer.drafter.shared_weights import read_config, trained_format
from tlt_worker.engine_config import EngineConfig

CHECKPOINT = DRAFTER.with_name("checkpoint")
STEPS = 3
PROMPT = (1, 5, 9)
CONFIG = EngineConfig(dtype="float32", max_running=2, context_length=512)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """The same greedy answer, with and without the drafter."""

    plain: TokenChunk
    drafted: TokenChunk
    rounds: int
    """Rounds of the drafted answer after the prompt's."""
    accept_length: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Eagle3Result:
    """The same for EAGLE-3, and the rounds that the drafter takes in plain torch."""

    exported: ExportResult
    expected_rounds: int


async def exported(_: Path) -> ExportResult:
    """Export the demo's drafter, and let SGLang use it."""
    return await _result(CHECKPOINT, DRAFTER)


async def exported_eagle3(work: Path) -> Eagle3Result:
    """Write an EAGLE-3 drafter as trainers do, export it, and let SGLang use it."""
    target = models.write_target(work / "target", vocabulary=24, hidden=48, layers=4, weight=0.09, kv_heads=4, seed=0)
    form = trained_format(read_config(target), DrafterArchitecture.EAGLE3, draft_vocabulary=20, layers=(0, 1, 2))
    authors = eagle3.write_drafter(work / "authors", target, form, range(2, 22), noise=0.02)
    weights = from_files({WEIGHTS_FILE: (authors / WEIGHTS_FILE).read_bytes()}, form)
    meta = DrafterMeta(version=1, base=0, worker_id="w", steps=0, tokens=0, held_out_top1=0)
    (work / "published").mkdir()
    for name, content in to_files(weights, form, meta).items():
        (work / "published" / name).write_bytes(content)
    found = await _result(target, work / "published")
    reference = eagle3.Reference(work / "published", target, form)
    reference.tensors = {name: tensor.float() for name, tensor in reference.tensors.items()}
    expected = reference.rounds([*PROMPT, *found.plain.token_ids], len(PROMPT), (STEPS,))
    return Eagle3Result(exported=found, expected_rounds=expected)


async def _result(target: Path, drafter: Path) -> ExportResult:
    plain = await _answer(StockEngine(target, CONFIG))
    speculation = StockSpeculation(arm=f"chain-{STEPS}", drafter=drafter)
    # Now: SGLang changes how this process makes event loops.
    drafted = await _answer(SpeculatingEngine(target, CONFIG, speculation=speculation))
    return ExportResult(
        plain=plain,
        drafted=drafted,
        rounds=rounds([drafted]) - 1,
        accept_length=1 + accepted([drafted]) / rounds([drafted]),
    )


async def _answer(engine: StockEngine) -> TokenChunk:
    try:
        await engine.start()
        return await answer(engine, prompt("ask", PROMPT, temperature=0.0, max_new_tokens=64))
    finally:
        await engine.aclose()
