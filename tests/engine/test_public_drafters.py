"""Public drafters start in the engine as they are: EAGLE and EAGLE-3 by their authors, SpecForge and speculators."""

import pytest

from tests.engine import host
from tests.engine.scenes import public
from tests.engine.scenes.answers import accepted, rounds
from tests.engine.scenes.public import PublicResult

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("scene", [public.eagle, public.eagle_3], ids=lambda scene: scene.__name__)
def test_the_same_weights_draft_the_same_in_every_layout(play: host.Play, scene: host.Scene[PublicResult]) -> None:
    result = play(scene)
    assert len(result.answers) == 3
    assert all(list(chunk.token_ids) == result.expected for chunk in result.answers.values())
    found = {name: (rounds([chunk]), accepted([chunk])) for name, chunk in result.answers.items()}
    assert len(set(found.values())) == 1, found
    assert min(kept for _, kept in found.values()) > 5
    assert all(result.continued.values())
