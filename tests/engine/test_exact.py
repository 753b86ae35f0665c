"""Guarantees to single requests hold under every arm: seeds, penalties, logprobs, resuming from a prefix."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.answers import accepted, stats, tokens
from tests.engine.scenes.exact import PREFIX_TOKENS, ExactResult, exact
from tlt_trainer.data.frame import decoded

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def result(play: Play) -> ExactResult:
    return play(exact)


@pytest.mark.parametrize("setting", ["plain", "filtered"])
@pytest.mark.parametrize("arm", ["chain-3", "chain-7", "chain-7-top1", "tree-3x4-8", "ngram-4", "all"])
def test_a_seed_gives_the_same_tokens_under_every_arm(result: ExactResult, setting: str, arm: str) -> None:
    by_arm = result.seeded[setting].by_arm
    assert tokens(by_arm[arm]) == tokens(by_arm["off"])
    assert accepted(by_arm[arm]) > 20


@pytest.mark.parametrize("setting", ["plain", "filtered"])
def test_a_seed_does_not_depend_on_the_batch_and_its_lack_is_no_seed(result: ExactResult, setting: str) -> None:
    seeded = result.seeded[setting]
    assert seeded.alone.token_ids == seeded.by_arm["off"][2].token_ids
    assert len(set(tokens(seeded.unseeded))) > 1


def test_a_prompt_that_was_answered_before_is_cached_but_for_its_last_tokens(result: ExactResult) -> None:
    first, again = stats(result.seeded["plain"].by_arm["off"][2]), stats(result.seeded["plain"].alone)
    assert first.cached_tokens == 0
    assert 0 < again.prompt_tokens - again.cached_tokens <= 2


@pytest.mark.parametrize("name", ["frequency", "presence", "repetition", "minimum", "all", "declined", "free"])
def test_penalties_are_exact_in_a_batch_with_drafts(result: ExactResult, name: str) -> None:
    assert list(result.penalized.answers[name].token_ids) == result.penalized.expected[name]


def test_requests_with_penalties_get_no_drafts_and_a_reason(result: ExactResult) -> None:
    answers = dict(result.penalized.answers)
    free = stats(answers.pop("free"))
    assert free.accepted_draft_tokens > 20
    assert free.proposed_draft_tokens == 7 * (free.rounds - 1)
    assert free.speculation_blocker == ""
    for blocked in map(stats, answers.values()):
        assert blocked.accepted_draft_tokens == blocked.proposed_draft_tokens == 0
        assert blocked.rounds == blocked.completion_tokens
        assert blocked.speculation_blocker


def test_logprobs_are_of_the_kind_each_request_asked_for(result: ExactResult) -> None:
    for each in result.logprobs:
        assert each.answer.logprobs == pytest.approx(each.expected, abs=1e-3), each.request_id


@pytest.mark.parametrize("name", ["greedy", "seeded", "filtered", "penalized", "minimum"])
def test_a_response_resumes_from_a_prefix_as_if_it_had_never_stopped(result: ExactResult, name: str) -> None:
    whole, rest = result.resumed.whole[name], result.resumed.rest[name]
    assert rest.token_ids == whole.token_ids[PREFIX_TOKENS:]
    assert rest.logprobs == pytest.approx(whole.logprobs[PREFIX_TOKENS:], abs=1e-3)
    assert rest.finish_reason is whole.finish_reason
    assert stats(rest).completion_tokens == len(whole.token_ids) - PREFIX_TOKENS
    assert stats(rest).prompt_tokens == stats(whole).prompt_tokens


def test_hidden_states_of_a_resumed_response_know_where_it_began(result: ExactResult) -> None:
    (frame,) = result.resumed.frames
    whole = result.resumed.whole["greedy"]
    header = frame.header
    assert (header.prompt_tokens, header.response_tokens) == (9, len(whole.token_ids))
    # The start of the prefix was in the prefix cache, so no states were computed for it.
    assert 9 < header.start <= 9 + PREFIX_TOKENS
    assert tuple(decoded(frame).token_ids.tolist()) == whole.token_ids[header.start - 9 :]
