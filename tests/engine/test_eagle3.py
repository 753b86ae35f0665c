"""EAGLE-3 drafters are as exact as others, and draft the tokens computed in plain torch."""

import numpy as np
import pytest

from tests.engine.host import Play
from tests.engine.scenes import eagle3
from tests.engine.scenes.answers import accepted, stats, tokens
from tests.engine.scenes.eagle3 import Compared, Qwen3Result, RanksResult
from tests.lossless import goodness
from tlt_trainer.data.frame import decoded

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

LEVEL = 1e-4


@pytest.fixture(scope="module")
def result(play: Play) -> Qwen3Result:
    return play(eagle3.qwen3)


@pytest.fixture(scope="module")
def ranks(play: Play) -> RanksResult:
    return play(eagle3.ranks)


def require_equal(case: Compared) -> None:
    assert [list(ids) for ids in tokens(case.answers)] == case.expected
    for rounds, expected in zip(case.rounds, case.expected_rounds, strict=True):
        assert rounds in expected


def test_greedy_answers_are_the_targets_and_drafts_the_drafters(result: Qwen3Result) -> None:
    require_equal(result.chain)


def test_drafts_stay_the_drafters_when_arms_take_turns(result: Qwen3Result) -> None:
    require_equal(result.in_turn)


def test_a_drafter_may_know_fewer_tokens_than_the_target(result: Qwen3Result) -> None:
    require_equal(result.fewer_tokens)


def test_drafts_pay(result: Qwen3Result) -> None:
    generated = sum(map(len, tokens(result.chain.answers)))
    assert generated / sum(result.chain.rounds) > 1.5


def test_a_drafter_that_arrives_in_mid_response_catches_up(result: Qwen3Result) -> None:
    assert result.early.token_ids == result.early_off.token_ids
    assert stats(result.early).accepted_draft_tokens > 50


def test_greedy_answers_survive_arms_and_swaps_in_flight(result: Qwen3Result) -> None:
    assert tokens(result.storm) == tokens(result.off)
    assert accepted(result.storm) > 50


@pytest.mark.parametrize("arm", ["chain", "tree"])
def test_drafts_from_a_reduced_vocabulary_are_lossless(result: Qwen3Result, arm: str) -> None:
    case = result.sampled_chain if arm == "chain" else result.sampled_tree
    assert case.accepted_per_answer > 0.5
    counts = goodness.count(np.array(case.tokens)[:, 1:], 24)
    assert goodness.fit(counts, case.exact).p_value > LEVEL


def test_drafters_that_do_not_fit_this_engine_are_refused(result: Qwen3Result) -> None:
    architecture, finite, twice, cut, nowhere = result.refusals
    assert "architecture is 'eagle'; the engine was launched for 'eagle3'" in architecture
    assert "not finite" in finite
    assert "to the same token" in twice
    assert "is truncated" in cut
    assert "config.json is not readable" in nowhere


def test_frames_hold_what_the_drafter_reads_and_the_last_states(result: Qwen3Result) -> None:
    covered = set()
    for frame in result.captured.frames:
        start, end = frame.header.start, frame.header.start + frame.header.token_count
        expected = result.captured.states[start:end]
        assert (frame.header.hidden_size, frame.header.layers) == (expected.shape[1], (1, 3, 4))
        assert (decoded(frame).hidden - expected).abs().max() < 1e-3
        covered |= set(range(start, end))
    assert covered == set(range(len(result.captured.states) - 1))


def test_new_weights_of_the_target_are_followed(result: Qwen3Result) -> None:
    assert list(result.updated.token_ids) == result.updated_expected


def test_two_ranks_draft_as_one(ranks: RanksResult) -> None:
    require_equal(ranks.in_turn)
    assert len(ranks.sampled.token_ids) == 60
