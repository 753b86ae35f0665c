"""One engine over two tensor-parallel ranks, on the CPU, where gloo joins them."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def told(play: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return play("ranks")


def test_there_is_a_process_for_each_rank(told: dict[str, Any]) -> None:
    assert told["children"] == 2


@pytest.mark.parametrize("arm", ["chain-7", "tree-3x4-8", "ngram-4", "turns", "bandit"])
def test_ranks_agree_on_arms_and_answers_stay_the_targets(told: dict[str, Any], arm: str) -> None:
    assert [a.token_ids for a in told[arm]] == [a.token_ids for a in told["off"]]
    assert sum(a.stats.accepted_draft_tokens for a in told[arm]) > 0


def test_sampled_drafts_are_the_same_on_all_ranks(told: dict[str, Any]) -> None:
    assert len(told["sampled"].token_ids) == 60
