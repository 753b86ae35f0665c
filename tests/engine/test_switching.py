"""One engine through arm switches, drafter swaps, capture, weight updates and its death."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.answers import accepted, stats, tokens
from tests.engine.scenes.switching import SwitchingResult, switching
from tests.loops import Loop

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def result(play: Play) -> SwitchingResult:
    return play(switching)


def test_without_a_drafter_nothing_is_drafted(result: SwitchingResult) -> None:
    assert stats(result.before_drafter).accepted_draft_tokens == 0
    assert result.before_drafter.token_ids == result.off[0].token_ids


def test_greedy_answers_do_not_depend_on_speculation(result: SwitchingResult) -> None:
    assert tokens(result.chain) == tokens(result.off)
    assert accepted(result.chain) > 50


def test_greedy_answers_survive_switches_and_swaps_in_flight(result: SwitchingResult) -> None:
    assert tokens(result.storm) == tokens(result.off)
    assert accepted(result.storm) > 20


def test_logprobs_are_those_of_the_whole_vocabulary_at_the_temperature(result: SwitchingResult) -> None:
    captured = result.captured
    assert len(captured.answer.logprobs) == len(captured.answer.token_ids) == 150
    assert captured.answer.logprobs == pytest.approx(captured.expected_logprobs, abs=1e-3)


def test_frames_hold_the_targets_last_hidden_states(result: SwitchingResult) -> None:
    frames = result.captured.frames
    assert result.captured.frames_off_by < 1e-3
    assert all(frame.header.token_count <= 64 for frame in frames)
    assert [frame.header.finished for frame in frames] == [False] * (len(frames) - 1) + [True]


def test_a_request_may_decline_capture(result: SwitchingResult) -> None:
    assert result.captured.declined_frame_count == 0


def test_requests_that_must_not_be_drafted_for_are_not(result: SwitchingResult) -> None:
    penalized, declined = stats(result.penalized), stats(result.declined)
    assert penalized.accepted_draft_tokens == declined.accepted_draft_tokens == 0
    assert "frequency_penalty" in penalized.speculation_blocker
    assert declined.speculation_blocker


def test_a_response_that_is_handed_over_again_and_again_is_the_same(result: SwitchingResult) -> None:
    handed_over = [(tokens, reason) for tokens, reason, _ in result.handed_over]
    assert handed_over == [(answer.token_ids, answer.finish_reason) for answer in result.whole]
    assert sum(times for _, _, times in result.handed_over) > 12


def test_rounds_of_a_gpu_never_wait_for_it_and_a_switch_waits_once(result: SwitchingResult, loop: Loop) -> None:
    """Counted where lengths are not known to the host, so that whatever asks for one waits."""
    if loop is Loop.PLAIN:
        pytest.skip("counted in the loop of GPUs only")
    steady = [one for one in result.rounds if not one.is_switch]
    assert {one.arm for one in steady} == {"off", "chain-3", "chain-7"}
    assert [(one.arm, one.waits) for one in steady if one.waits] == []
    switches = [one for one in result.rounds if one.is_switch and one.arm != "off"]
    assert len(switches) > 10
    assert [one.waits for one in switches if sum(one.waits.values()) > 1] == []


def test_unfit_weights_are_refused_and_the_engine_keeps_serving(result: SwitchingResult) -> None:
    shape, finite = result.refusals.messages
    assert "embed_tokens" in shape or "lm_head" in shape
    assert "[64, 64]" in shape
    assert "not finite" in finite
    assert len(result.refusals.answer_after.token_ids) == 5


def test_every_token_is_the_choice_of_the_version_it_names(result: SwitchingResult) -> None:
    chunk = result.update.in_flight
    assert set(chunk.policy_versions) == {0, 7}
    assert list(chunk.policy_versions) == sorted(chunk.policy_versions)
    for place, (token, version) in enumerate(zip(chunk.token_ids, chunk.policy_versions, strict=True)):
        assert token == result.update.greedy[version][place]


def test_new_requests_reuse_nothing_of_old_weights(result: SwitchingResult) -> None:
    assert list(result.update.fresh.token_ids) == result.update.fresh_expected
    assert set(result.update.fresh.policy_versions) == {7}


def test_a_dead_engine_reports_its_end_and_fails_its_requests(result: SwitchingResult) -> None:
    assert "exited" in result.death.reason
    assert "exited" in result.death.failure


def test_a_dead_engine_refuses_what_comes_later_as_not_begun(result: SwitchingResult) -> None:
    assert "exited" in result.death.refusal
