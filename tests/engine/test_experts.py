"""Mixtures of experts on the real engine."""

import pytest

from tests.engine import host
from tests.engine.scenes import experts

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


def test_updates_in_either_spelling_serve_the_same_weights(play: host.Play) -> None:
    result = play(experts.spellings)
    assert list(result.stacked.token_ids) == result.expected
    assert result.stacked.token_ids == result.apart.token_ids
