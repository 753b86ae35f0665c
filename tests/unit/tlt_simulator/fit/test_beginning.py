"""A run that began with a drafter is simulated with one as good."""

import pytest

from tests.unit.tlt_simulator.run.scenarios import costs
from tlt_common.journal.coordinator_lines import DrafterLine
from tlt_simulator.fit.acceptance import DrafterQuality
from tlt_simulator.fit.fitting import began_with

COSTS = costs(accept_start=0.6, accept_best=0.9, learn_half_tokens=100_000.0)


def line(version: int, tokens: int) -> DrafterLine:
    return DrafterLine(
        at=1.0, version=version, base=version - 1, worker="w", top1=0.5, base_top1=None, policy=0, tokens=tokens
    )


def quality(version: int, chance: float, requests: float = 100.0) -> DrafterQuality:
    return DrafterQuality(version=version, policy=0, chance=chance, requests=requests)


@pytest.mark.parametrize("chance", [0.65, 0.75, 0.85])
def test_it_has_learned_what_it_got_accepted(chance: float) -> None:
    found, tokens = began_with([line(1, 0), line(2, 5000)], [quality(1, chance), quality(2, 0.9)], COSTS)
    assert found.quality(tokens, 0.0) == pytest.approx(chance)


def test_one_better_than_the_best_known_raises_the_best() -> None:
    found, tokens = began_with([line(1, 0)], [quality(1, 0.97)], COSTS)
    assert found.accept_best.value == 0.97
    assert found.quality(tokens, 0.0) == pytest.approx(0.97, abs=0.01)


def test_what_the_fleet_made_itself_was_not_there_before() -> None:
    assert began_with([line(1, 5000)], [quality(1, 0.8)], COSTS) == (COSTS, 0.0)
    assert began_with([line(1, 0)], [], COSTS) == (COSTS, 0.0)


def test_a_useless_one_has_learned_nothing() -> None:
    assert began_with([line(1, 0)], [quality(1, 0.1)], COSTS)[1] == 0.0
