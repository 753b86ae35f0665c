"""
Rollouts with EAGLE-3 in NeMo-RL: 8B measured on GB200, 235B projected by its authors (arXiv 2604.26779).

The paper has times of phases, tokens per round and the number of drafts, but neither lengths nor the number of
responses. 2,048 responses of a lognormal length are assumed, whose median makes plain rollouts take as long as
published. What is simulated is NeMo-RL: vLLM's overhead, a drafter that does not learn, nothing lent.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from tlt_simulator.cases.case import CaseRow, Measure, PublishedCase
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.model import CostModel
from tlt_simulator.costs.published.rounds import PUBLISHED_SHAPES
from tlt_simulator.costs.roofline import ENGINES, costs_of
from tlt_simulator.scenario import EngineKeys, RlTrainer, RolloutFleet, Scenario, SuiteKeys
from tlt_simulator.trace import RunTrace
from tlt_simulator.traces.drawn import drawn_trace
from tlt_simulator.traces.lengths import LengthSpec

CARD: Final = "b200"
"""A GB200 has the memory and the rates of a B200."""
HEAD: Final = 32_000
"""Rows of the head that EAGLE-3 drafts from."""
STEPS: Final = 8
ZERO, THINK, LARGE = (
    LengthSpec(median=median, prompt_spread=0.5, epoch_spread=0.0, chance_spread=0.4, cap=32_768, prompt_tokens=150)
    for median in (1770, 2230, 4000)
)
PROMPTS, FEWER_PROMPTS, GROUP = 64, 42, 32
"""A step of the synchronous runs; of the asynchronous one, whose learner takes 1.3 times as long on half the GPUs."""
QUALITIES: Final[Mapping[tuple[int, float], float]] = {(3, 3.32): 0.886, (3, 2.77): 0.774, (5, 4.0): 0.857}
"""Acceptance probability of the first draft, by number of drafts and published tokens per round."""
LARGE_SHARE: Final = 0.84
"""Rollouts' share of a synchronous step with 235B, which the two projected speedups imply."""


def nemo_rl() -> PublishedCase:
    """Return the case."""
    zero, think = (partial(_run, lengths) for lengths in (ZERO, THINK))
    return PublishedCase(
        name="nemo-rl",
        title="NeMo-RL with EAGLE-3: Qwen3-8B measured, Qwen3-235B-A22B projected",
        rows=(
            zero("8b from its base model", 3.32, 51.2, Measure.ROLLOUT, 1.77),
            zero("8b from its base model", 3.32, 51.2, Measure.STEP, 1.41),
            think("8b, a thinking model", 2.77, 51.7, Measure.ROLLOUT, 1.54),
            think("8b, a thinking model", 2.77, 51.7, Measure.STEP, 1.35),
            think(
                "8b, thinking, asynchronous",
                2.77,
                64.6,
                Measure.STEP,
                1.24,
                workers=48,
                prompts=FEWER_PROMPTS,
                max_staleness=1,
            ),
            _large(Measure.ROLLOUT, 3.5),
            _large(Measure.STEP, 2.5),
        ),
        known=(
            "Qwen3-8B on 32 GB200, three drafts: rollouts of 100.0 s (base model) take 56.6 s, of 133.6 s 87.0 s",
            "steps of 151.2 and 185.3 s take 107.5 and 137.4 s, with 3.32 and 2.77 tokens per round (arXiv 2604.26779)",
            "asynchronous, 48 GB200 for rollouts, 16 for learning, weights one update old: steps of 75.0 s take 60.5 s",
            "Qwen3-235B-A22B on 2,048 GB200, five drafts, 4 tokens per round, weights two updates old: a projection",
        ),
        assumed=(
            f"{PROMPTS * GROUP:,} responses of a step, {FEWER_PROMPTS * GROUP:,} where half as many GPUs learn",
            f"median lengths of {ZERO.median:g} and {THINK.median:g}, for plain rollouts as long as published",
            "what vLLM took for drafting in other published runs; a drafter that does not age; enough KV cache",
            f"235B: bfloat16, not FP8; 128 workers of 8 GPUs; {LARGE_SHARE:.0%} of a synchronous step are rollouts",
        ),
    )


def _run(
    lengths: LengthSpec,
    label: str,
    tokens: float,
    other_s: float,
    measure: Measure,
    published: float,
    *,
    workers: int = 32,
    prompts: int = PROMPTS,
    max_staleness: int = 0,
) -> CaseRow:
    """Return a row of a run of 8B whose steps take `other_s` besides rollouts."""
    shape = PUBLISHED_SHAPES["qwen3-8b"]
    shape = replace(shape, draft=replace(shape.drafter, head_rows=HEAD))
    costs = _drafting(costs_of(CARD, 1, shape, "qwen3-8b", ENGINES["vllm"]), 3, tokens)
    learn_s = CostFigure(
        value=other_s - costs.update_s.value, source=Source.PUBLISHED, of="steps without rollouts, less an update"
    )
    return CaseRow(
        label=f"{label}, {measure.value}s",
        scenario=_scenario(costs, 3, RolloutFleet(workers=workers, kv_room=700_000), learn_s, max_staleness),
        trace=partial(_trace, lengths, prompts),
        steps=STEPS,
        measure=measure,
        published=published,
    )


def _large(measure: Measure, published: float) -> CaseRow:
    shape = PUBLISHED_SHAPES["qwen3-235b-a22b"]
    shape = replace(shape, draft=replace(shape.drafter, head_rows=HEAD))
    costs = _drafting(costs_of(CARD, 8, shape, "qwen3-235b-a22b", ENGINES["vllm"]), 5, 4.0)
    unknown = CostFigure(value=0.0, source=Source.ASSUMED)
    return CaseRow(
        label=f"235b, asynchronous, projected, {measure.value}s",
        scenario=_scenario(costs, 5, RolloutFleet(workers=128, gpus=8, kv_room=4_000_000), unknown, 2),
        trace=partial(_trace, LARGE, 2 * PROMPTS),
        steps=STEPS,
        measure=measure,
        published=published,
        rollout_share=LARGE_SHARE,
    )


def _scenario(costs: CostModel, drafts: int, fleet: RolloutFleet, learn_s: CostFigure, max_staleness: int) -> Scenario:
    return Scenario(
        name="nemo-rl",
        fleet=fleet,
        trainer=RlTrainer(learn_s=learn_s, max_staleness=max_staleness),
        costs=costs,
        suite=SuiteKeys(
            lending=False, engine=EngineKeys(arms=(f"chain-{drafts}",), speculate_below_requests=fleet.slots + 1)
        ),
        drafter_tokens=1.0,
    )


def _drafting(costs: CostModel, drafts: int, tokens: float) -> CostModel:
    """Return costs with a drafter of published tokens per round."""
    quality = CostFigure(
        value=QUALITIES[drafts, tokens], source=Source.PUBLISHED, of=f"{tokens:g} tokens per round of {drafts} drafts"
    )
    never = CostFigure(value=0.0, source=Source.ASSUMED, of="a drafter that does not age")
    return costs.model_copy(update={"accept_start": quality, "accept_best": quality, "ageing": never})


def _trace(lengths: LengthSpec, prompts: int, steps: int) -> RunTrace:
    return drawn_trace(lengths, steps=steps, prompts=prompts, group=GROUP)
