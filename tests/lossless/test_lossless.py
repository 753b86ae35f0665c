"""Speculation is lossless: sampled and greedy tokens, and log-probabilities."""

import pytest

from tests.engine import models
from tests.lossless import judge
from tests.lossless.cases import PHASES, Phase
from tests.lossless.scenes import SuiteResult

pytestmark = [pytest.mark.engine, pytest.mark.timeout(7200)]

MAX_LOGPROB_ERROR = 1e-3

phases = pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)


@phases
def test_sampled_answers_follow_the_target_distribution(verdicts: list[judge.Verdict], phase: Phase) -> None:
    level = judge.LEVEL / len(verdicts)
    bad = [each for each in verdicts if each.phase == phase.name and each.fit.p_value < level]
    assert not bad, f"below {level:.1e}: {bad}"


@phases
def test_drafts_were_kept_where_the_drafter_is_good(verdicts: list[judge.Verdict], phase: Phase) -> None:
    """Without accepted drafts the comparisons prove nothing."""
    lengths = {each.setting: each.accept_length for each in verdicts if each.phase == phase.name and each.accept_length}
    assert min(lengths.values()) >= phase.min_accept_length, lengths


@pytest.mark.parametrize("way", ["good", "random", "wrong", "swapped", "swapped, aborted and resumed"])
def test_greedy_answers_are_transformers(suite: SuiteResult, way: str) -> None:
    """Token for token, with a different arm each round."""
    found = judge.greedy(models.load(suite.greedy_target), suite.greedy[way])
    assert found.wrong == found.ties, found
    assert way != "good" or found.accept_length > 1.2, found


@phases
def test_logprobs_are_those_of_a_full_recomputation(suite: SuiteResult, phase: Phase) -> None:
    assert len(suite.phases[phase.name].long) >= 50
    assert judge.logprob_error(models.load(suite.target), suite.phases[phase.name].long) <= MAX_LOGPROB_ERROR
