"""Recommended settings: configuration keys for which a small sweep finds values better than the current ones."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tlt_common.errors import ConfigError
from tlt_simulator.report.sample import Steps, said
from tlt_simulator.scenario import Scenario
from tlt_simulator.sweep.keys import changed, product_name
from tlt_simulator.sweep.outcomes import Variant, outcomes
from tlt_simulator.sweep.rows import FLOOR, is_shorter
from tlt_simulator.trace import RunTrace

SEEDS = 3
TRIED: Mapping[str, tuple[str, ...]] = {
    "spot.max_trainers": ("null", "1", "2", "4"),
    "gateway.pack_running": ("0", "10", "16"),
    "engine.speculate_below_requests": ("32", "64", "128", "256"),
    "publish.every_tokens": ("8192", "32768", "131072"),
    "publish.gain": ("0.01", "0.02", "0.05"),
}
"""Values tried for each key; those that stay as they are set are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedValue:
    """A tried value of a key, with all others unchanged."""

    key: str
    value: str
    gain: float
    """Share by which the run becomes shorter; negative if longer. From one seed, unless it was promising."""
    is_beyond_noise: bool
    """Whether the gain exceeds the noise between seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatToSet:
    """Result of the small sweep."""

    steps: str
    """Description of the simulated steps."""
    seeds: int
    tried: tuple[TriedValue, ...]
    chosen: Mapping[str, str]
    """Recommended values by key; empty if none is better beyond noise."""
    gain: float
    """Share by which the run becomes shorter with all recommended values; 0 without any."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The settings as options of `tlt up`."""
        return tuple(f"--set {product_name(key)}={value}" for key, value in self.chosen.items())


def count() -> int:
    """Return the approximate number of simulations. Those without the suite are shared by all."""
    return 2 * SEEDS + sum(len(values) for values in TRIED.values())


def what_to_set(
    scenario: Scenario,
    trace: RunTrace,
    steps: Steps,
    *,
    processes: int,
    progress: Callable[[int], None] = lambda _: None,
) -> WhatToSet:
    """
    Try values of one key at a time, then all better ones together, if they are better beyond noise.

    Args:
        scenario: The scenario with its current settings.
        trace: The whole run.
        steps: Its steps that are simulated.
        processes: Number of concurrent simulations.
        progress: Called with the number of finished simulations.
    """
    runs = _Runs(scenario, steps, processes, progress)
    options = [option for option in _options() if _is_other(scenario, option)]
    screened = runs.durations([{}, *options], seeds=1)
    promising = [
        option for option, seconds in zip(options, screened[1:], strict=True) if _gain(seconds, screened[0]) > FLOOR
    ]
    base, *found = runs.durations([{}, *promising], seeds=SEEDS)
    confirmed = {_told(option): seconds for option, seconds in zip(promising, found, strict=True)}
    tried = [
        TriedValue(
            key=key,
            value=value,
            gain=_gain(confirmed.get((key, value), seconds), base if (key, value) in confirmed else screened[0]),
            is_beyond_noise=(key, value) in confirmed and is_shorter(confirmed[key, value], base),
        )
        for option, seconds in zip(options, screened[1:], strict=True)
        for key, value in option.items()
    ]
    chosen = dict[str, str]()
    for one in sorted((one for one in tried if one.is_beyond_noise), key=lambda one: -one.gain):
        chosen.setdefault(one.key, one.value)
    chosen, gain = _together(runs, base, chosen, tried)
    return WhatToSet(steps=said(steps, trace), seeds=SEEDS, tried=tuple(tried), chosen=chosen, gain=gain)


def _options() -> Iterator[dict[str, str]]:
    for key, values in TRIED.items():
        yield from ({key: value} for value in values)


def _is_other(scenario: Scenario, option: Mapping[str, str]) -> bool:
    """Whether an option changes the scenario, and the model fits with it."""
    try:
        return changed(scenario, option) != scenario
    except ConfigError:
        return False


def _told(option: Mapping[str, str]) -> tuple[str, str]:
    ((key, value),) = option.items()
    return key, value


def _together(
    runs: "_Runs", base: Sequence[float], chosen: Mapping[str, str], tried: Sequence[TriedValue]
) -> tuple[dict[str, str], float]:
    """Return the combination of the better values, or its best single value if the combination is not better."""
    if not chosen:
        return {}, 0.0
    key, value = next(iter(chosen.items()))
    single = next(one.gain for one in tried if (one.key, one.value) == (key, value))
    if len(chosen) == 1:
        return {key: value}, single
    (seconds,) = runs.durations([chosen], seeds=SEEDS)
    together = _gain(seconds, base)
    return (dict(chosen), together) if together > single else ({key: value}, single)


def _gain(seconds: Sequence[float], base: Sequence[float]) -> float:
    return 1.0 - sum(seconds) / sum(base)


class _Runs:
    """Durations with the suite, by seed."""

    def __init__(self, scenario: Scenario, steps: Steps, processes: int, progress: Callable[[int], None]) -> None:
        self._scenario, self._steps, self._processes, self._progress = scenario, steps, processes, progress
        self._known = dict[str, float]()

    def durations(self, options: Sequence[Mapping[str, str]], *, seeds: int) -> list[tuple[float, ...]]:
        """Return durations in the order of the options, one per seed. Earlier simulations are reused."""
        first = self._scenario.seed
        wanted = [[f"{dict(option)} {seed}" for seed in range(first, first + seeds)] for option in options]
        missing = [
            Variant(name=name, scenario=changed(self._scenario, option).model_copy(update={"seed": seed}))
            for option, names in zip(options, wanted, strict=True)
            for seed, name in enumerate(names, start=first)
            if name not in self._known
        ]
        for variant, outcome in outcomes(missing, self._steps, processes=self._processes):
            self._known[variant.name] = outcome.with_suite.seconds
            self._progress(len(self._known))
        return [tuple(self._known[name] for name in names) for names in wanted]
