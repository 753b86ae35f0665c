"""Arms of every kind in one engine: greedy answers are the same whatever runs which round."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

DRAFTING = ("chain-3", "tree-3x4-8", "chain-7-top1", "chain-7", "tree-2x2-4", "chain-3-top1", "tree-1x4-4", "ngram-4")


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
    assert accepted / rounds > 0.1


@pytest.mark.parametrize("skipped", ["after_off", "after_retrieval"])
def test_a_drafter_completes_what_it_skipped_also_where_the_prefix_cache_was_hit(
    told: dict[str, Any], skipped: str
) -> None:
    case = told[skipped]
    assert case["found"].token_ids == case["afresh"].token_ids
    assert case["found"].stats.rounds == case["afresh"].stats.rounds
    assert case["recomputed_tokens"] == 0, "the target never computes a token twice"
    assert 140 <= case["caught_up_tokens"] <= 200, "the answer once, and what was left of rounds before"
    assert (case["accepted"] > 0) == (skipped == "after_retrieval")


def test_a_drafter_keeps_up_with_a_long_stretch_without_it(told: dict[str, Any]) -> None:
    case = told["after_off"]
    assert 128 <= case["kept_up_tokens"] < case["caught_up_tokens"], "twice 64 rounds, and what was left of before"


def test_an_answer_may_fill_the_context_under_every_arm(told: dict[str, Any]) -> None:
    answers = told["to_the_end"]
    assert {len(chunk.token_ids) for chunk in answers.values()} == {512 - 440}
    assert len({chunk.token_ids for chunk in answers.values()}) == 1


def test_captured_states_and_logprobs_are_the_targets_whatever_drafts(told: dict[str, Any]) -> None:
    assert told["frames_off_by"] < 1e-3
    assert told["sampled"].logprobs == pytest.approx(told["expected_logprobs"], abs=1e-3)
