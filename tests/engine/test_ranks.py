"""One engine over two tensor-parallel ranks on the CPU, connected by gloo."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.answers import accepted, tokens
from tests.engine.scenes.ranks import RanksResult, ranks

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def result(play: Play) -> RanksResult:
    return play(ranks)


def test_each_rank_has_a_process(result: RanksResult) -> None:
    assert result.process_count == 2


@pytest.mark.parametrize("turn", ["chain-7", "tree-3x4-8", "ngram-4", "turns", "bandit"])
def test_ranks_agree_on_arms_and_answers_stay_the_targets(result: RanksResult, turn: str) -> None:
    assert tokens(result.greedy[turn]) == tokens(result.greedy["off"])
    assert accepted(result.greedy[turn]) > 0


def test_sampled_drafts_are_the_same_on_all_ranks(result: RanksResult) -> None:
    assert len(result.sampled.token_ids) == 60
