"""
ByteDance's run in the TLT paper: 32B on 128 GPUs, 385 steps in 11 days, at most 20,480 tokens, 85 % rollout.

Its cards, prompts and lengths were not published. They are taken from the recipe that ByteDance published for the same
number of GPUs, model and cap (verl, recipe/dapo/run_dapo_qwen2.5_32b.sh), on H100. With calculated costs that recipe
takes less than 11 days, so all costs of rounds are scaled by one factor until it takes 11 days.
"""

from tlt_simulator.cases.case import CaseRow, Measure, PublishedCase
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.model import TERMS, CostModel
from tlt_simulator.costs.roofline import calculated
from tlt_simulator.run import simulate
from tlt_simulator.scenario import RlTrainer, RolloutFleet, Scenario
from tlt_simulator.trace import RunTrace
from tlt_simulator.traces.drawn import drawn_trace
from tlt_simulator.traces.lengths import LengthSpec

LENGTHS = LengthSpec(
    median=3000, prompt_spread=0.7, epoch_spread=0.1, chance_spread=0.5, endless=0.005, cap=20_480, prompt_tokens=200
)
PROMPTS, GROUP = 512, 16
STEPS, DAYS, ROLLOUT_SHARE = 385, 11.0, 0.85
STEP_S = DAYS * 86_400.0 / STEPS
GOALS = (5.5, 4.0)
"""Days that one may hope for."""
WORKERS, GPUS, SLOTS = 32, 4, 256
SLOWED = (*(name for name in TERMS if name != "expert_share"), "prefill_token_s")
"""Costs that are slower by the factor."""
FITS = 3
"""Simulations of a step from which the factor is found."""


def bytedance() -> PublishedCase:
    """Return the case. Simulates a few steps."""
    scenario = _slowed(_scenario())
    return PublishedCase(
        name="bytedance-32b",
        title="ByteDance's 32B run on 128 GPUs",
        rows=(
            CaseRow(
                label="385 steps",
                scenario=scenario,
                trace=_trace,
                steps=STEPS,
                measure=Measure.DAYS,
                published=DAYS,
            ),
        ),
        known=(
            "128 GPUs, 385 steps, 11 days, at most 20,480 tokens, 85 % rollout (arXiv 2511.16665)",
            "; ".join(f"{days:g} days need rollouts {needed(days):.2f} times as fast" for days in GOALS)
            + f"; {DAYS * (1.0 - ROLLOUT_SHARE):.2f} days are no rollout at all",
        ),
        assumed=(
            "512 prompts of 16, workers of 4 GPUs (verl, recipe/dapo/run_dapo_qwen2.5_32b.sh, no dynamic sampling)",
            f"lengths: median {LENGTHS.median:g}, {LENGTHS.endless:.1%} without an end",
            "H100; what rounds cost is a multiple of what is calculated for it, so that 385 steps take 11 days",
        ),
    )


def needed(days: float) -> float:
    """Return the rollout speedup at which the run takes this many days."""
    return ROLLOUT_SHARE / (days / DAYS - (1.0 - ROLLOUT_SHARE))


def _scenario() -> Scenario:
    learn_s = STEP_S * (1.0 - ROLLOUT_SHARE)
    return Scenario(
        name="bytedance-32b",
        fleet=RolloutFleet(workers=WORKERS, gpus=GPUS, slots=SLOTS),
        trainer=RlTrainer(
            learn_s=CostFigure(value=learn_s, source=Source.PUBLISHED, of="15 % of a step of 41 minutes"),
            colocated=True,  # as in VeRL
        ),
        costs=calculated("h100", "32b", GPUS),
    ).planned("h100", "32b", LENGTHS.cap + 2048)


def _slowed(scenario: Scenario) -> Scenario:
    """Return a scenario whose rollouts take as long as the run's."""
    steps, wanted_s = _trace(1).steps, STEP_S * ROLLOUT_SHARE
    for _ in range(FITS):
        factor = wanted_s / simulate(steps, scenario.plain).rollout_s
        scenario = scenario.model_copy(update={"costs": _times(scenario.costs, factor)})
    return scenario


def _times(costs: CostModel, factor: float) -> CostModel:
    figures = dict(costs.figures())
    return costs.model_copy(update={name: figures[name].scaled(factor) for name in SLOWED})


def _trace(steps: int) -> RunTrace:
    return drawn_trace(LENGTHS, steps=steps, prompts=PROMPTS, group=GROUP)
