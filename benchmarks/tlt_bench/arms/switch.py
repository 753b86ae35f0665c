"""`tlt bench switch`: cost of switching speculation off and on with requests in flight."""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tlt_bench.engines.bench_engine import BenchEngine, log, started
from tlt_bench.engines.commands import ArmSwitch, Generate, Timing
from tlt_bench.engines.prepare import BenchTarget, prepared
from tlt_bench.ratios import Figures
from tlt_bench.result import Result

ARM = "chain-7"
BATCH = 4
BEFORE_TOKENS = 40
AFTER_TOKENS = 80
WITHIN_ROUNDS = 4
"""A command takes effect with the next round, and its sender learns of a round only after it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPlan:
    """Repeats by gap, in tokens of the first request."""

    repeats: dict[int, int]


FULL = SwitchPlan(repeats={50: 10, 200: 6, 1000: 3})
QUICK = SwitchPlan(repeats={50: 3, 200: 2, 1000: 1})


def measure(target: BenchTarget, *, quick: bool) -> Result:
    """
    Run the benchmark and return its figures. Progress goes to stderr.

    Raises:
        ConfigError: The target has no drafter.
    """
    target.require_drafter(ARM)
    plan = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        found = asyncio.run(_measure(plan, target, Path(scratch)))
    found.notes |= {
        "switch_rounds": "time of the round with the switch minus a median round of the arm switched to, in units of "
        "such rounds; the largest median over both directions and all gaps",
        "batch": f"{BATCH} requests; between off and {ARM}; the gap is in tokens of each request",
    }
    return found.result("switch", repeats=min(plan.repeats.values()))


async def _measure(plan: SwitchPlan, target: BenchTarget, scratch: Path) -> Figures:
    ready = await prepared(target, scratch)
    context = ready.task.prompt_tokens + BEFORE_TOKENS + max(plan.repeats) + AFTER_TOKENS
    engine = BenchEngine("ours", ready.start(("off", ARM), context_length=context), ready.variables)
    found = Figures()
    async with started(engine):
        await _warm(engine)
        recomputed = 0
        for gap, repeats in plan.repeats.items():
            recomputed += await _gap(engine, gap, repeats, found)
    found.add("tokens_recomputed", [recomputed], "by the target, counted by the scheduler over all switches")
    lost = [value for name, value in found.figures.items() if name.startswith(("on_rounds_", "off_rounds_"))]
    found.add("switch_rounds", lost)
    found.figures["switch_rounds"] = max(lost)
    return found


async def _warm(engine: BenchEngine) -> None:
    for arm in ("off", ARM):
        await engine.force_arms(arm)
        await engine.generate(Generate(prompts=engine.task.hard(BATCH, seed=0), max_new_tokens=(AFTER_TOKENS,) * BATCH))
    await engine.counters()


async def _gap(engine: BenchEngine, gap: int, repeats: int, found: Figures) -> int:
    """Measure one gap; return the number of tokens the target recomputed."""
    on, off, catch_up_ms = list[float](), list[float](), list[float]()
    for repeat in range(repeats):
        log(f"off for {gap} tokens, {repeat + 1} of {repeats}")
        await engine.force_arms(ARM)
        request = Generate(
            prompts=engine.task.hard(BATCH, seed=1 + repeat),
            max_new_tokens=(BEFORE_TOKENS + gap + AFTER_TOKENS,) * BATCH,
            switches=(
                ArmSwitch(after_tokens=BEFORE_TOKENS, arm="off"),
                ArmSwitch(after_tokens=BEFORE_TOKENS + gap, arm=ARM),
            ),
        )
        timing = await engine.generate(request)
        off.append(lost_rounds(timing, 0, on=False))
        on.append(lost_rounds(timing, 1, on=True))
        catch_up_ms.append(1000 * on[-1] * median(seconds for seconds, _ in _after(timing, 1)[WITHIN_ROUNDS:]))
    counted = await engine.counters()
    found.add(f"on_rounds_{gap}", on)
    found.add(f"off_rounds_{gap}", off)
    found.add(f"catch_up_ms_{gap}", catch_up_ms)
    found.add(f"catch_up_tokens_{gap}", [counted.caught_up_tokens / (repeats * BATCH)], "by the drafter, per request")
    return counted.recomputed_tokens


def lost_rounds(timing: Timing, switch: int, *, on: bool) -> float:
    """
    Return the cost of switch number `switch`, in median rounds of the arm it switched to.

    The switch takes effect after a round or two of the previous arm. A round that yields more than one token had
    drafts. Off begins after the last such round; on begins with the first one, or with the one before it if all of its
    drafts were rejected.
    """
    rounds = _after(timing, switch)
    usual = median([seconds for seconds, _ in rounds[WITHIN_ROUNDS:]])
    drafted = [place for place, (_, tokens) in enumerate(rounds[:WITHIN_ROUNDS]) if tokens > 1]
    if on:
        first = drafted[0] if drafted else 0
        switched = max(seconds for seconds, _ in rounds[max(0, first - 1) : first + 1])
    else:
        switched = rounds[drafted[-1] + 1 if drafted else 0][0]
    return (switched - usual) / usual


def _after(timing: Timing, switch: int) -> list[tuple[float, int]]:
    """Return seconds and tokens of the first request's rounds from one switch to the next or to the end."""
    end_s = (*timing.switched_s[switch + 1 :], timing.at_s[-1])[0]
    rounds = zip(timing.at_s, timing.at_s[1:], timing.chunk_tokens[1:], strict=False)
    return [
        (later - earlier, tokens) for earlier, later, tokens in rounds if timing.switched_s[switch] <= later <= end_s
    ]
