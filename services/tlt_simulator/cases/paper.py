"""
The speedups of the TLT paper (arXiv 2511.16665), with a single calibration.

Three unpublished numbers are assumed for all of them: the distribution of lengths, the rollouts' share of a step, and
what its engine takes for drafting (`costs.roofline.OWN`). They were chosen to minimize the mean error.
"""

from functools import partial

from tlt_simulator.cases.case import CaseRow, Measure, PublishedCase
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.roofline import calculated
from tlt_simulator.scenario import RlTrainer, RolloutFleet, Scenario
from tlt_simulator.trace import RunTrace
from tlt_simulator.traces.drawn import drawn_trace
from tlt_simulator.traces.lengths import LengthSpec

LENGTHS = LengthSpec(
    median=2500, prompt_spread=0.8, epoch_spread=0.1, chance_spread=0.6, endless=0.002, cap=32_768, prompt_tokens=300
)
ROLLOUT_SHARE = 0.8
PROMPTS, GROUP = 64, 8
DRAFTER_TOKENS = 6_300_000.0
"""A drafter that was trained beforehand, as fastrl's README recommends: nine tenths of what there is to learn."""
STEPS = 4
NODE_GPUS, SLOTS = 8, 256
SCALING = (
    ("7b", 4, 1, 1.21),
    ("7b", 4, 2, 1.45),
    ("7b", 4, 4, 1.62),
    ("7b", 4, 8, 1.76),
    ("32b", 8, 4, 1.83),
    ("32b", 8, 8, 2.12),
)
"""Model, GPUs of a worker, nodes of eight H100, and how many times as fast steps are as VeRL's."""


def paper() -> PublishedCase:
    """Return the case."""
    return PublishedCase(
        name="paper",
        title="The TLT paper: Qwen2.5-7B and 32B on H100",
        rows=(
            *(_scaling(*row) for row in SCALING),
            CaseRow(
                label="32b, 128 requests on one worker of 4 GPUs",
                scenario=_scenario("32b", 4, workers=1),
                trace=partial(_trace, 128, 1),
                steps=STEPS,
                measure=Measure.ROLLOUT,
                published=2.44,
            ),
        ),
        known=(
            "speedups over VeRL, 8 to 64 H100, at most 32,768 tokens (arXiv 2511.16665)",
            "64 prompts of 8; 4 GPUs a 7B worker, 8 a 32B one: fastrl, examples/grpo_7B.sh and grpo_32B_multi_nodes.sh",
        ),
        assumed=(
            f"lengths: median {LENGTHS.median:g}, {LENGTHS.endless:.1%} without an end",
            f"rollouts are {ROLLOUT_SHARE:.0%} of a step without the suite; about 85 % is published for another run",
            "as many prompts on more nodes; fastrl's script for 32B has more, with which 8 nodes gain no more than 4",
            "a drafter that was trained beforehand on responses of the policy",
        ),
    )


def _scaling(model: str, gpus: int, nodes: int, published: float) -> CaseRow:
    return CaseRow(
        label=f"{model}, {nodes} {'node' if nodes == 1 else 'nodes'}",
        scenario=_scenario(model, gpus, workers=nodes * NODE_GPUS // gpus),
        trace=partial(_trace, PROMPTS, GROUP),
        steps=STEPS,
        measure=Measure.STEP,
        published=published,
        rollout_share=ROLLOUT_SHARE,
    )


def _scenario(model: str, gpus: int, *, workers: int) -> Scenario:
    return Scenario(
        name="paper",
        fleet=RolloutFleet(workers=workers, gpus=gpus, slots=SLOTS),
        trainer=RlTrainer(learn_s=CostFigure(value=0.0, source=Source.ASSUMED), colocated=True),  # as in VeRL
        costs=calculated("h100", model, gpus),
        drafter_tokens=DRAFTER_TOKENS,
    ).planned("h100", model, LENGTHS.cap + 2048)


def _trace(prompts: int, group: int, steps: int) -> RunTrace:
    return drawn_trace(LENGTHS, steps=steps, prompts=prompts, group=group)
