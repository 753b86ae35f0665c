"""What a CPU drafts without SGLang's steps is what these draft."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.eager_chain import Chains, chains

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

MAX_DIFFERENCE = 1e-4
"""Of logarithms of probabilities with a standard deviation above 0.5, in float32."""


@pytest.fixture(scope="module")
def result(play: Play) -> list[Chains]:
    return play(chains)


def test_distributions_are_those_of_sglangs_model(result: list[Chains]) -> None:
    assert [one.family for one in result] == ["llama", "qwen2", "qwen3"]
    for one in result:
        assert one.spread > 0.5
        assert one.difference < MAX_DIFFERENCE, one


def test_drafts_follow_each_requests_settings(result: list[Chains]) -> None:
    assert all(one.is_most_likely for one in result)
    assert all(one.is_greedy for one in result)
    assert all(one.is_spread for one in result)
    assert all(one.is_seeded for one in result)


def test_a_verified_round_is_processed_as_by_sglangs_model(result: list[Chains]) -> None:
    for one in result:
        assert one.extended < MAX_DIFFERENCE, one
