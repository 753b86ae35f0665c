"""SGLang captures the planned graphs. Capturing itself needs a GPU and is not tested here."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes import graphs
from tests.engine.scenes.graphs import DecodingGraphs, GraphsResult

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


def test_off_decodes_with_graphs_of_plain_decoding(result: GraphsResult) -> None:
    """Verification of one node per request would launch several times the kernels for the same token."""
    assert result.decoding == DecodingGraphs(sizes=[1, 2, 8], speculates=False, states="FULL")
    assert result.batch_sizes["off"] is None, "no graphs of verification"


def test_off_without_planned_graphs_captures_nothing(result: GraphsResult) -> None:
    assert result.decoding_unplanned is None


def test_the_graphs_of_a_chain_draw_with_each_requests_seed(result: GraphsResult) -> None:
    """In SGLang's, seeds are read in its deterministic mode only, so that drafts matched fewer of a seed's tokens."""
    assert result.captured_seeds == [-1] * 4
    assert result.replayed_seeds == [[5, 6], [-1, -1], [-1, 7]]
    assert result.seeds_are_restored
