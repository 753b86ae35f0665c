"""Small scenarios with round numbers."""

from collections.abc import Sequence
from typing import Any

from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.model import CostModel
from tlt_simulator.scenario import RlTrainer, RolloutFleet, Scenario
from tlt_simulator.trace import TraceSample, TraceStep

COSTS = {
    "round_fixed_s": 0.005,
    "round_read_s": 0.005,
    "round_token_s": 2e-5,
    "kv_token_s": 1e-8,
    "draft_fixed_s": 0.0005,
    "draft_token_s": 1e-6,
    "prefill_token_s": 1e-5,
    "accept_start": 0.6,
    "accept_best": 0.9,
    "accept_decay": 0.98,
    "ngram_accept": 0.3,
    "learn_tokens_s": 30_000.0,
    "learn_half_tokens": 200_000.0,
    "ageing": 0.01,
    "lease_start_s": 0.1,
    "lease_stop_s": 0.05,
    "drafter_load_s": 0.1,
    "update_s": 1.0,
    "lasting_passes": 0.0,  # a test's few states teach for ever
}


def costs(**values: float) -> CostModel:
    figures = {name: CostFigure(value=value, source=Source.ASSUMED) for name, value in (COSTS | values).items()}
    return CostModel(device="device", model="model", **figures)


def scenario(
    workers: int = 4, *, slots: int = 8, learn_s: float = 5.0, colocated: bool = True, **keys: Any
) -> Scenario:
    return Scenario(
        name="test",
        fleet=RolloutFleet(workers=workers, slots=slots, kv_room=keys.pop("kv_room", 10**7)),
        trainer=RlTrainer(learn_s=CostFigure(value=learn_s, source=Source.ASSUMED), colocated=colocated),
        costs=keys.pop("costs", None) or costs(),
        **keys,
    )


def step(lengths: Sequence[int], *, prompt_tokens: int = 10, group: int = 4) -> TraceStep:
    return TraceStep(
        samples=tuple(
            TraceSample(prompt=place // group, prompt_tokens=prompt_tokens, tokens=length)
            for place, length in enumerate(lengths)
        )
    )
