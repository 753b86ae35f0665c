"""The suite's engine with speculation off against SGLang without speculation, and against a second such engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tlt_bench.engines.bench_engine import SPEEDS, BenchEngine, in_turn, log, started
from tlt_bench.engines.commands import Timing
from tlt_bench.ratios import Figures, interval, over, overlap


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPlan:
    """
    Amount of measurement.

    Turns are short, so that noise affects all engines alike. Engines are started several times because two of the same
    kind differ by up to a tenth for as long as they run, depending on memory placement.
    """

    starts: int
    tokens: int
    repeats: dict[int, int]
    """Repeats per start, by batch size."""


FULL = OffPlan(starts=4, tokens=14, repeats={1: 20, 8: 14, 32: 8})
QUICK = OffPlan(starts=1, tokens=14, repeats={1: 6, 8: 6, 32: 4})

Rows = Sequence[Timing]


async def measure_off(ours: BenchEngine, plain: BenchEngine, control: BenchEngine, *, quick: bool) -> Figures:
    """
    Measure the decode speed of three engines in turn, in an order that changes with each repeat.

    Measured by elapsed time and (`_cpu`) by CPU time, which other load on the machine affects less.
    """
    plan = QUICK if quick else FULL
    found, sides = Figures(), (ours, plain, control)
    timings: dict[int, list[list[Rows]]] = {batch: [] for batch in plan.repeats}
    for start in range(plan.starts):
        log(f"off against plain, start {start + 1} of {plan.starts}")
        async with started(*sides):
            await ours.force_arms("off")
            for batch, repeats in plan.repeats.items():
                log(f"batch {batch}")
                timings[batch].append(await in_turn(sides, batch, plan.tokens, repeats))
    for batch, starts in timings.items():
        for what, speed in SPEEDS.items():
            _judge(found, f"{what}_bs{batch}", [[list(map(speed, rows)) for rows in start] for start in starts])
    return found


def _judge(found: Figures, suffix: str, starts: Sequence[Sequence[list[float]]]) -> None:
    """Compare speeds, indexed by start, side and repeat."""
    off = [over(ours, plain) for ours, plain, _ in starts]
    controls = [over(control, plain) for _, plain, control in starts]
    found.add(f"off_vs_plain{suffix}", [each for start in off for each in start])
    found.add(f"control{suffix}", [each for start in controls for each in start])
    mine, theirs = (interval([each for start in ratios for each in start]) for ratios in (off, controls))
    verdict = "indistinguishable" if overlap(mine, theirs) else "distinguishable"
    found.notes[f"off_vs_plain{suffix}"] = (
        f"95 % interval of the median {mine[0]:.3f} to {mine[1]:.3f}, of the control {theirs[0]:.3f} to "
        f"{theirs[1]:.3f}: off is {verdict} from a second plain engine; medians per start {_medians(off)}, of the "
        f"control {_medians(controls)}"
    )


def _medians(starts: Sequence[Sequence[float]]) -> str:
    return ", ".join(f"{median(ratios):.3f}" for ratios in starts)
