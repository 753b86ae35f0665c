"""Sensitivity of the result, one at a time, to each number with an interval and to the shape of the run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from tlt_simulator.costs.figure import CostFigure
from tlt_simulator.report.provenance import named_figures
from tlt_simulator.report.sample import Steps, said
from tlt_simulator.report.words import figure_text
from tlt_simulator.scenario import Scenario
from tlt_simulator.sweep.keys import set_figure
from tlt_simulator.sweep.outcomes import SweepOutcome, Variant, outcomes
from tlt_simulator.trace import RunTrace, TraceSample, TraceStep

TAIL_FACTORS = (0.7, 1.3)
"""For what a response has above the median."""
QUALITY = 0.1
"""Taken off, and added to, the probability that a drafter's first draft is accepted."""
MAX_ACCEPT = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """A lower and a higher variant."""

    name: str
    what: str
    low: str
    """Description of the lower end."""
    high: str
    lower: Callable[[Scenario, Steps], tuple[Scenario, Steps]]
    higher: Callable[[Scenario, Steps], tuple[Scenario, Steps]]


def variations(scenario: Scenario, cap: int) -> tuple[Variation, ...]:
    """
    Return the variations, to be applied one at a time.

    Args:
        scenario: The simulated scenario.
        cap: Maximum tokens of a response.
    """
    return (*_of_the_run(scenario, cap), *_of_figures(scenario))


def _of_figures(scenario: Scenario) -> Iterator[Variation]:
    for named in named_figures(scenario):
        if not named.has_interval:
            continue
        ends = (named.figure.least, named.figure.most)
        low, high = (figure_text(named.name, end) for end in ends)
        lower, higher = (_figure(named.name, end) for end in ends)
        what = f"{named.name} ({named.figure.source.value})"
        yield Variation(name=named.name, what=what, low=low, high=high, lower=lower, higher=higher)


def _figure(name: str, value: float) -> Callable[[Scenario, Steps], tuple[Scenario, Steps]]:
    return lambda scenario, steps: (set_figure(scenario, name, value), steps)


