"""Whole rollouts with a long tail: the bandit compared to every fixed arm, and retrieval alone and under the bandit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tlt_bench.arms.batches import BANDIT
from tlt_bench.engines.bench_engine import BenchEngine, log, rotated
from tlt_bench.engines.commands import Generate
from tlt_bench.ratios import Figures, best, over, worst
from tlt_bench.workload import long_tailed

WARM, WARM_TOKENS = 4, 32
GROUP = 8
"""Samples per prompt, as in GRPO."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPlan:
    """Number and lengths of responses, and repeats."""

    prompts: int
    longest: int
    repeats: int
    groups: int
    """Prompts with `GROUP` responses each, for retrieval."""
    group_longest: int


FULL = RolloutPlan(prompts=32, longest=1024, repeats=3, groups=4, group_longest=256)
QUICK = RolloutPlan(prompts=16, longest=512, repeats=1, groups=1, group_longest=96)


async def measure_adaptive(engine: BenchEngine, arms: Sequence[str], *, quick: bool) -> Figures:
    """
    Measure the seconds of rollouts of equal lengths under each arm and under the bandit.

    All run in one engine, because no two engines are equally fast. Every rollout begins with a new drafter, as a
    training step does: the bandit knows from earlier rollouts how long rounds take, but not yet the drafter's
    acceptance. In the first rollout it knows times at one batch size only.
    """
    plan = QUICK if quick else FULL
    found, seconds = Figures(), {name: list[float]() for name in (BANDIT, *arms)}
    for arm in arms:  # warm up: the first rounds of a process are slow
        await engine.force_arms(arm)
        await engine.generate(Generate(prompts=engine.task.mixed(WARM, seed=99), max_new_tokens=(WARM_TOKENS,) * WARM))
    for repeat in range(plan.repeats):
        for turn, name in enumerate(rotated((BANDIT, *arms), repeat)):
            # Separate prompts per turn: otherwise earlier responses to the same prompt would be retrieved.
            request = Generate(
                prompts=engine.task.mixed(plan.prompts, seed=100 + repeat * len(seconds) + turn),
                max_new_tokens=long_tailed(
                    plan.prompts, seed=repeat, longest=min(plan.longest, engine.task.response_tokens)
                ),
            )
            log(f"rollout {repeat + 1} of {plan.repeats}: {name}")
            if engine.has_drafter:
                await engine.reload_drafter()
            seconds[name].append(await _timed(engine, name, request))
    speeds = {name: [1 / each for each in spent] for name, spent in seconds.items()}
    sole = {arm: speeds[arm] for arm in arms}
    note = _note(seconds)
    found.add("adaptive_vs_best_fixed", over(speeds[BANDIT], sole[best(sole)]), f"{best(sole)} is the best; {note}")
    found.add("adaptive_vs_worst", over(speeds[BANDIT], sole[worst(sole)]), f"{worst(sole)} is the worst")
    found.add("adaptive_vs_off", over(speeds[BANDIT], sole["off"]))
    return found


async def measure_retrieval(engine: BenchEngine, arm: str, *, quick: bool) -> Figures:
    """Measure retrieval alone, and the bandit over off and retrieval, against off, in groups of sibling responses."""
    plan = QUICK if quick else FULL
    found, seconds = Figures(), {name: list[float]() for name in (BANDIT, "off", arm)}
    count = plan.groups * GROUP
    for repeat in range(plan.repeats):
        for turn, name in enumerate(rotated((BANDIT, "off", arm), repeat)):
            prompts = engine.task.mixed(plan.groups, seed=500 + repeat * len(seconds) + turn)
            request = Generate(
                prompts=tuple(prompt for prompt in prompts for _ in range(GROUP)),
                names=tuple(f"{repeat}-{turn}-{place // GROUP}/{place % GROUP}" for place in range(count)),
                max_new_tokens=long_tailed(
                    count, seed=repeat, longest=min(plan.group_longest, engine.task.response_tokens)
                ),
            )
            log(f"groups of {GROUP}, rollout {repeat + 1} of {plan.repeats}: {name}")
            seconds[name].append(await _timed(engine, name, request))
    note = _note(seconds)
    found.add("ngram_speedup", over(seconds["off"], seconds[arm]), f"{arm} alone: {note}")
    found.add("ngram_bandit_vs_off", over(seconds["off"], seconds[BANDIT]), f"bandit over off and {arm}, no drafter")
    return found


def _note(seconds: Mapping[str, Sequence[float]]) -> str:
    return ", ".join(f"{name} {median(spent):.1f} s" for name, spent in seconds.items())


async def _timed(engine: BenchEngine, name: str, request: Generate) -> float:
    await engine.force_arms(*() if name == BANDIT else (name,))
    return (await engine.generate(request)).seconds
