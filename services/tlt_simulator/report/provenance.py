"""Sources of a simulation's numbers, which every output states."""

from collections.abc import Iterator
from dataclasses import dataclass

from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.report.words import counted
from tlt_simulator.scenario import Scenario

MEANINGS = {
    Source.MEASURED: "measured on the machine that is simulated",
    Source.FITTED: "fitted to a recorded run",
    Source.PUBLISHED: "published by others, for this device and model",
    Source.CALCULATED: "calculated from published rates of the device and the sizes of the model",
    Source.ASSUMED: "assumed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFigure:
    """A named number of a simulation."""

    name: str
    """Name as accepted by `--set`."""
    figure: CostFigure

    @property
    def has_interval(self) -> bool:
        """Whether it has an interval."""
        return self.figure.least < self.figure.most


def named_figures(scenario: Scenario) -> tuple[NamedFigure, ...]:
    """Return all numbers of a scenario that have a source, by name."""
    return tuple(NamedFigure(name=name, figure=figure) for name, figure in _figures(scenario))


def _figures(scenario: Scenario) -> Iterator[tuple[str, CostFigure]]:
    yield "trainer.learn_s", scenario.trainer.learn_s
    if scenario.trainer.learn_token_s.value:
        yield "trainer.learn_token_s", scenario.trainer.learn_token_s
    for name, figure in scenario.costs.figures():
        yield f"costs.{name}", figure


def by_source(scenario: Scenario) -> dict[Source, tuple[NamedFigure, ...]]:
    """Return the numbers by source, the most reliable first."""
    known = named_figures(scenario)
    sources = {source: tuple(each for each in known if each.figure.source is source) for source in Source}
    return {source: found for source, found in sources.items() if found}


def summary(scenario: Scenario) -> str:
    """Return a sentence with the number of figures by source."""
    parts = [f"{len(found)} {source.value}" for source, found in by_source(scenario).items()]
    total = sum(len(found) for found in by_source(scenario).values())
    return f"Of {counted(total, 'number')} used here, {', '.join(parts)}."
