"""A real model under every kind of arm: responses are transformers', whichever arm runs which round."""

from collections.abc import Iterable
from typing import Any

import pytest

from tests.engine import models
from tests.engine.host import Play
from tests.engine.scenes.answers import accepted, rounds, tokens
from tests.lossless.judge import TIE
from tests.lossless.scenes import Answer
from tests.real.model import MODEL, greedy_gap, logprob_gap, next_logits
from tests.real.scenes.arms import ALL, EACH, PREFIX_TOKENS, ArmsResult, arms

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

DRAFTING = ("chain-3", "chain-7-top1", "tree-3x4-8", "ngram-4", ALL)
LOGPROB_GAP = 1e-3


@pytest.fixture(scope="module")
def result(play: Play) -> ArmsResult:
    return play(arms)


@pytest.fixture(scope="module")
def model() -> Any:
    return models.load(MODEL.directory)


def chunks(answers: Iterable[Answer]) -> list[Any]:
    return [each.chunk for each in answers]


@pytest.mark.parametrize("arm", DRAFTING)
def test_responses_are_the_same_token_for_token_on_and_off(result: ArmsResult, arm: str) -> None:
    assert tokens(chunks(result.by_arm[arm])) == tokens(chunks(result.by_arm["off"]))


@pytest.mark.parametrize("arm", DRAFTING)
def test_every_arm_keeps_drafts(result: ArmsResult, arm: str) -> None:
    """Without accepted drafts the comparisons prove nothing."""
    answers = chunks(result.by_arm[arm])
    assert accepted(answers) / rounds(answers) > 0.05


def test_greedy_tokens_are_transformers_choices(result: ArmsResult, model: Any) -> None:
    for each in result.by_arm["off"][:EACH]:
        logits_TV = next_logits(model, each.prompt.token_ids, each.chunk.token_ids)
        assert greedy_gap(logits_TV, each.chunk.token_ids) <= TIE


@pytest.mark.parametrize("arm", ["off", *DRAFTING])
def test_logprobs_are_transformers(result: ArmsResult, model: Any, arm: str) -> None:
    for each in result.by_arm[arm]:
        logits_TV = next_logits(model, each.prompt.token_ids, each.chunk.token_ids)
        temperature = each.prompt.sampling.temperature
        assert logprob_gap(logits_TV, each.chunk.token_ids, each.chunk.logprobs, temperature) <= LOGPROB_GAP


def test_a_response_resumes_from_its_first_tokens_as_if_it_had_never_stopped(result: ArmsResult) -> None:
    whole = tokens(chunks(result.by_arm["off"]))
    assert tokens(result.resumed) == [ids[PREFIX_TOKENS:] for ids in whole]


def test_arms_and_drafters_that_change_meanwhile_change_no_token(result: ArmsResult) -> None:
    assert tokens(result.stormed) == tokens(chunks(result.by_arm["off"][:EACH]))


def test_requests_that_are_aborted_beside_change_no_token(result: ArmsResult) -> None:
    assert tokens(result.beside_aborts) == tokens(chunks(result.by_arm["off"][:EACH]))


def test_captured_states_are_transformers_row_by_row(result: ArmsResult) -> None:
    captured = result.captured
    assert captured.frames_off_by < 5e-3
    assert captured.answer.logprobs == pytest.approx(captured.expected_logprobs, abs=LOGPROB_GAP)
    assert captured.declined_frame_count == 0


def test_new_weights_are_served_from_the_token_that_names_them(result: ArmsResult, model: Any) -> None:
    ids, chunk = result.updated.prompt.token_ids, result.updated.chunk
    before = chunk.policy_versions.index(1)
    assert chunk.policy_versions == (0,) * before + (1,) * (len(chunk.token_ids) - before)
    assert before > 0
    newer = models.load(result.newer)
    for each, served in ((model, slice(before)), (newer, slice(before, None))):
        logits_TV = next_logits(each, ids, chunk.token_ids)
        assert greedy_gap(logits_TV[served], chunk.token_ids[served]) <= TIE


def test_requests_that_come_later_reuse_nothing_of_old_weights(result: ArmsResult, model: Any) -> None:
    fresh = result.fresh
    newer = next_logits(models.load(result.newer), fresh.prompt.token_ids, fresh.chunk.token_ids)
    assert greedy_gap(newer, fresh.chunk.token_ids) <= TIE
    assert logprob_gap(newer, fresh.chunk.token_ids, fresh.chunk.logprobs) <= LOGPROB_GAP
    before = next_logits(model, fresh.prompt.token_ids, fresh.chunk.token_ids)
    assert greedy_gap(before, fresh.chunk.token_ids) > TIE
