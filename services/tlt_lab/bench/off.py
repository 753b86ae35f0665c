"""Our engine with drafts off, against SGLang without speculation, against another such engine."""

from collections.abc import Sequence
from dataclasses import dataclass

from tlt_lab.bench.order import Ask, Told
from tlt_lab.bench.ratios import Figures, interval, over, overlap
from tlt_lab.bench.sides import Side, say
from tlt_lab.bench.workload import hard_prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPlan:
    """How long to measure: response lengths by batch size, and repeats."""

    tokens: dict[int, int]
    repeats: int


FULL = OffPlan(tokens={1: 48, 8: 32, 32: 24}, repeats=12)
QUICK = OffPlan(tokens={1: 24, 8: 24, 32: 16}, repeats=3)


async def measure_off(ours: Side, plain: Side, control: Side, plan: OffPlan) -> Figures:
    """
    Decode speed of three engines in turn, in an order that changes with each repeat.

    By time, and (`_cpu`) by processor time, which other programs on the machine disturb less.
    """
    found, sides = Figures(), (ours, plain, control)
    await ours.force("off")
    for batch, tokens in plan.tokens.items():
        say(f"off against plain, batch {batch}")
        told: dict[str, list[Told]] = {side.name: [] for side in sides}
        for repeat in range(plan.repeats + 1):
            ask = Ask(prompts=hard_prompts(batch, seed=repeat), max_new_tokens=(tokens,) * batch)
            for side in _turned(sides, repeat):
                answer = await side.ask(ask)
                if repeat:  # the first warms caches
                    told[side.name].append(answer)
        for what, speed in (("", _by_time), ("_cpu", _by_processor_time)):
            _judge(found, f"{what}_bs{batch}", *([speed(each) for each in told[side.name]] for side in sides))
    return found


def _turned(sides: Sequence[Side], by: int) -> list[Side]:
    return [sides[(place + by) % len(sides)] for place in range(len(sides))]


def _by_time(told: Told) -> float:
    return told.rate


def _by_processor_time(told: Told) -> float:
    return told.window_tokens / told.window_cpu_s


def _judge(found: Figures, suffix: str, ours: list[float], plain: list[float], control: list[float]) -> None:
    off, controls = over(ours, plain), over(control, plain)
    found.add(f"off_vs_plain{suffix}", off)
    found.add(f"control{suffix}", controls)
    mine, theirs = interval(off), interval(controls)
    same = "cannot" if overlap(mine, theirs) else "can"
    found.notes[f"off_vs_plain{suffix}"] = (
        f"95 % interval of the median {mine[0]:.3f} to {mine[1]:.3f}, of the control {theirs[0]:.3f} to "
        f"{theirs[1]:.3f}: off {same} be told from a second plain engine"
    )
