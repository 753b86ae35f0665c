"""Arms of every kind in one engine: greedy answers are the same whatever runs which round."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

DRAFTING = ("chain-3", "tree-3x4-8", "chain-7-top1", "chain-7", "tree-2x2-4", "chain-3-top1", "tree-1x4-4")


@pytest.fixture(scope="module")
def told(play: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return play("scenes_arms.mixed")


@pytest.mark.parametrize("arm", [*DRAFTING, "cycle", "aborts"])
def test_greedy_answers_do_not_depend_on_the_arms(told: dict[str, Any], arm: str) -> None:
    assert [a.token_ids for a in told[arm]] == [a.token_ids for a in told["off"]]


@pytest.mark.parametrize("arm", [*DRAFTING, "cycle", "aborts"])
def test_every_arm_keeps_drafts(told: dict[str, Any], arm: str) -> None:
    accepted = sum(a.stats.accepted_draft_tokens for a in told[arm])
    rounds = sum(a.stats.rounds for a in told[arm])
    assert accepted / rounds > 0.5
