"""Small sweeps of the real simulation."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.tlt_simulator.comparisons import scenario, trace
from tlt_simulator.report.sensitivity import with_workers
from tlt_simulator.run import simulate
from tlt_simulator.sweep.keys import set_figure
from tlt_simulator.sweep.outcomes import SUITE_COSTS, SideOutcome, Variant, outcomes
from tlt_simulator.sweep.results_file import ResultsFile, SweptScenario
from tlt_simulator.sweep.sweep import Sweep, grid

TRACE = trace(steps=2, prompts=4, samples=2)
OVER = grid(["spot.max_trainers=1,2"])


class Interrupted(Exception):  # noqa: N818
    pass


def test_a_row_per_combination_and_an_outcome_per_seed() -> None:
    told = list[int]()
    rows = Sweep(scenario(), OVER, seeds=2).run(TRACE.steps, processes=1, progress=told.append)
    assert [dict(row.changes) for row in rows] == [{"spot.max_trainers": "1"}, {"spot.max_trainers": "2"}]
    assert [len(row.outcomes) for row in rows] == [2, 2]
    assert told == [0, 1, 2, 3, 4]
    changed = scenario().model_copy(update={"seed": 1})
    assert rows[0].outcomes[1].without == SideOutcome.of(simulate(TRACE.steps, changed.plain))


def test_processes_change_nothing() -> None:
    sweep = Sweep(scenario(), OVER, seeds=1)
    assert sweep.run(TRACE.steps, processes=2) == sweep.run(TRACE.steps, processes=1)


def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    path, swept = tmp_path / "results.jsonl", SweptScenario(scenario=scenario(), trace=TRACE)
    sweep = Sweep(scenario(), OVER, seeds=2)

    def interrupt(done: int) -> None:
        if done == 2:
            raise Interrupted

    with pytest.raises(Interrupted), ResultsFile(path, swept, resume=False) as results:
        sweep.run(TRACE.steps, processes=1, results=results, progress=interrupt)
    told = list[int]()
    with ResultsFile(path, swept, resume=True) as results:
        rows = sweep.run(TRACE.steps, processes=1, results=results, progress=told.append)
    assert told == [2, 3, 4]
    assert rows == sweep.run(TRACE.steps, processes=1)


def test_an_interrupt_ends_the_processes() -> None:
    variants = [Variant(name=str(place), scenario=scenario(seed=place)) for place in range(6)]
    found = iter(outcomes(variants, TRACE.steps, processes=2))
    next(found)
    assert isinstance(found, Iterator)
    found.close()  # type: ignore[attr-defined]
    with pytest.raises(StopIteration):
        next(found)


@pytest.mark.parametrize("name", sorted(SUITE_COSTS))
def test_the_side_without_the_suite_does_not_depend_on_what_is_shared(name: str) -> None:
    base, other = scenario().plain, set_figure(scenario(), f"costs.{name}", 0.123).plain
    assert SideOutcome.of(simulate(TRACE.steps, other)) == SideOutcome.of(simulate(TRACE.steps, base))


def test_variants_with_other_fleets_do_not_share_it() -> None:
    variants = [Variant(name=str(workers), scenario=with_workers(scenario(), workers)) for workers in (1, 4)]
    found = {variant.name: outcome for variant, outcome in outcomes(variants, TRACE.steps, processes=1)}
    assert found["1"].without.seconds > found["4"].without.seconds
