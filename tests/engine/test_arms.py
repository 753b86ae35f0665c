"""Arms of every kind in one engine: greedy answers are the same whichever arm runs which round."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes import arms
from tests.engine.scenes.answers import accepted, rounds, stats, tokens
from tests.engine.scenes.arms import ArmsResult
from tests.engine.scenes.prompt_logprobs import CACHED_FROM

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

DRAFTING = ("chain-3", "tree-3x4-8", "chain-7-top1", "chain-7", "tree-2x2-4", "chain-3-top1", "tree-1x4-4", "ngram-4")


@pytest.fixture(scope="module")
def result(play: Play) -> ArmsResult:
    return play(arms.mixed)


@pytest.mark.parametrize("arm", [*DRAFTING, "cycle", "aborts"])
def test_greedy_answers_do_not_depend_on_the_arms(result: ArmsResult, arm: str) -> None:
    assert tokens(result.greedy[arm]) == tokens(result.greedy["off"])


@pytest.mark.parametrize("arm", [*DRAFTING, "cycle", "aborts"])
def test_every_arm_keeps_drafts(result: ArmsResult, arm: str) -> None:
    answers = result.greedy[arm]
    assert accepted(answers) / rounds(answers) > 0.1


@pytest.mark.parametrize("skipped", ["off", "retrieval"])
def test_a_drafter_completes_what_it_skipped_also_after_a_prefix_cache_hit(result: ArmsResult, skipped: str) -> None:
    case = result.after_off if skipped == "off" else result.after_retrieval
    assert case.cached.token_ids == case.uncached.token_ids
    assert stats(case.cached).rounds == stats(case.uncached).rounds
    assert case.recomputed_tokens == 0, "the target never computes a token twice"
    assert 140 <= case.caught_up_tokens <= 200, "the answer once, and the backlog of earlier rounds"
    assert (case.accepted_tokens > 0) == (skipped == "retrieval")


def test_a_drafter_keeps_up_during_a_long_answer_without_it(result: ArmsResult) -> None:
    left = result.after_off.caught_up_tokens - result.after_off.kept_up_tokens
    assert left - (149 - 2 * 64) in {0, 1}, "it kept up twice in 149 rounds, the first time a round early perhaps"


def test_an_answer_may_fill_the_context_under_every_arm(result: ArmsResult) -> None:
    answers = tokens(result.full_context.values())
    assert {len(ids) for ids in answers} == {512 - 440}
    assert len(set(answers)) == 1


def test_captured_states_and_logprobs_are_the_targets_whatever_drafts(result: ArmsResult) -> None:
    assert result.captured.frames_off_by < 1e-3
    assert result.captured.answer.logprobs == pytest.approx(result.captured.expected_logprobs, abs=1e-3)


@pytest.mark.parametrize("arm", ["off", "chain-7", "cycle", "retracted"])
def test_log_probabilities_of_prompts_are_those_of_the_target(result: ArmsResult, arm: str) -> None:
    case = result.scored[arm]
    for asked, answer, expected in zip(case.prompts, case.answers, case.expected, strict=True):
        if (start := asked.prompt_logprobs_start) is None:
            assert answer.prompt_logprobs is None
            continue
        assert answer.prompt_logprobs is not None
        assert answer.prompt_logprobs.first == max(1, start)
        found = list(answer.prompt_logprobs.logprobs)
        assert found == pytest.approx(expected[max(1, start) - 1 :], abs=1e-4), asked.request_id


@pytest.mark.parametrize("arm", ["off", "chain-7", "cycle"])
def test_of_a_cached_prompt_only_what_precedes_the_position_is_reused(result: ArmsResult, arm: str) -> None:
    *_, cached = result.scored[arm].answers
    assert 0 < CACHED_FROM - stats(cached).cached_tokens <= 2
    assert (accepted(result.scored[arm].answers) > 0) == (arm != "off")


def test_prompts_were_scored_whose_responses_continue_with_other_weights(result: ArmsResult) -> None:
    assert {version for answer in result.scored["retracted"].answers for version in answer.policy_versions} == {1, 2}
