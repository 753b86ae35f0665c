"""Mixtures of experts on the real engine."""

import numpy as np
import pytest

from tests.engine import host
from tests.engine.scenes import experts
from tests.engine.scenes.engine import PROMPT
from tests.engine.scenes.experts import ARMS, RoutedAnswer

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


def test_updates_in_either_spelling_serve_the_same_weights(play: host.Play) -> None:
    result = play(experts.spellings)
    assert list(result.stacked.token_ids) == result.expected
    assert result.stacked.token_ids == result.apart.token_ids


def require_equal(answer: RoutedAnswer, first: int = 0) -> None:
    assert answer.first == first
    assert answer.returned.shape == (len(answer.tokens) - 1 - first, 2, 2)
    assert np.array_equal(answer.returned, answer.expected)


def test_routed_experts_are_those_of_a_recomputation_under_every_arm(play: host.Play) -> None:
    found = play(experts.routed_by_arm)
    for arm in ARMS:
        for answer in found[arm]:
            require_equal(answer)
        if arm not in {"off", "ngram-5"}:
            accepted, proposed_once = sum(answer.accepted for answer in found[arm]), sum(20 + 9 * i for i in range(4))
            assert 0 < accepted < proposed_once, f"{arm}: some drafts are accepted and some rejected"


@pytest.mark.parametrize("scene", [experts.routed_glm, experts.routed_gpt_oss], ids=lambda scene: scene.__name__)
def test_every_mixture_returns_its_experts(play: host.Play, scene: host.Scene[list[RoutedAnswer]]) -> None:
    for answer in play(scene):
        require_equal(answer)


def test_routed_experts_follow_a_response_through_caches_attempts_and_updates(play: host.Play) -> None:
    found = play(experts.routed_ways)
    for answer in (found.cached, found.resumed, found.one, *found.updated):
        require_equal(answer)
    assert found.cached.cached > 20
    require_equal(found.response_only, first=len(PROMPT))
    assert found.unasked.routed_experts is None
