"""`tlt bench switch`: speculation goes off and on again with requests in flight; what the rounds in between lose."""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tlt_lab.bench.order import Ask, Start, Told, Turn
from tlt_lab.bench.prepare import Ground, prepared
from tlt_lab.bench.ratios import Figures
from tlt_lab.bench.result import Result
from tlt_lab.bench.sides import Side, say, started
from tlt_lab.bench.workload import PROMPT_TOKENS, hard_prompts

ARM = "chain-7"
BATCH = 4
BEFORE_TOKENS = 40
AFTER_TOKENS = 80
WITHIN_ROUNDS = 4
"""An order is heard with the next round, and its sender knows of a round only when it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPlan:
    """How often each gap, in tokens of the first request."""

    repeats: dict[int, int]


FULL = SwitchPlan(repeats={50: 10, 200: 6, 1000: 3})
QUICK = SwitchPlan(repeats={50: 3, 200: 2, 1000: 1})


def measure(ground: Ground, *, quick: bool) -> Result:
    """Run and take the figures; progress goes to stderr."""
    plan = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        found = asyncio.run(_measure(plan, ground, Path(scratch)))
    return Result(
        name="switch",
        figures=found.figures,
        spread=found.spread,
        repeats=min(plan.repeats.values()),
        notes={
            "switch_rounds": "time of the round with the switch, less a median round of the arm it went to, in such "
            "rounds; the largest median over both directions and all gaps",
            "batch": f"{BATCH} requests; between off and {ARM}; the gap is in tokens of each request",
            **found.notes,
        },
    )


async def _measure(plan: SwitchPlan, ground: Ground, scratch: Path) -> Figures:
    ready = await prepared(ground, scratch)
    context = PROMPT_TOKENS + BEFORE_TOKENS + max(plan.repeats) + AFTER_TOKENS
    start = Start(
        model=ready.model,
        drafter=ready.drafter,
        arms=("off", ARM),
        context_length=context,
        simulated_accept_length=ready.simulated_accept_length,
    )
    side = Side("ours", start, ready.variables)
    found = Figures()
    async with started(side):
        await _warm(side)
        recomputed = 0
        for gap, repeats in plan.repeats.items():
            recomputed += await _gap(side, gap, repeats, found)
    found.add("tokens_recomputed", [recomputed], "of the target, counted by the scheduler over all switches")
    lost = [value for name, value in found.figures.items() if name.startswith(("on_rounds_", "off_rounds_"))]
    found.add("switch_rounds", lost)
    found.figures["switch_rounds"] = max(lost)
    return found


async def _warm(side: Side) -> None:
    for arm in ("off", ARM):
        await side.force(arm)
        await side.ask(Ask(prompts=hard_prompts(BATCH, seed=0), max_new_tokens=(AFTER_TOKENS,) * BATCH))
    await side.count()


async def _gap(side: Side, gap: int, repeats: int, found: Figures) -> int:
    """Measure one gap; return how many tokens the target computed twice."""
    on, off, catch_up_ms = list[float](), list[float](), list[float]()
    for repeat in range(repeats):
        say(f"off for {gap} tokens, {repeat + 1} of {repeats}")
        await side.force(ARM)
        ask = Ask(
            prompts=hard_prompts(BATCH, seed=1 + repeat),
            max_new_tokens=(BEFORE_TOKENS + gap + AFTER_TOKENS,) * BATCH,
            turns=(Turn(after_tokens=BEFORE_TOKENS, arm="off"), Turn(after_tokens=BEFORE_TOKENS + gap, arm=ARM)),
        )
        told = await side.ask(ask)
        off.append(lost_rounds(told, 0, on=False))
        on.append(lost_rounds(told, 1, on=True))
        catch_up_ms.append(1000 * on[-1] * median(seconds for seconds, _ in _after(told, 1)[WITHIN_ROUNDS:]))
    counted = await side.count()
    found.add(f"on_rounds_{gap}", on)
    found.add(f"off_rounds_{gap}", off)
    found.add(f"catch_up_ms_{gap}", catch_up_ms)
    found.add(f"catch_up_tokens_{gap}", [counted.caught_up_tokens / (repeats * BATCH)], "of the drafter, per request")
    return counted.recomputed_tokens


def lost_rounds(told: Told, turn: int, *, on: bool) -> float:
    """
    What the switch ordered by `turn` cost, in median rounds of the arm it went to.

    The order is heard after a round or two of the arm before. Rounds that bring more than one token have drafts: off
    begins behind the last of them. On begins with the first, or with the one before, all of whose drafts were refused.
    """
    rounds = _after(told, turn)
    usual = median([seconds for seconds, _ in rounds[WITHIN_ROUNDS:]])
    drafted = [place for place, (_, tokens) in enumerate(rounds[:WITHIN_ROUNDS]) if tokens > 1]
    if on:
        first = drafted[0] if drafted else 0
        switched = max(seconds for seconds, _ in rounds[max(0, first - 1) : first + 1])
    else:
        switched = rounds[drafted[-1] + 1 if drafted else 0][0]
    return (switched - usual) / usual


def _after(told: Told, turn: int) -> list[tuple[float, int]]:
    """Seconds and tokens of the first request's rounds, from a turn to the next one or to its end."""
    end_s = (*told.turned_s[turn + 1 :], told.at_s[-1])[0]
    rounds = zip(told.at_s, told.at_s[1:], told.chunk_tokens[1:], strict=False)
    return [(later - earlier, tokens) for earlier, later, tokens in rounds if told.turned_s[turn] <= later <= end_s]
