"""SGLang captures the planned graphs. Capturing itself needs a GPU and is not tested here."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes import graphs
from tests.engine.scenes.graphs import GraphsResult

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def result(play: Play) -> GraphsResult:
    return play(graphs.sizes)


def test_sglang_captures_the_planned_batch_sizes_of_an_arm(result: GraphsResult) -> None:
    assert result.batch_sizes["chain-3"] == [1, 2, 4]
    assert result.batch_sizes["tree-2x4-8"] == [1, 2]


def test_an_arm_of_the_same_shape_captures_nothing_and_uses_the_others(result: GraphsResult) -> None:
    assert result.batch_sizes["tree-4x2-8"] is None
    assert result.verified_with["tree-4x2-8"] == "tree-2x4-8"


def test_an_arm_without_planned_graphs_captures_nothing(result: GraphsResult) -> None:
    assert result.batch_sizes["chain-7"] is None
    assert result.verified_with["chain-7"] == "chain-7"


def test_sglangs_configuration_is_restored(result: GraphsResult) -> None:
    assert result.is_restored


def test_off_decodes_plainly_above_the_largest_captured_batch(result: GraphsResult) -> None:
    """Verifying one node per request without a graph would be more work for the same token."""
    assert result.decodes == {1: False, 4: False, 5: True}
    assert result.decodes_without_graphs
