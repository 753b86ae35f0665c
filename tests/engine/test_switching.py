"""One engine through arms, swaps, capture, updates and its death."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def told(play: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return play("switching")


def test_without_a_drafter_nothing_is_drafted(told: dict[str, Any]) -> None:
    assert told["before_drafter"][0].stats.accepted_draft_tokens == 0
    assert told["before_drafter"][0].token_ids == told["off"][0].token_ids


def test_greedy_answers_do_not_depend_on_speculation(told: dict[str, Any]) -> None:
    assert [a.token_ids for a in told["chain"]] == [a.token_ids for a in told["off"]]
    assert sum(a.stats.accepted_draft_tokens for a in told["chain"]) > 50


def test_greedy_answers_survive_switches_and_swaps_in_flight(told: dict[str, Any]) -> None:
    assert [a.token_ids for a in told["storm"]] == [a.token_ids for a in told["off"]]
    assert sum(a.stats.accepted_draft_tokens for a in told["storm"]) > 20


def test_logprobs_are_those_of_the_whole_vocabulary_at_the_temperature(told: dict[str, Any]) -> None:
    assert len(told["sampled"].logprobs) == len(told["sampled"].token_ids) == 150
    assert told["sampled"].logprobs == pytest.approx(told["expected_logprobs"], abs=1e-3)


def test_frames_hold_the_targets_last_hidden_states(told: dict[str, Any]) -> None:
    assert told["frames_off_by"] < 1e-3
    assert all(frame.token_count <= 64 for frame in told["frames"])
    assert [frame.finished for frame in told["frames"]] == [False] * (len(told["frames"]) - 1) + [True]


def test_a_request_may_keep_its_states_to_itself(told: dict[str, Any]) -> None:
    assert told["secret_frames"] == 0


def test_requests_that_must_not_be_drafted_for_are_not(told: dict[str, Any]) -> None:
    assert told["penalised"].stats.accepted_draft_tokens == told["declined"].stats.accepted_draft_tokens == 0
    assert "frequency_penalty" in told["penalised"].stats.speculation_blocker
    assert told["declined"].stats.speculation_blocker


def test_unfit_weights_are_refused_and_the_engine_serves_on(told: dict[str, Any]) -> None:
    shape, finite = told["refusals"]
    assert "embed_tokens" in shape or "lm_head" in shape
    assert "[64, 64]" in shape
    assert "not finite" in finite
    assert len(told["after_refusal"].token_ids) == 5


def test_every_token_is_the_choice_of_the_version_it_names(told: dict[str, Any]) -> None:
    chunk = told["inflight"]
    assert set(chunk.policy_versions) == {0, 7}
    assert list(chunk.policy_versions) == sorted(chunk.policy_versions)
    for place, (token, version) in enumerate(zip(chunk.token_ids, chunk.policy_versions, strict=True)):
        assert token == told["greedy"][version][place]


def test_new_requests_reuse_nothing_of_old_weights(told: dict[str, Any]) -> None:
    assert list(told["fresh"].token_ids) == told["fresh_expected"]
    assert set(told["fresh"].policy_versions) == {7}


def test_a_dead_engine_says_so_and_fails_its_requests(told: dict[str, Any]) -> None:
    assert "ended" in told["died"]
    assert "ended" in told["failure"]
