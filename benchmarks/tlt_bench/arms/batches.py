"""
The bandit and each of its arms compared to off, by batch size, which shows the cost of choosing where speculation does
not pay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from tlt_bench.arms.same_pace import TraceReader, over_off
from tlt_bench.engines.bench_engine import SPEEDS, BenchEngine, alternated, log
from tlt_bench.engines.commands import Counters, Generate, Timing
from tlt_bench.ratios import Figures, best, over
from tlt_common.bandit.round_trace import TracedRound

BANDIT = "bandit"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesPlan:
    """Amount of measurement: tokens of a response and repeats by batch size."""

    tokens: dict[int, int]
    repeats: int
    warm_tokens: int
    """
    Tokens of a response before the measured ones, during which the bandit learns its arms: in production it meets a
    drafter once and decodes with it for minutes.
    """


COMPARED = 6
"""What a plan's repeats are meant for: the bandit and five arms. Fewer are repeated more often in the same time."""

FULL = BatchesPlan(tokens={1: 256, 4: 256, 8: 256, 16: 192}, repeats=4, warm_tokens=96)
QUICK = BatchesPlan(tokens={1: 128, 8: 128}, repeats=2, warm_tokens=64)


async def measure_batches(
    engine: BenchEngine, arms: Sequence[str], plan: BatchesPlan, trace: TraceReader | None = None
) -> Figures:
    """
    Measure the bandit and all arms in turn at each batch size.

    Args:
        engine: A running engine with these arms.
        arms: Arms; `off` among them.
        plan: Amount of measurement.
        trace: Reads the engine's trace, for `bandit_over_off_same_pace_bs…`; None if the engine writes none.
    """
    found, names = Figures(), (BANDIT, *arms)
    repeats = plan.repeats * max(1, COMPARED // len(names))
    for batch in plan.tokens:
        log(f"bandit and arms at batch {batch}")
        measured = await alternated(names, repeats, partial(_timed, engine, plan, batch, len(names), trace))
        timings = {name: [each.timing for each in runs] for name, runs in measured.items()}
        counts = [each.counted for each in measured[BANDIT]]
        switches, caught_up = (sum(each.switches for each in counts), sum(each.caught_up_tokens for each in counts))
        found.merge(figures_at(batch, timings))
        if paced := [ratio for each in measured[BANDIT] if (ratio := over_off(each.rounds)) is not None]:
            found.add(f"{BANDIT}_over_off_same_pace_bs{batch}", paced)
        rounds = sum(max(timing.rounds) for timing in timings[BANDIT])
        found.notes[f"bandit_bs{batch}"] = (
            f"{switches} changes of the arm in {rounds} rounds; the drafter caught up with {caught_up} tokens"
        )
    return found


class _Run(NamedTuple):
    timing: Timing
    counted: Counters
    rounds: Sequence[TracedRound]


async def _timed(
    engine: BenchEngine,
    plan: BatchesPlan,
    batch: int,
    sides: int,
    trace: TraceReader | None,
    name: str,
    repeat: int,
    place: int,
) -> _Run:
    await engine.force_arms(*() if name == BANDIT else (name,))
    # Separate prompts: otherwise earlier responses to the same prompt would be retrieved.
    prompts = engine.task.hard(batch, seed=1000 * batch + repeat * sides + place)
    length = plan.tokens[batch] if repeat else plan.warm_tokens
    timing = await engine.generate(Generate(prompts=prompts, max_new_tokens=(length,) * batch))
    # After each arm: it takes a second, and a shared CPU that idled runs at another speed than a busy one.
    counted = await engine.counters()
    return _Run(timing, counted, [] if trace is None else trace.new(batch))


def figures_at(batch: int, timings: Mapping[str, Sequence[Timing]]) -> Figures:
    """Return the figures of one batch size, given timings by name: of the bandit, of off, and of other arms."""
    found, suffix = Figures(), f"bs{batch}"
    for kind, speed in SPEEDS.items():
        speeds = {name: [speed(each) for each in answers] for name, answers in timings.items()}
        bandit = speeds.pop(BANDIT)
        for arm, mine in speeds.items():
            if arm != "off":
                found.add(f"{arm}_over_off{kind}_{suffix}", over(mine, speeds["off"]))
        fastest = best(speeds)
        found.add(f"{BANDIT}_over_off{kind}_{suffix}", over(bandit, speeds["off"]))
        found.add(f"{BANDIT}_over_best{kind}_{suffix}", over(bandit, speeds[fastest]))
        found.notes[f"best_arm{kind}_{suffix}"] = fastest
    for name, answers in timings.items():
        if name != "off":
            found.add(f"{name}_accept_{suffix}", [each.accept_length for each in answers])
    return found
