"""Steps in virtual time, looked at while some of their responses still run."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tlt_bench.forecast.lengths import WORKLOADS, Workload
from tlt_bench.ratios import Figures
from tlt_bench.result import Result
from tlt_common.forecast import LEVELS, Forecaster, Running
from tlt_simulator.traces.drawn import Drawn

STEPS = 10
FIRST_STEPS = 2
"""Steps from which is only learned."""
RECENT_STEPS = 3
"""Steps whose lengths are the plain distribution."""
LOOKS = (0.5, 0.25, 0.125, 0.06, 0.03)
"""Shares of a step's responses that still run at the looks."""
LEARN_EVERY = 16
"""Responses between two looks that only learn."""
REPEATS = 5
LOW, HIGH = LEVELS.index(0.1), LEVELS.index(0.9)


@dataclass(slots=True)
class Tally:
    """Forecasts against what came."""

    inside: list[bool] = field(default_factory=list)
    """For each forecast of a response, whether it was in the interval of 80 %."""
    ends_inside: list[bool] = field(default_factory=list)
    """The same for the end of the step, while it was not certain."""
    errors: list[float] = field(default_factory=list)
    """Tokens between the median and what came."""
    plain_errors: list[float] = field(default_factory=list)
    """The same with the median of the lengths of recent steps that are longer than what was generated."""


def measure() -> Result:
    """Forecast the steps of all workloads."""
    found = Figures()
    tallies = {workload: [played(workload, seed=seed) for seed in range(REPEATS)] for workload in WORKLOADS}
    for workload, repeats in tallies.items():
        found.add(f"coverage_80_{workload.name}", [_share(one.inside) for one in repeats])
        found.add(f"forecast_vs_lengths_{workload.name}", [_gain(one) for one in repeats])
        ends = [inside for one in repeats for inside in one.ends_inside]
        if ends:
            found.add(f"end_coverage_80_{workload.name}", [_share(ends)], f"{len(ends)} ends of steps that were open")
    every = [one for repeats in tallies.values() for one in repeats]
    found.add("coverage_80", [_share(one.inside) for one in every], "share of responses within the 80 % interval")
    found.add(
        "forecast_vs_lengths", [_gain(one) for one in every], "mean error of medians ÷ that of the lengths of 3 steps"
    )
    return Result(name="forecast", figures=found.figures, spread=found.spread, repeats=REPEATS, notes=found.notes)


def played(workload: Workload, *, seed: int, prompts: int = 64, group: int = 8, steps: int = STEPS) -> Tally:
    """Play steps whose responses all begin at once and get a token at a time; forecast at LOOKS."""
    forecaster, tally, recent = Forecaster(), Tally(), list[list[int]]()
    drawn = workload.drawn(prompts=prompts, group=group, of=4 * prompts, steps=steps, seed=seed)
    for number, responses in enumerate(drawn):
        order = sorted(responses, key=lambda one: one.length)
        plain = sorted(length for lengths in recent[-RECENT_STEPS:] for length in lengths)
        for left in _learned(forecaster, order, workload.cap):
            if number >= FIRST_STEPS and forecaster.ready:
                _compare(forecaster, left, order[-len(left) - 1].length, workload.cap, plain, tally)
        recent.append([one.length for one in order])
    return tally


def _learned(forecaster: Forecaster, order: Sequence[Drawn], cap: int) -> Iterator[Sequence[Drawn]]:
    """Let the responses of a step finish; yield those that run at each of LOOKS."""
    looks = {round(len(order) * (1.0 - share)) for share in LOOKS}
    for done, response in enumerate(order, 1):
        forecaster.finished(Running(prompt=response.prompt, generated=response.length, cap=cap), ended=response.ends)
        if done in looks or done % LEARN_EVERY == 0 or done == len(order):
            forecaster.look(running_at(order[done:], response.length, cap))
            if done in looks:
                yield order[done:]


def running_at(responses: Sequence[Drawn], generated: int, cap: int) -> list[Running]:
    """Return responses with so many tokens each."""
    return [Running(prompt=one.prompt, generated=min(generated, one.length), cap=cap) for one in responses]


def _compare(
    forecaster: Forecaster, left: Sequence[Drawn], now: int, cap: int, plain: Sequence[int], tally: Tally
) -> None:
    running = running_at(left, now, cap)
    first = bisect_right(plain, now)
    longer = plain[first:] or [cap]
    for response, forecast in zip(left, forecaster.left(running), strict=True):
        came = response.length - now
        tally.inside.append(forecast.tokens[LOW] - 1 <= came <= forecast.tokens[HIGH] + 1)
        tally.errors.append(abs(forecast.median - came))
        tally.plain_errors.append(abs(longer[len(longer) // 2] - now - came))
    low, high = forecaster.ends(running, [1.0] * len(running), (0.1, 0.9))
    if high - low > 1.0:  # otherwise the cap decides
        tally.ends_inside.append(low <= max(one.length for one in left) - now <= high)


def _share(inside: Sequence[bool]) -> float:
    return sum(inside) / len(inside)


def _gain(tally: Tally) -> float:
    return sum(tally.errors) / sum(tally.plain_errors)
