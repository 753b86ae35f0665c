"""What the trainer computes for a block is what SGLang computes: logits of both, for every format."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.block_agreement import BlockAgreement, block_agreement

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

MAX_DIFFERENCE = 1e-5
"""Of logits with a standard deviation above 0.5, in float32. Not 0: SGLang multiplies queries, keys and values by one
matrix, and gate and up of the MLP by another, so that sums are made in another order."""


@pytest.fixture(scope="module")
def result(play: Play) -> list[BlockAgreement]:
    return play(block_agreement)


def test_logits_are_equal(result: list[BlockAgreement]) -> None:
    formats = {("none", False), *((head, way) for head in ("vanilla", "gated", "rnn") for way in (False, True))}
    assert {(one.head, one.anchored, one.family) for one in result} == {
        (*form, family) for form in formats for family in ("llama", "qwen3")
    }
    for one in result:
        print(f"{one.head} for {one.family}: {one.difference:.1e} of {one.spread:.2f}")  # noqa: T201 - with pytest -s
        assert one.spread > 0.5
        assert one.difference < MAX_DIFFERENCE, one
