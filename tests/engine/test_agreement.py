"""What the trainer computes is what SGLang drafts with: logits of both, for every kind of drafter."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.agreement import Agreement, agreement, heads, variants

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

MAX_DIFFERENCE = 1e-4
"""Of logits with a standard deviation above 0.5, in float32."""


@pytest.fixture(scope="module")
def result(play: Play) -> list[Agreement]:
    return play(agreement)


def test_logits_are_equal(result: list[Agreement]) -> None:
    assert {(one.kind, one.family) for one in result} == {
        (kind, family) for kind in ("eagle", "eagle3") for family in ("llama", "qwen2", "qwen3")
    }
    for one in result:
        print(f"{one.kind} for {one.family}: {one.difference:.1e} of {one.spread:.2f}")  # noqa: T201 - with pytest -s
        assert one.spread > 0.5
        assert one.difference < MAX_DIFFERENCE, one


def test_variants_of_eagle_drafters_are_computed_alike(play: Play) -> None:
    for one in play(variants):
        print(f"{one.family}: {one.difference:.1e} of {one.spread:.2f}")  # noqa: T201 - with pytest -s
        assert one.spread > 0.2
        assert one.difference == 0, one


def test_heads_that_checkpoints_bring_are_computed_alike(play: Play) -> None:
    """Experts are added up in another order, which is all that differs."""
    found = {one.family: one for one in play(heads)}
    assert found.keys() == {"glm4_moe", "mimo"}
    assert min(one.spread for one in found.values()) > 0.5
    assert found["mimo"].difference == 0
    assert found["glm4_moe"].difference < 1e-5
