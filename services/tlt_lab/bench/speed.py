"""Arms of one engine against off, at fixed batch sizes: speed, accept length, and what drafts can bring at most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tlt_common.domain.strategy import DrafterKind, arm_named
from tlt_lab.bench.order import Ask, Told
from tlt_lab.bench.ratios import Figures, best, over
from tlt_lab.bench.sides import Side, say
from tlt_lab.bench.workload import hard_prompts

GREEDY_ARMS = ("off", "chain-3", "chain-7")
LENGTHS = (3, 5, 7)
"""Of chains whose sampled drafts are compared with the drafter's best tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPlan:
    """How long to measure: response lengths and repeats by batch size."""

    tokens: dict[int, int]
    repeats: dict[int, int]
    temperatures: tuple[float, ...]


FULL = SpeedPlan(tokens={1: 96, 4: 96, 16: 96}, repeats={1: 4, 4: 3, 16: 2}, temperatures=(1.0, 0.0))
QUICK = SpeedPlan(tokens={1: 48, 4: 48, 16: 32}, repeats={1: 1, 4: 1, 16: 1}, temperatures=(1.0,))


async def measure_speed(side: Side, arms: Sequence[str], plan: SpeedPlan) -> Figures:
    """All arms in turn, several times over, at temperature 1 and greedily."""
    found = Figures()
    for temperature in plan.temperatures:
        suffix = "" if temperature else "_greedy"
        for batch, tokens in plan.tokens.items():
            say(f"arms at batch {batch}, temperature {temperature:g}")
            repeats = plan.repeats[batch] if temperature else 1
            tried = arms if temperature else [arm for arm in arms if arm in GREEDY_ARMS]
            told = await _rounds(side, tried, batch, tokens, temperature, repeats)
            _speedup(found, told, f"bs{batch}{suffix}")
            if temperature:
                _sampled(found, told, f"_bs{batch}")
    _headline(found)
    return found


async def _rounds(
    side: Side, arms: Sequence[str], batch: int, tokens: int, temperature: float, repeats: int
) -> dict[str, list[Told]]:
    told: dict[str, list[Told]] = {arm: [] for arm in arms}
    warm = Ask(prompts=hard_prompts(batch, seed=0), max_new_tokens=(16,) * batch, temperature=temperature)
    for repeat in range(repeats):
        ask = Ask(
            prompts=hard_prompts(batch, seed=repeat + 1), max_new_tokens=(tokens,) * batch, temperature=temperature
        )
        for arm in arms:
            await side.force(arm)
            if not repeat:
                await side.ask(warm)
            told[arm].append(await side.ask(ask))
    return told


def _speedup(found: Figures, told: Mapping[str, Sequence[Told]], suffix: str) -> None:
    rates = {arm: [each.rate for each in answers] for arm, answers in told.items()}
    learned = {arm: rates[arm] for arm in rates if arm_named(arm).kind is DrafterKind.EAGLE}
    for arm, answers in told.items():
        if arm != "off":
            found.add(f"speed_{arm}_{suffix}", over(rates[arm], rates["off"]))
            found.add(f"accept_{arm}_{suffix}", [each.accept_length for each in answers])
    fastest = best(learned)
    speedup = found.add(f"speedup_{suffix}", over(learned[fastest], rates["off"]))
    note = f"{fastest}: {median(rates[fastest]):.0f} tokens/s, off {median(rates['off']):.0f}"
    if (verifying := f"ngram-{arm_named(fastest).draft_tokens - 1}") in told:
        cost = _draft_cost(told[fastest], told[verifying], told["off"])
        bound = median(each.accept_length for each in told[fastest]) / (1 + cost)
        found.add(f"bound_{suffix}", [bound])
        found.add(f"bound_share_{suffix}", [speedup / bound])
        note += f"; a draft costs {cost:.3f} of an off round, bound {bound:.2f}"
    found.notes[f"speedup_{suffix}"] = note


def _draft_cost(drafting: Sequence[Told], verifying: Sequence[Told], off: Sequence[Told]) -> float:
    """
    What drafting adds to a round, in rounds of off.

    `verifying` verifies as many tokens, which it looks up: its rounds are what verification alone takes.
    """
    extra = [mine.round_s - theirs.round_s for mine, theirs in zip(drafting, verifying, strict=True)]
    return max(0.0, median(extra) / median(each.round_s for each in off))


def _sampled(found: Figures, told: Mapping[str, Sequence[Told]], suffix: str) -> None:
    for steps in LENGTHS:
        sampled, top1 = told[f"chain-{steps}"], told[f"chain-{steps}-top1"]
        accepts = over([each.accept_length for each in sampled], [each.accept_length for each in top1])
        found.add(f"sampled_vs_top1_accept_{steps}{suffix}", accepts)
        speeds = over([each.rate for each in sampled], [each.rate for each in top1])
        found.add(f"sampled_vs_top1_speed_{steps}{suffix}", speeds)


def _headline(found: Figures) -> None:
    """The figures of chains without their batch size are those of all batches; without their length, those of 7."""
    for what in ("accept", "speed"):
        for steps in LENGTHS:
            parts = [
                value for name, value in found.figures.items() if name.startswith(f"sampled_vs_top1_{what}_{steps}_bs")
            ]
            found.add(f"sampled_vs_top1_{what}_{steps}", parts)
        found.figures[f"sampled_vs_top1_{what}"] = found.figures[f"sampled_vs_top1_{what}_{LENGTHS[-1]}"]
        found.spread[f"sampled_vs_top1_{what}"] = found.spread[f"sampled_vs_top1_{what}_{LENGTHS[-1]}"]
