"""SGLang 0.5.23 is not lossless by itself, and is with our hooks. Fails when SGLang changes either."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.upstream import UpstreamResult, upstream

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

LEVEL = 0.001


@pytest.fixture(scope="module")
def result(play: Play) -> UpstreamResult:
    return play(upstream)


def test_sglang_alone_uses_the_argmax_on_a_cpu(result: UpstreamResult) -> None:
    assert result.distinct_first_tokens == 1


@pytest.mark.parametrize("setting", ["top-k with top-p", "min-p", "repeated siblings"])
def test_sglang_alone_draws_from_another_distribution(result: UpstreamResult, setting: str) -> None:
    assert result.sglang.p_values[setting] < 1e-6


@pytest.mark.parametrize("setting", ["temperature", "top-k with top-p", "min-p", "repeated siblings"])
def test_first_tokens_follow_the_exact_distribution(result: UpstreamResult, setting: str) -> None:
    assert result.ours.p_values[setting] > LEVEL


def test_a_seed_draws_the_tokens_of_plain_sampling(result: UpstreamResult) -> None:
    assert result.sglang.seeded_share < 0.5
    assert result.ours.seeded_share == 1.0


def test_thresholds_and_logit_processors_are_refused(result: UpstreamResult) -> None:
    assert result.sglang.threshold_error == result.sglang.processor_error == ""
    assert "change the distribution" in result.ours.threshold_error
    assert "custom logit processors" in result.ours.processor_error


def test_every_token_counts_towards_a_minimum_length(result: UpstreamResult) -> None:
    """SGLang counts rounds instead."""
    assert result.sglang_counted_tokens == 1
    assert result.our_counted_tokens == 4


def test_simulated_acceptance_is_refused(result: UpstreamResult) -> None:
    assert result.simulated_accept_length == pytest.approx(2.0)
    assert "responses would not be the model's" in result.simulation_error


def test_nothing_is_accepted_for_a_penalized_request(result: UpstreamResult) -> None:
    """SGLang applies one round's penalties to all of its tokens, and counts only the last one."""
    assert result.sglang.penalized_accepted_tokens == 2
    assert result.ours.penalized_accepted_tokens == 0
