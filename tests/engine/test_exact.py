"""Promises to single requests, kept under every arm: seeds, penalties, logprobs, going on from a prefix."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

STOPPED_AT = 17


@pytest.fixture(scope="module")
def told(play: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return play("scenes_exact.exact")


@pytest.mark.parametrize("setting", ["plain", "filtered"])
@pytest.mark.parametrize("arm", ["chain-3", "chain-7", "chain-7-top1", "tree-3x4-8", "ngram-4", "all"])
def test_a_seed_gives_the_same_tokens_under_every_arm(told: dict[str, Any], setting: str, arm: str) -> None:
    off, under_it = told["seeded"][setting]["off"], told["seeded"][setting][arm]
    assert [answer.token_ids for answer in under_it] == [answer.token_ids for answer in off]
    assert sum(answer.stats.accepted_draft_tokens for answer in under_it) > 20


@pytest.mark.parametrize("setting", ["plain", "filtered"])
def test_a_seed_does_not_depend_on_the_batch_and_its_lack_is_no_seed(told: dict[str, Any], setting: str) -> None:
    answers = told["seeded"][setting]
    assert answers["alone"][0].token_ids == answers["off"][2].token_ids
    assert len({answer.token_ids for answer in answers["unseeded"]}) > 1


@pytest.mark.parametrize("name", ["frequency", "presence", "repetition", "least", "all", "declined", "free"])
def test_penalties_are_exact_beside_requests_that_are_drafted_for(told: dict[str, Any], name: str) -> None:
    assert list(told["penalised"]["said"][name].token_ids) == told["penalised"]["expected"][name]


def test_only_those_without_penalties_are_drafted_for_and_the_others_say_why(told: dict[str, Any]) -> None:
    said = dict(told["penalised"]["said"])
    free = said.pop("free").stats
    assert free.accepted_draft_tokens > 20
    assert free.proposed_draft_tokens == 7 * (free.rounds - 1)
    assert free.speculation_blocker == ""
    for answer in said.values():
        assert answer.stats.accepted_draft_tokens == answer.stats.proposed_draft_tokens == 0
        assert answer.stats.rounds == answer.stats.completion_tokens
        assert answer.stats.speculation_blocker


def test_logprobs_are_of_the_kind_each_request_asked_for(told: dict[str, Any]) -> None:
    for name, said, expected in told["kinds"]:
        assert said.logprobs == pytest.approx(expected, abs=1e-3), name


@pytest.mark.parametrize("name", ["greedy", "seeded", "filtered", "penalised", "least"])
def test_a_response_goes_on_from_a_prefix_as_if_nothing_had_happened(told: dict[str, Any], name: str) -> None:
    whole, rest = told["resumed"]["whole"][name], told["resumed"]["rest"][name]
    assert rest.token_ids == whole.token_ids[STOPPED_AT:]
    assert rest.logprobs == pytest.approx(whole.logprobs[STOPPED_AT:], abs=1e-3)
    assert rest.finish_reason is whole.finish_reason
    assert rest.stats.completion_tokens == len(whole.token_ids) - STOPPED_AT
    assert rest.stats.prompt_tokens == whole.stats.prompt_tokens


def test_hidden_states_of_a_resumed_response_know_where_it_began(told: dict[str, Any]) -> None:
    (frame,) = told["resumed"]["frames"]
    whole = told["resumed"]["whole"]["greedy"]
    assert (frame.prompt_tokens, frame.response_tokens) == (9, len(whole.token_ids))
    # The engine still had the states' keys and values of what came before, and computed no states for it.
    assert 9 < frame.start <= 9 + STOPPED_AT
    assert frame.token_ids == whole.token_ids[frame.start - 9 :]
