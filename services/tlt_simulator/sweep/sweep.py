"""A sweep: all combinations of the values of `--over`, with several seeds each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tlt_common.errors import ConfigError
from tlt_simulator.scenario import Scenario
from tlt_simulator.sweep.keys import changed, own_name
from tlt_simulator.sweep.outcomes import SweepOutcome, Variant, outcomes
from tlt_simulator.sweep.results_file import ResultsFile, key_of
from tlt_simulator.sweep.rows import SweepRow, rows_of
from tlt_simulator.trace import TraceStep

MAX_COMBINATIONS = 10_000

Changes = Mapping[str, str]
"""Values as text, by key."""


def grid(options: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """
    Return the values of each key in options KEY=V1,V2 .... Values with commas are bracketed: [off,chain-3] or
    {"8":32,"16":16}.

    Raises:
        ConfigError: An option has another form, or a key or a value is repeated.
    """
    found = dict[str, tuple[str, ...]]()
    for text in options:
        given, equals, listed = text.partition("=")
        key = own_name(given)
        values = tuple(_values(listed))
        if not (given and equals and values and all(values)):
            raise ConfigError(f"--over {text}: accepted: KEY=VALUE1,VALUE2,...", field="over")
        if key in found:
            raise ConfigError(f"--over {given} is repeated; accepted: all values of a key in one option", field="over")
        if twice := [value for place, value in enumerate(values) if value in values[:place]]:
            raise ConfigError(f"--over {given} has {twice[0]} twice; accepted: each value once", field="over")
        found[key] = values
    return found


def combinations(over: Mapping[str, Sequence[str]]) -> tuple[dict[str, str], ...]:
    """
    Return all combinations of values. The last key changes fastest.

    Raises:
        ConfigError: There are too many combinations.
    """
    count = 1
    for values in over.values():
        count *= len(values)
    if count > MAX_COMBINATIONS:
        raise ConfigError(f"--over makes {count:,} combinations; accepted: at most {MAX_COMBINATIONS:,}", field="over")
    return tuple(dict(zip(over, values, strict=True)) for values in product(*over.values()))


def scenarios(base: Scenario, all_changes: Sequence[Changes]) -> tuple[Scenario, ...]:
    """
    Return the scenario of each combination, so that an invalid value is refused before anything runs.

    Raises:
        ConfigError: A key is unknown, or a value is not accepted.
    """
    return tuple(changed(base, changes, option="--over") for changes in all_changes)


def _values(listed: str) -> list[str]:
    values, depth = [""], 0
    for letter in listed:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth:
            values.append("")
        else:
            values[-1] += letter
    return [_without_brackets(value.strip()) for value in values]


def _without_brackets(value: str) -> str:
    """Remove the brackets of a list of names, which configurations accept with commas. JSON is unchanged."""
    inside = value[1:-1]
    return inside if value.startswith("[") and value.endswith("]") and '"' not in inside and inside else value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    changes: Mapping[str, str]
    seed: int
    scenario: Scenario

    @property
    def name(self) -> str:
        return key_of(self.changes, self.seed)


class Sweep:
    """The variants of a sweep. Everything is checked before anything runs."""

    def __init__(self, base: Scenario, over: Mapping[str, Sequence[str]], *, seeds: int) -> None:
        """
        Args:
            base: The scenario to vary; its seed is the first.
            over: Values of each key, as text.
            seeds: Number of seeds per combination.

        Raises:
            ConfigError: A key is unknown, a value is not accepted, or there are too many combinations.
        """
        self._all_changes = combinations(over)
        changed = scenarios(base, self._all_changes)
        self._points = tuple(
            _Point(changes=changes, seed=seed, scenario=scenario.model_copy(update={"seed": seed}))
            for changes, scenario in zip(self._all_changes, changed, strict=True)
            for seed in range(base.seed, base.seed + seeds)
        )

    def __len__(self) -> int:
        return len(self._points)

    def run(
        self,
        steps: Sequence[TraceStep],
        *,
        processes: int,
        results: ResultsFile | None = None,
        progress: Callable[[int], None] = lambda _: None,
    ) -> tuple[SweepRow, ...]:
        """
        Simulate the variants missing from `results`, and return a row per combination.

        Args:
            steps: The trace.
            processes: Number of concurrent simulations.
            results: The file to read results from and write them to.
            progress: Called with the number of finished simulations.

        Raises:
            ConfigError: Results cannot be written.
        """
        found = dict[str, SweepOutcome]()
        if results is not None:
            known = ((point.name, results.get(point.changes, point.seed)) for point in self._points)
            found |= {name: outcome for name, outcome in known if outcome is not None}
        progress(len(found))
        missing = {point.name: point for point in self._points if point.name not in found}
        variants = [Variant(name=name, scenario=point.scenario) for name, point in missing.items()]
        for variant, outcome in outcomes(variants, steps, processes=processes):
            found[variant.name] = outcome
            if results is not None:
                point = missing[variant.name]
                results.put(point.changes, point.seed, outcome)
            progress(len(found))
        by_changes = [
            (changes, [found[point.name] for point in self._points if point.changes is changes])
            for changes in self._all_changes
        ]
        return rows_of(by_changes)
