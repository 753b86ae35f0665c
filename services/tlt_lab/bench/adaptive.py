"""Whole rollouts with a long tail: the bandit against every fixed arm, and retrieval alone and under the bandit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tlt_lab.bench.order import Ask
from tlt_lab.bench.ratios import Figures, best, over, worst
from tlt_lab.bench.sides import Side, say, turned
from tlt_lab.bench.workload import long_tailed, mixed_prompts

BANDIT = "bandit"
WARM, WARM_TOKENS = 4, 32
GROUP = 8
"""Samples of a prompt, as in GRPO."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPlan:
    """How many prompts with answers how long, how often."""

    prompts: int
    longest: int
    repeats: int
    groups: int
    """Prompts that are answered `GROUP` times each, for retrieval."""
    group_longest: int


FULL = RolloutPlan(prompts=32, longest=1024, repeats=3, groups=4, group_longest=256)
QUICK = RolloutPlan(prompts=16, longest=512, repeats=1, groups=1, group_longest=96)


async def measure_adaptive(side: Side, arms: Sequence[str], plan: RolloutPlan) -> Figures:
    """
    Seconds of rollouts of the same lengths under each arm and under the bandit, all in one engine: no two are equally
    fast.

    Every rollout begins with a new drafter, as a step of training does: the bandit knows how long rounds take, from
    rollouts before, and not yet what the drafter is worth. In the first one it knows times at one batch size only.
    """
    found, seconds = Figures(), {name: list[float]() for name in (BANDIT, *arms)}
    for arm in arms:  # the first rounds of a process are slow
        await side.force(arm)
        await side.ask(Ask(prompts=mixed_prompts(WARM, seed=99), max_new_tokens=(WARM_TOKENS,) * WARM))
    for repeat in range(plan.repeats):
        for turn, name in enumerate(turned((BANDIT, *arms), repeat)):
            # Prompts of their own for each turn: what was said before to the same one would be retrieved.
            ask = Ask(
                prompts=mixed_prompts(plan.prompts, seed=100 + repeat * len(seconds) + turn),
                max_new_tokens=long_tailed(plan.prompts, seed=repeat, longest=plan.longest),
            )
            say(f"rollout {repeat + 1} of {plan.repeats}: {name}")
            await side.renew()
            seconds[name].append(await _timed(side, name, ask))
    speeds = {name: [1 / each for each in spent] for name, spent in seconds.items()}
    sole = {arm: speeds[arm] for arm in arms}
    note = _note(seconds)
    found.add("adaptive_vs_best_fixed", over(speeds[BANDIT], sole[best(sole)]), f"{best(sole)} is the best; {note}")
    found.add("adaptive_vs_worst", over(speeds[BANDIT], sole[worst(sole)]), f"{worst(sole)} is the worst")
    found.add("adaptive_vs_off", over(speeds[BANDIT], sole["off"]))
    return found


async def measure_retrieval(side: Side, arm: str, plan: RolloutPlan) -> Figures:
    """Retrieval alone, and the bandit over off and retrieval, against off; answers of one prompt are siblings."""
    found, seconds = Figures(), {name: list[float]() for name in (BANDIT, "off", arm)}
    count = plan.groups * GROUP
    for repeat in range(plan.repeats):
        for turn, name in enumerate(turned((BANDIT, "off", arm), repeat)):
            prompts = mixed_prompts(plan.groups, seed=500 + repeat * len(seconds) + turn)
            ask = Ask(
                prompts=tuple(prompt for prompt in prompts for _ in range(GROUP)),
                names=tuple(f"{repeat}-{turn}-{place // GROUP}/{place % GROUP}" for place in range(count)),
                max_new_tokens=long_tailed(count, seed=repeat, longest=plan.group_longest),
            )
            say(f"groups of {GROUP}, rollout {repeat + 1} of {plan.repeats}: {name}")
            seconds[name].append(await _timed(side, name, ask))
    note = _note(seconds)
    found.add("ngram_speedup", over(seconds["off"], seconds[arm]), f"{arm} alone: {note}")
    found.add("ngram_bandit_vs_off", over(seconds["off"], seconds[BANDIT]), f"bandit over off and {arm}, no drafter")
    return found


def _note(seconds: Mapping[str, Sequence[float]]) -> str:
    return ", ".join(f"{name} {median(spent):.1f} s" for name, spent in seconds.items())


async def _timed(side: Side, name: str, ask: Ask) -> float:
    await side.force(*() if name == BANDIT else (name,))
    return (await side.ask(ask)).seconds
