"""`tlt bench tuner`: the cost of a bandit decision, and the bandit's regret in hindsight."""

import random
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from tlt_bench.replay.reading import read_trace
from tlt_bench.replay.verdict import REPEATS, hindsight, judge
from tlt_bench.result import Result
from tlt_common.bandit import Bandit, BanditConfig
from tlt_common.domain.arm import OFF, Arm, chain, ngram, tree
from tlt_common.domain.ids import DrafterVersion
from tlt_worker.scheduler.arms.switching import ArmSwitching

RECORDED = Path(__file__).parent / "rounds.jsonl.gz"
"""Rounds of the demo's policy on a CPU with arms forced at random: ten arms, all batch sizes, a weak and a good
drafter."""

TEN_ARMS: tuple[Arm, ...] = (
    OFF,
    *(chain(steps) for steps in (1, 3, 5, 7)),
    chain(7, sampled=False),
    tree(3, 3, 8),
    tree(5, 4, 16),
    ngram(3),
    ngram(7),
)
DECISIONS = 20_000
WARM_DECISIONS = 5_000
"""Enough decisions to fill all windows."""
BATCHES = (16, 12, 8, 6, 4, 2)
ROUNDS_PER_BATCH = 50


def measure(trace: Path | None) -> Result:
    """
    Time decisions, and replay a trace under the engine's policy.

    Raises:
        ConfigError: The trace cannot be read.
    """
    rounds = read_trace(trace or RECORDED).rounds
    known = hindsight(rounds)
    config = BanditConfig()
    best = known.fixed_seconds[known.best_fixed]
    times_us = sorted(decision_times_us(config))
    verdict = judge(known, config)
    return Result(
        name="tuner",
        figures={
            "decision_us": median(times_us),
            "decision_us_p99": times_us[len(times_us) * 99 // 100],
            "regret": verdict.regret,
            "regret_best_fixed": verdict.regret_best_fixed,
            "adaptive_vs_best_fixed": best / verdict.seconds,
            "switches_per_round": verdict.switches_per_round,
        },
        spread={
            "decision_us": (times_us[len(times_us) // 4], times_us[len(times_us) * 3 // 4]),
            "regret": _over(known.best_per_batch_seconds, verdict.seconds_by_replay),
            "regret_best_fixed": _over(best, verdict.seconds_by_replay),
        },
        repeats=REPEATS,
        notes={
            "decision_us": f"{len(TEN_ARMS)} arms, full windows, a new decision every round; spread: quartiles",
            "regret": "share of time that the best arm per batch size, known in advance, would save; negative: lose",
            "trace": f"{trace or RECORDED.name}: {len(rounds)} rounds; best fixed arm {known.best_fixed.name}",
        },
    )


def decision_times_us(config: BanditConfig) -> list[float]:
    """Time decisions as the engine requests them, with the hold disabled and rounds recorded in between."""
    clock, chance = _Clock(), random.Random(0)
    bandit = Bandit(TEN_ARMS, replace(config, hold_rounds=1), seed=0)
    switch = ArmSwitching(bandit=bandit, report=lambda _: None, clock=clock, drafter_version=DrafterVersion(1))
    times_us = []
    for decision in range(WARM_DECISIONS + DECISIONS):
        batch = BATCHES[decision // ROUNDS_PER_BATCH % len(BATCHES)]
        began_ns = time.perf_counter_ns()
        choice = switch.launch(batch, blocked=False)
        times_us.append((time.perf_counter_ns() - began_ns) / 1000)
        clock.now_s += 0.01 * (1 + 0.05 * choice.arm.draft_tokens + 0.02 * chance.random())
        switch.complete(choice, [chance.randint(0, choice.arm.steps) for _ in range(batch)])
    return times_us[WARM_DECISIONS:]


class _Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def _over(reference_s: float, times_s: tuple[float, ...]) -> tuple[float, float]:
    return 1.0 - reference_s / min(times_s), 1.0 - reference_s / max(times_s)
