"""Retrieved drafts are exact, need no drafter, and improve with every response to the same prompt."""

from collections.abc import Sequence

import pytest

from tests.engine.host import Play
from tests.engine.scenes import ngram
from tests.engine.scenes.answers import stats, tokens
from tests.engine.scenes.ngram import AloneResult, MixedResult
from tlt_common.domain.response import TokenChunk

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def alone(play: Play) -> AloneResult:
    return play(ngram.alone)


@pytest.fixture(scope="module")
def mixed(play: Play) -> MixedResult:
    return play(ngram.mixed)


def accept_length(answers: Sequence[TokenChunk]) -> float:
    """Tokens per request and round."""
    found = [stats(answer) for answer in answers]
    return sum(each.completion_tokens for each in found) / sum(each.rounds for each in found)


@pytest.mark.parametrize("case", ["ngram", "cycle", "bandit", "updated"])
def test_greedy_answers_are_the_same(alone: AloneResult, case: str) -> None:
    answers = alone.updated if case == "updated" else alone.greedy[case]
    assert tokens(answers) == tokens(alone.greedy["off"])
    assert accept_length(answers) > 1.2


def test_drafts_from_a_group_help_it_and_its_next_epoch_even_more(alone: AloneResult) -> None:
    assert 1.2 < accept_length(alone.first) < accept_length(alone.second)


def test_requests_with_another_cache_key_learn_nothing_of_one_another(alone: AloneResult) -> None:
    assert len(set(tokens(alone.keyed))) == 1
    mine, again, theirs, theirs_again = map(stats, alone.keyed)
    assert mine.cached_tokens == theirs.cached_tokens == 0
    assert again.cached_tokens == theirs_again.cached_tokens > 16
    assert mine.accepted_draft_tokens == theirs.accepted_draft_tokens
    assert again.accepted_draft_tokens == theirs_again.accepted_draft_tokens > mine.accepted_draft_tokens


def test_the_index_uses_little_memory(alone: AloneResult) -> None:
    assert 0 < alone.index_bytes < 2**21  # about 6,000 tokens were generated


def test_retrieval_replaces_a_missing_drafter(mixed: MixedResult) -> None:
    rounds = mixed.rounds_without_drafter
    assert rounds["ngram-5"] > 0  # whether it beats no drafts depends on the load of the machine
    assert rounds["chain-5"] == 0


def test_retrieval_replaces_a_wrong_drafter(mixed: MixedResult) -> None:
    rounds = mixed.rounds_with_wrong_drafter
    assert rounds["chain-5"] < 0.5 * rounds["ngram-5"]


def test_learned_and_retrieved_drafts_alternate(mixed: MixedResult) -> None:
    assert tokens(mixed.turns) == tokens(mixed.off)
    assert accept_length(mixed.turns) > 2
