"""Arms of the suite's engine compared to SGLang's own speculation with the same drafter, steps and tokens to verify."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tlt_bench.engines.bench_engine import BenchEngine, in_turn, log, started
from tlt_bench.engines.commands import Timing
from tlt_bench.ratios import Figures, over


@dataclass(frozen=True, slots=True, kw_only=True)
class VersusPlan:
    """Amount of measurement: response length, and repeats by batch size."""

    tokens: int
    repeats: dict[int, int]


FULL = VersusPlan(tokens=96, repeats={1: 6, 4: 4, 16: 3})
QUICK = VersusPlan(tokens=48, repeats={1: 2, 4: 2, 16: 1})


async def measure_versus(ours: BenchEngine, stock: Mapping[str, BenchEngine], *, quick: bool) -> Figures:
    """
    Measure each arm of `stock` in turn with SGLang's engine of that arm.

    SGLang drafts the most likely tokens where our arms sample drafts, so accept lengths differ; the ratio of round
    times is the relative cost of our rounds.
    """
    plan = QUICK if quick else FULL
    found = Figures()
    for arm, theirs in stock.items():
        log(f"{arm} against SGLang's own")
        async with started(ours, theirs):
            await ours.force_arms(arm)
            for batch, repeats in plan.repeats.items():
                mine, other = await in_turn((ours, theirs), batch, plan.tokens, repeats)
                _judge(found, f"{arm}_bs{batch}", mine, other)
    return found


def _judge(found: Figures, name: str, mine: Sequence[Timing], other: Sequence[Timing]) -> None:
    found.add(f"vs_stock_{name}", over([each.rate for each in mine], [each.rate for each in other]))
    found.add(f"vs_stock_round_{name}", over([each.round_s for each in other], [each.round_s for each in mine]))
    lengths = [[each.accept_length for each in side] for side in (mine, other)]
    found.add(f"vs_stock_accept_{name}", over(*lengths))
