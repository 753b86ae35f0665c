"""A sweep: all combinations of values, with several seeds each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tlt_simulator.scenario import Scenario
from tlt_simulator.sweep.grid import combinations, scenarios
from tlt_simulator.sweep.outcome import SweepOutcome, Variant
from tlt_simulator.sweep.outcomes import outcomes
from tlt_simulator.sweep.results_file import ResultsFile, key_of
from tlt_simulator.sweep.rows import SweepRow, rows_of
from tlt_simulator.trace import TraceStep


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
