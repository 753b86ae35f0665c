"""Block drafters are as exact as others, and draft the tokens computed in plain torch."""

import numpy as np
import pytest

from tests.engine.host import Play
from tests.engine.scenes import block, forward
from tests.engine.scenes.answers import accepted, tokens
from tests.engine.scenes.block import BlockResult
from tests.engine.scenes.eagle3 import Compared
from tests.loops import Loop
from tests.lossless import goodness
from tlt_trainer.data.frame import decoded

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

LEVEL = 1e-4


@pytest.fixture(scope="module", params=["dflash", "dspark"])
def result(play: Play, request: pytest.FixtureRequest) -> BlockResult:
    return play({"dflash": block.dflash, "dspark": block.dspark}[request.param])


@pytest.fixture(scope="module")
def ranks(play: Play) -> Compared:
    return play(block.ranks)


def require_equal(case: Compared) -> None:
    assert [list(ids) for ids in tokens(case.answers)] == case.expected
    for rounds, expected in zip(case.rounds, case.expected_rounds, strict=True):
        assert rounds in expected


def test_greedy_answers_are_the_targets_and_drafts_the_drafters(result: BlockResult) -> None:
    require_equal(result.block)


def test_drafts_stay_the_drafters_when_arms_take_turns(result: BlockResult) -> None:
    require_equal(result.in_turn)


def test_drafts_pay(result: BlockResult) -> None:
    assert sum(map(len, tokens(result.block.answers))) / sum(result.block.rounds) > 1.3


@pytest.mark.parametrize("way", ["storm", "aborts", "retracted"])
def test_greedy_answers_survive_arms_swaps_aborts_and_retraction(result: BlockResult, way: str) -> None:
    answers = {"storm": result.storm, "aborts": result.aborts, "retracted": result.retracted}[way]
    assert tokens(answers) == tokens(result.off)
    assert accepted(answers) > 20


def test_rounds_of_a_gpu_never_wait_for_it_and_a_switch_waits_once(result: BlockResult, loop: Loop) -> None:
    if loop is Loop.PLAIN:
        pytest.skip("counted in the loop of GPUs only")
    steady = [one for one in result.rounds if not one.is_switch and not one.arm.startswith("ngram")]
    assert {one.arm for one in steady} >= {"off", "block-7"}
    assert [(one.arm, one.waits) for one in steady if one.waits] == []


@pytest.mark.parametrize("skipped", ["off", "ngram-4"])
def test_a_drafter_completes_what_it_skipped_also_after_a_prefix_cache_hit(result: BlockResult, skipped: str) -> None:
    case = result.hits[skipped]
    assert case.cached.token_ids == case.uncached.token_ids
    assert accepted([case.cached]) == accepted([case.uncached]) > 5


def test_an_answer_may_fill_the_context_under_every_arm(result: BlockResult) -> None:
    answers = tokens(result.full_context.values())
    assert {len(ids) for ids in answers} == {512 - 460}
    assert len(set(answers)) == 1


@pytest.mark.parametrize("arm", ["block-3", "block-7", "ngram-4", "in turn"])
def test_a_seed_gives_plain_decodings_tokens(result: BlockResult, arm: str) -> None:
    assert tokens(result.seeded[arm]) == tokens(result.seeded["off"])
    assert arm.startswith("ngram") or accepted(result.seeded[arm]) > 50


def test_sampled_answers_follow_the_target(result: BlockResult) -> None:
    assert result.sampled.accepted_per_answer > 0.5
    counts = goodness.count(np.array(result.sampled.tokens)[:, 1:], 24)
    assert goodness.fit(counts, result.sampled.exact).p_value > LEVEL


def test_frames_hold_what_the_drafter_reads_and_the_last_states(result: BlockResult) -> None:
    covered = set()
    for frame in result.captured.frames:
        start, end = frame.header.start, frame.header.start + frame.header.token_count
        expected = result.captured.states[start:end]
        assert (frame.header.hidden_size, frame.header.layers) == (expected.shape[1], (1, 3, 4))
        assert (decoded(frame).hidden - expected).abs().max() < 1e-3
        covered |= set(range(start, end))
    assert covered == set(range(len(result.captured.states) - 1))


def test_drafters_that_do_not_fit_this_engine_are_refused(result: BlockResult) -> None:
    architecture, longer, deeper, headed, finite = result.refusals
    assert "architecture is 'eagle'; the engine was launched for 'block'" in architecture
    assert all("the engine was launched for" in message for message in (longer, deeper, headed))
    assert "not finite" in finite


def test_a_blocks_logits_are_those_of_sglangs_own_forward(play: Play) -> None:
    for name, found in play(forward.forward).items():
        print(f"{name}: {found.difference} of {found.spread:.2f}")  # noqa: T201 - with pytest -s
        assert found.difference == 0, name
        assert found.spread > 0.3
        assert found.shape == (3, forward.KINDS[name].drafts, 24)


def test_two_ranks_draft_as_one(ranks: Compared) -> None:
    require_equal(ranks)
