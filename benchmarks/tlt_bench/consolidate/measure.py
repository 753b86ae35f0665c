"""Paired steps: the same responses with and without moves."""

from statistics import fmean

from tlt_bench.consolidate.devices import H100_7B
from tlt_bench.consolidate.steps import ByCurve, Fixed, PlayedStep, Rule, Stay, play
from tlt_bench.forecast.lengths import WORKLOADS, Workload
from tlt_bench.ratios import Figures, interval
from tlt_bench.result import Result

WORKERS = 8
PROMPTS, GROUP = 64, 8
STEPS = 6
"""The first is only learned from."""
SEEDS = 4
SHORT_TOKENS = 2000
SIDES: dict[str, type[Stay] | type[Fixed] | type[ByCurve]] = {"off": Stay, "fixed": Fixed, "curve": ByCurve}


def measure(*, quick: bool = False) -> Result:
    """Play the steps of all workloads under each rule."""
    pairs = [
        pair
        for workload in WORKLOADS[: 1 if quick else None]
        for seed in range(1 if quick else SEEDS)
        for pair in played(workload, seed=seed, steps=3 if quick else STEPS)
    ]
    found = Figures()
    for side, figure in (("curve", ""), ("fixed", "fixed_")):
        ratios = [pair[side].seconds / pair["off"].seconds for pair in pairs]
        found.add(f"{figure}tail_ratio", [fmean(ratios)], "mean of whole steps, on ÷ off; spread: of single steps")
        found.spread[f"{figure}tail_ratio"] = (min(ratios), max(ratios))
        found.add(f"{figure}tail_ratio_median", ratios)
        found.spread[f"{figure}tail_ratio_median"] = interval(ratios)
        found.add(f"{figure}moves", [fmean(pair[side].moved for pair in pairs)], "per step")
        short = [left < SHORT_TOKENS for pair in pairs for left in pair[side].moved_left]
        found.add(f"{figure}short_moves", [fmean(short) if short else 0.0], f"share with under {SHORT_TOKENS} left")
    for side in SIDES:
        idle_s = sum(pair[side].idle_s for pair in pairs)
        share = idle_s / sum(pair[side].seconds * WORKERS for pair in pairs)
        found.add("freed_share" if side == "curve" else f"{side}_freed_share", [share])
    found.notes["freed_share"] = "share of device-seconds in which a worker runs no request before the step ends"
    found.notes["device"] = H100_7B.name
    return Result(name="consolidate", figures=found.figures, spread=found.spread, repeats=len(pairs), notes=found.notes)


def played(workload: Workload, *, seed: int, steps: int) -> list[dict[str, PlayedStep]]:
    """Return the steps after the first, each under all rules."""
    rules: dict[str, Rule] = {side: rule() for side, rule in SIDES.items()}
    drawn = workload.drawn(prompts=PROMPTS, group=GROUP, of=4 * PROMPTS, steps=steps, seed=seed)
    pairs = [
        {side: play(responses, rule, H100_7B, workers=WORKERS, cap=workload.cap) for side, rule in rules.items()}
        for responses in drawn
    ]
    return pairs[1:]
