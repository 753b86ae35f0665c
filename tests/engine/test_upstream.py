"""Where SGLang 0.5.23 by itself is not lossless, and that with our hooks it is. Fails when SGLang changes either."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

LEVEL = 0.001


@pytest.fixture(scope="module")
def told(play: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    return play("scenes_upstream.upstream")


def test_sglang_by_itself_takes_the_argmax_on_a_cpu(told: dict[str, Any]) -> None:
    assert told["argmax"] == 1


@pytest.mark.parametrize("setting", ["top-k with top-p", "min-p", "repeated siblings"])
def test_sglang_by_itself_draws_from_another_distribution(told: dict[str, Any], setting: str) -> None:
    assert told["sglang"][setting] < 1e-6


@pytest.mark.parametrize("setting", ["temperature", "top-k with top-p", "min-p", "repeated siblings"])
def test_first_tokens_follow_the_exact_distribution(told: dict[str, Any], setting: str) -> None:
    assert told["ours"][setting] > LEVEL


def test_a_seed_draws_the_tokens_of_plain_sampling(told: dict[str, Any]) -> None:
    assert told["sglang"]["seed"] < 0.5
    assert told["ours"]["seed"] == 1.0


def test_thresholds_and_logit_processors_are_refused(told: dict[str, Any]) -> None:
    assert told["sglang"]["threshold"] == told["sglang"]["processor"] == ""
    assert "change the distribution" in told["ours"]["threshold"]
    assert "custom logit processors" in told["ours"]["processor"]


def test_every_token_counts_towards_a_least_length(told: dict[str, Any]) -> None:
    """SGLang counts rounds."""
    assert told["counted"] == {"sglang": 1, "ours": 4}


def test_simulated_acceptance_is_refused(told: dict[str, Any]) -> None:
    assert told["simulated"] == pytest.approx(2.0)
    assert "responses would not be the model's" in told["simulation"]


def test_nothing_is_accepted_for_a_penalised_request(told: dict[str, Any]) -> None:
    """SGLang applies one round's penalties to all of its tokens, and counts only the last."""
    assert told["sglang"]["accepted of a penalised request"] == 2
    assert told["ours"]["accepted of a penalised request"] == 0