def _of_the_run(scenario: Scenario, cap: int) -> Iterator[Variation]:
    shorter, longer = TAIL_FACTORS
    yield Variation(
        name="tail",
        what="tail: what responses have above the median length",
        low=f"x {shorter:g}",
        high=f"x {longer:g}",
        lower=lambda found, steps: (found, scaled_tails(steps, shorter, cap)),
        higher=lambda found, steps: (found, scaled_tails(steps, longer, cap)),
    )
    yield Variation(
        name="drafter_quality",
        what="drafter quality: probability that a first draft is accepted",
        low=f"-{QUALITY:g}",
        high=f"+{QUALITY:g}",
        lower=lambda found, steps: (better_drafters(found, -QUALITY), steps),
        higher=lambda found, steps: (better_drafters(found, QUALITY), steps),
    )
    yield Variation(
        name="update_frequency",
        what="updates of the weights per response",
        low="half",
        high="twice",
        lower=lambda found, steps: (with_learning(found, 2.0), merged(steps)),
        higher=lambda found, steps: (with_learning(found, 0.5), divided(steps)),
    )
    workers = scenario.fleet.workers
    fewer, more = max(1, workers // 2), workers * 2
    yield Variation(
        name="fleet",
        what="fleet: number of workers",
        low=str(fewer),
        high=str(more),
        lower=lambda found, steps: (with_workers(found, fewer), steps),
        higher=lambda found, steps: (with_workers(found, more), steps),
    )


def scaled_tails(steps: Steps, factor: float, cap: int) -> Steps:
    """
    Return steps in which the part of each length above the overall median is multiplied by `factor`.

    A response that was cut at the cap is unchanged; one that becomes longer than the cap is cut.
    """
    middle = median(sample.tokens for step in steps for sample in step.samples)
    scaled = ([_scaled(sample, middle, factor, cap) for sample in step.samples] for step in steps)
    return tuple(replace(step, samples=tuple(samples)) for step, samples in zip(steps, scaled, strict=True))


def _scaled(sample: TraceSample, middle: float, factor: float, cap: int) -> TraceSample:
    if not sample.ends or sample.tokens <= middle:
        return sample
    tokens = round(middle + (sample.tokens - middle) * factor)
    return replace(sample, tokens=max(1, min(cap, tokens)), ends=tokens < cap)


def better_drafters(scenario: Scenario, by: float) -> Scenario:
    """Return a scenario in which first drafts of all drafters are accepted more or less often."""
    costs = scenario.costs
    for name in ("accept_start", "accept_public", "accept_best"):
        scenario = set_figure(scenario, f"costs.{name}", _probability(getattr(costs, name), by))
    return scenario


def _probability(figure: CostFigure, by: float) -> float:
    return min(max(MAX_ACCEPT, figure.value), max(0.0, figure.value + by))


def with_learning(scenario: Scenario, factor: float) -> Scenario:
    """Return a scenario in which the RL trainer's learning time is multiplied."""
    return set_figure(scenario, "trainer.learn_s", scenario.trainer.learn_s.value * factor)


def with_workers(scenario: Scenario, workers: int) -> Scenario:
    """Return a scenario with another number of workers."""
    return scenario.model_copy(update={"fleet": scenario.fleet.model_copy(update={"workers": workers})})


def merged(steps: Sequence[TraceStep]) -> Steps:
    """Return steps of twice as many responses. A last step without a partner is unchanged."""
    return tuple(
        TraceStep(samples=tuple(sample for step in steps[place : place + 2] for sample in step.samples))
        for place in range(0, len(steps), 2)
    )


def divided(steps: Sequence[TraceStep]) -> Steps:
    """Return steps of half as many prompts, each with all of its responses. A step with one prompt is unchanged."""
    return tuple(half for step in steps for half in _halves(step))


def _halves(step: TraceStep) -> tuple[TraceStep, ...]:
    prompts = list(dict.fromkeys(sample.prompt for sample in step.samples))
    first = set(prompts[::2])
    both = [tuple(one for one in step.samples if (one.prompt in first) is is_first) for is_first in (True, False)]
    return tuple(TraceStep(samples=samples) for samples in both if samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swing:
    """Effect of one number on the result."""

    name: str
    what: str
    low: str
    """Description of its lower end."""
    high: str
    at_low: SweepOutcome
    at_high: SweepOutcome

    @property
    def width(self) -> float:
        """Difference of the two speedups."""
        return abs(self.at_high.speedup - self.at_low.speedup)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Effect of each number on the result, varied alone."""

    steps: str
    """Description of the simulated steps."""
    base: SweepOutcome
    """Result with nothing varied, on the same steps."""
    swings: tuple[Swing, ...]
    """Effects, the largest first."""


def count(scenario: Scenario, cap: int) -> int:
    """Return the number of simulations of both sides."""
    return 2 * len(variations(scenario, cap)) + 1


def sensitivity(
    scenario: Scenario,
    trace: RunTrace,
    steps: Steps,
    *,
    processes: int,
    progress: Callable[[int], None] = lambda _: None,
) -> Sensitivity:
    """
    Vary one number at a time: those with intervals, tails, drafters, updates and the fleet.

    Args:
        scenario: The scenario to vary.
        trace: The whole run.
        steps: Its steps on which variants are simulated.
        processes: Number of concurrent simulations.
        progress: Called with the number of finished simulations.
    """
    varied = variations(scenario, trace.cap)
    todo = [Variant(name="base", scenario=scenario)]
    for each in varied:
        todo += [_variant(f"{each.name} low", scenario, steps, each.lower)]
        todo += [_variant(f"{each.name} high", scenario, steps, each.higher)]
    found = dict[str, SweepOutcome]()
    for variant, outcome in outcomes(todo, steps, processes=processes):
        found[variant.name] = outcome
        progress(len(found))
    swings = [_swing(each, found) for each in varied]
    swings.sort(key=lambda swing: (-swing.width, swing.name))
    return Sensitivity(steps=said(steps, trace), base=found["base"], swings=tuple(swings))


def _variant(
    name: str, scenario: Scenario, steps: Steps, change: Callable[[Scenario, Steps], tuple[Scenario, Steps]]
) -> Variant:
    changed, own = change(scenario, steps)
    return Variant(name=name, scenario=changed, steps=None if own is steps else own)


def _swing(variation: Variation, found: dict[str, SweepOutcome]) -> Swing:
    return Swing(
        name=variation.name,
        what=variation.what,
        low=variation.low,
        high=variation.high,
        at_low=found[f"{variation.name} low"],
        at_high=found[f"{variation.name} high"],
    )
