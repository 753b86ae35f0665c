"""Arms of one engine compared to off at fixed batch sizes: speed, accept length, and the upper bound of the speedup."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from tlt_bench.engines.bench_engine import BenchEngine, log
from tlt_bench.engines.commands import Generate, Timing
from tlt_bench.ratios import Figures, best, over
from tlt_common.domain.arm import arm_named

GREEDY_ARMS = ("off", "chain-3", "chain-7")
LENGTHS = (3, 5, 7)
"""Lengths of chains whose sampled drafts are compared with the drafter's top-1 tokens and with seeded requests."""
SEEDED = {f"chain-{steps}": f"chain-{steps} seeded" for steps in LENGTHS}
"""Arms that also run with a seed for every request, and the name of that series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPlan:
    """Amount of measurement: response lengths and repeats by batch size."""

    tokens: dict[int, int]
    repeats: dict[int, int]
    temperatures: tuple[float | None, ...]
    """None for the engine's default; 0 for greedy sampling."""


FULL = SpeedPlan(tokens={1: 96, 4: 96, 16: 96}, repeats={1: 4, 4: 3, 16: 2}, temperatures=(None, 0.0))
QUICK = SpeedPlan(tokens={1: 48, 4: 48, 16: 32}, repeats={1: 1, 4: 1, 16: 1}, temperatures=(None,))


async def measure_speed(engine: BenchEngine, arms: Sequence[str], *, quick: bool) -> Figures:
    """Measure all arms in turn, repeatedly, sampled and greedily."""
    plan = QUICK if quick else FULL
    found = Figures()
    for temperature in plan.temperatures:
        sampled = temperature is None
        suffix = "" if sampled else "_greedy"
        for batch, tokens in plan.tokens.items():
            log(f"arms at batch {batch}, {'sampled' if sampled else 'greedy'}")
            repeats = plan.repeats[batch] if sampled else 1
            tried = arms if sampled else [arm for arm in arms if arm in GREEDY_ARMS]
            timings = await _rounds(engine, tried, batch, tokens, temperature, repeats)
            seeded = {arm: timings.pop(name) for arm, name in SEEDED.items() if name in timings}
            _speedup(found, timings, f"bs{batch}{suffix}")
            if sampled:
                _sampled(found, timings, f"_bs{batch}")
                _seeded(found, timings, seeded, f"_bs{batch}")
    _headline(found)
    return found


async def _rounds(
    engine: BenchEngine, arms: Sequence[str], batch: int, tokens: int, temperature: float | None, repeats: int
) -> dict[str, list[Timing]]:
    timings: dict[str, list[Timing]] = {arm: [] for arm in arms}
    warm = Generate(prompts=engine.task.hard(batch, seed=0), max_new_tokens=(16,) * batch, temperature=temperature)
    for repeat in range(repeats):
        request = Generate(
            prompts=engine.task.hard(batch, seed=repeat + 1), max_new_tokens=(tokens,) * batch, temperature=temperature
        )
        for arm in arms:
            await engine.force_arms(arm)
            if not repeat:
                await engine.generate(warm)
            timings[arm].append(await engine.generate(request))
            if temperature is None and arm in SEEDED:
                seed = 1000 * (repeat + 1)
                timings.setdefault(SEEDED[arm], []).append(
                    await engine.generate(request.model_copy(update={"seed": seed}))
                )
    return timings


def _speedup(found: Figures, timings: Mapping[str, Sequence[Timing]], suffix: str) -> None:
    costs = _draft_costs(timings)
    for arm, rounds in costs.items():
        found.add(f"draft_rounds_{arm}_{suffix}", [rounds])
    rates = {arm: [each.rate for each in answers] for arm, answers in timings.items()}
    learned = {arm: rates[arm] for arm in rates if arm_named(arm).needs_drafter}
    for arm, answers in timings.items():
        if arm != "off":
            found.add(f"speed_{arm}_{suffix}", over(rates[arm], rates["off"]))
            found.add(f"accept_{arm}_{suffix}", [each.accept_length for each in answers])
    fastest = best(learned)
    speedup = found.add(f"speedup_{suffix}", over(learned[fastest], rates["off"]))
    note = f"{fastest}: {median(rates[fastest]):.0f} tokens/s, off {median(rates['off']):.0f}"
    if (cost := costs.get(fastest)) is not None:
        bound = median(each.accept_length for each in timings[fastest]) / (1 + cost)
        found.add(f"bound_{suffix}", [bound])
        found.add(f"bound_share_{suffix}", [speedup / bound])
        note += f"; drafting costs {cost:.3f} of an off round, bound {bound:.2f}"
    found.notes[f"speedup_{suffix}"] = note


def _draft_costs(timings: Mapping[str, Sequence[Timing]]) -> dict[str, float]:
    """
    Return the time that drafting adds to a round of each arm, in units of an off round.

    An n-gram arm verifies as many tokens but looks them up, so its rounds measure verification only.
    """
    verifying = {arm: f"ngram-{arm_named(arm).draft_tokens - 1}" for arm in timings if arm_named(arm).needs_drafter}
    plain_s = median(each.round_s for each in timings["off"])
    return {
        arm: max(0.0, median(_extra_s(timings[arm], timings[other])) / plain_s)
        for arm, other in verifying.items()
        if other in timings
    }


def _extra_s(drafting: Sequence[Timing], verifying: Sequence[Timing]) -> list[float]:
    return [mine.round_s - theirs.round_s for mine, theirs in zip(drafting, verifying, strict=True)]


def _sampled(found: Figures, timings: Mapping[str, Sequence[Timing]], suffix: str) -> None:
    for steps in LENGTHS:
        sampled, top1 = timings[f"chain-{steps}"], timings[f"chain-{steps}-top1"]
        accepts = over([each.accept_length for each in sampled], [each.accept_length for each in top1])
        found.add(f"sampled_vs_top1_accept_{steps}{suffix}", accepts)
        speeds = over([each.rate for each in sampled], [each.rate for each in top1])
        found.add(f"sampled_vs_top1_speed_{steps}{suffix}", speeds)


def _seeded(
    found: Figures, timings: Mapping[str, Sequence[Timing]], seeded: Mapping[str, Sequence[Timing]], suffix: str
) -> None:
    """Compare the same engine, arm and prompts with a seed for every request and without seeds."""
    for steps in LENGTHS:
        sampled, with_seeds = timings[f"chain-{steps}"], seeded[f"chain-{steps}"]
        accepts = over([each.accept_length for each in with_seeds], [each.accept_length for each in sampled])
        found.add(f"seeded_vs_sampled_accept_{steps}{suffix}", accepts)
        speeds = over([each.rate for each in with_seeds], [each.rate for each in sampled])
        found.add(f"seeded_vs_sampled_speed_{steps}{suffix}", speeds)


def _headline(found: Figures) -> None:
    """Aggregate chain figures: without a batch size, over all batch sizes; without a length, for length 7."""
    for name in (f"{pair}_{what}" for pair in ("sampled_vs_top1", "seeded_vs_sampled") for what in ("accept", "speed")):
        for steps in LENGTHS:
            parts = [value for known, value in found.figures.items() if known.startswith(f"{name}_{steps}_bs")]
            found.add(f"{name}_{steps}", parts)
        found.figures[name] = found.figures[f"{name}_{LENGTHS[-1]}"]
        found.spread[name] = found.spread[f"{name}_{LENGTHS[-1]}"]
