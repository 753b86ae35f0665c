"""Retrieved drafts are exact, need no drafter, and get better with every response to the same prompt."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tlt_common.domain.rollout import TokenChunk

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

Play = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def told(play: Play) -> dict[str, Any]:
    return play("scenes_ngram.alone")


def accept_length(chunks: Sequence[TokenChunk]) -> float:
    """Tokens per request and round."""
    stats = [chunk.stats for chunk in chunks if chunk.stats]
    return sum(each.completion_tokens for each in stats) / sum(each.rounds for each in stats)


@pytest.mark.parametrize("label", ["ngram", "cycle", "bandit", "updated"])
def test_greedy_answers_are_the_same(told: dict[str, Any], label: str) -> None:
    assert [a.token_ids for a in told[label]] == [a.token_ids for a in told["off"]]
    assert accept_length(told[label]) > 1.2


def test_a_group_helps_itself_and_its_next_epoch_even_more(told: dict[str, Any]) -> None:
    first, second = accept_length(told["first"]), accept_length(told["second"])
    assert 1.2 < first < second


def test_texts_take_little_memory(told: dict[str, Any]) -> None:
    assert 0 < told["index_bytes"] < 2**21  # some 6,000 tokens were said


@pytest.fixture(scope="module")
def beside(play: Play) -> dict[str, Any]:
    return play("scenes_ngram.beside")


@pytest.mark.parametrize("drafter", ["none", "wrong"])
def test_retrieval_stands_in_for_a_drafter_that_is_missing_or_wrong(beside: dict[str, Any], drafter: str) -> None:
    rounds = beside[drafter]
    assert rounds["ngram-5"] > 0.5 * rounds.total()
    assert rounds["chain-5"] < (0.3 * rounds.total() if drafter == "wrong" else 1)


def test_learned_and_retrieved_drafts_take_turns(beside: dict[str, Any]) -> None:
    assert [a.token_ids for a in beside["turns"]] == [a.token_ids for a in beside["off"]]
    assert accept_length(beside["turns"]) > 2
