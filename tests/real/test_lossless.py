"""Speculation is lossless with a real model: every token's place in transformers' distribution is uniform."""

from pathlib import Path
from typing import Any

import pytest

from tests.engine import host, models
from tests.engine.host import Play
from tests.lossless import judge
from tests.lossless.scenes import Answer
from tests.real.conftest import SCENE_S
from tests.real.model import MODEL
from tests.real.scenes.lossless import ARMS, RESPONSES, TOKENS, broken, lossless

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

LEVEL = judge.LEVEL / len(ARMS)


@pytest.fixture(scope="module")
def result(play: Play) -> dict[str, list[Answer]]:
    return play(lossless)


@pytest.fixture(scope="module")
def model() -> Any:
    return models.load(MODEL.directory)


@pytest.mark.parametrize("arm", ARMS)
def test_sampled_tokens_follow_the_models_distribution(result: dict[str, list[Answer]], model: Any, arm: str) -> None:
    fit = judge.long_fit(model, result[arm])
    assert fit.samples == RESPONSES * TOKENS
    assert fit.p_value > LEVEL, fit


@pytest.mark.parametrize("arm", ARMS)
def test_logprobs_are_those_of_a_full_recomputation(result: dict[str, list[Answer]], model: Any, arm: str) -> None:
    assert judge.logprob_error(model, result[arm]) <= 1e-3


@pytest.mark.parametrize("arm", ARMS[1:])
def test_drafts_were_kept(result: dict[str, list[Answer]], arm: str) -> None:
    """Without accepted drafts the comparison proves nothing."""
    stats = [each.chunk.stats for each in result[arm] if each.chunk.stats]
    assert sum(each.accepted_draft_tokens for each in stats) > RESPONSES


def test_an_engine_with_wrong_acceptance_is_flagged(broken_plugin: str, model: Any, tmp_path: Path) -> None:
    """It accepts drafts of p > 0.3, with as many tokens as an arm has."""
    answers = host.play(broken, tmp_path, {"PYTHONPATH": broken_plugin}, within_s=SCENE_S)
    fit = judge.long_fit(model, answers)
    assert fit.samples == RESPONSES * TOKENS
    assert fit.p_value < LEVEL, fit
