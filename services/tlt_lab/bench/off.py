"""Our engine with drafts off, against SGLang without speculation, against another such engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tlt_lab.bench.order import Ask, Told
from tlt_lab.bench.ratios import Figures, interval, over, overlap
from tlt_lab.bench.sides import Side, say, started, turned
from tlt_lab.bench.workload import hard_prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPlan:
    """
    How much to measure.

    Turns are short, so that noise hits all alike. Engines are started several times over, since two of the same kind
    differ by up to a tenth for as long as they live, by where their memory happens to be.
    """

    starts: int
    tokens: int
    repeats: dict[int, int]
    """By batch size, for each start."""


FULL = OffPlan(starts=4, tokens=14, repeats={1: 20, 8: 14, 32: 8})
QUICK = OffPlan(starts=1, tokens=14, repeats={1: 6, 8: 6, 32: 4})

Rows = Sequence[Told]


async def measure_off(ours: Side, plain: Side, control: Side, plan: OffPlan) -> Figures:
    """
    Decode speed of three engines in turn, in an order that changes with each repeat.

    By time, and (`_cpu`) by processor time, which other programs on the machine disturb less.
    """
    found, sides = Figures(), (ours, plain, control)
    told: dict[int, list[list[Rows]]] = {batch: [] for batch in plan.repeats}
    for start in range(plan.starts):
        say(f"off against plain, start {start + 1} of {plan.starts}")
        async with started(*sides):
            await ours.force("off")
            for batch, repeats in plan.repeats.items():
                say(f"batch {batch}")
                told[batch].append(await _in_turn(sides, batch, plan.tokens, repeats))
    for batch, starts in told.items():
        for what, speed in (("", _by_time), ("_cpu", _by_processor_time)):
            _judge(found, f"{what}_bs{batch}", [[list(map(speed, rows)) for rows in start] for start in starts])
    return found


async def _in_turn(sides: Sequence[Side], batch: int, tokens: int, repeats: int) -> list[Rows]:
    """Return what each side told, repeat by repeat."""
    told: list[list[Told]] = [[] for _ in sides]
    for repeat in range(repeats + 1):
        ask = Ask(prompts=hard_prompts(batch, seed=repeat), max_new_tokens=(tokens,) * batch)
        for place in turned(range(len(sides)), repeat):
            answer = await sides[place].ask(ask)
            if repeat:  # the first warms caches
                told[place].append(answer)
    return list(told)


def _by_time(told: Told) -> float:
    return told.rate


def _by_processor_time(told: Told) -> float:
    return told.window_tokens / told.window_cpu_s


def _judge(found: Figures, suffix: str, starts: Sequence[Sequence[list[float]]]) -> None:
    """Compare speeds given by start, side and repeat."""
    off = [over(ours, plain) for ours, plain, _ in starts]
    controls = [over(control, plain) for _, plain, control in starts]
    found.add(f"off_vs_plain{suffix}", [each for start in off for each in start])
    found.add(f"control{suffix}", [each for start in controls for each in start])
    mine, theirs = (interval([each for start in ratios for each in start]) for ratios in (off, controls))
    same = "cannot" if overlap(mine, theirs) else "can"
    found.notes[f"off_vs_plain{suffix}"] = (
        f"95 % interval of the median {mine[0]:.3f} to {mine[1]:.3f}, of the control {theirs[0]:.3f} to "
        f"{theirs[1]:.3f}: off {same} be told from a second plain engine; medians of each start {_medians(off)}, of "
        f"the control {_medians(controls)}"
    )


def _medians(starts: Sequence[Sequence[float]]) -> str:
    return ", ".join(f"{median(ratios):.3f}" for ratios in starts)
