"""
The fixed form has the shapes it should for real models, and none of them depends on data.

Tensors on the meta device have shapes but no values: what asks for a value, or for a shape that depends on one, raises.
"""

from typing import NamedTuple

import pytest
import torch

from tests.unit.tlt_worker.scheduler.sampling.meta_rounds import accept, cuts, meta
from tlt_worker.scheduler.sampling.filters import truncate
from tlt_worker.scheduler.sampling.forms import FORMS, Form


class Shape(NamedTuple):
    """Sizes of a round: requests, tokens to verify per request, vocabulary."""

    requests: int
    nodes: int
    vocabulary: int


SHAPES = {
    "7B": Shape(64, 8, 152064),
    "32B": Shape(32, 16, 151936),
    "70B": Shape(512, 2, 128256),
    "off": Shape(512, 1, 152064),
    "one request, wide": Shape(1, 64, 151936),
}


@pytest.fixture(params=[pytest.param(shape, id=name) for name, shape in SHAPES.items()])
def shape(request: pytest.FixtureRequest) -> Shape:
    found: Shape = request.param
    return found


def test_a_filter_keeps_the_shape(shape: Shape) -> None:
    rows = shape.requests * shape.nodes
    probs = truncate(meta(rows, shape.vocabulary), cuts(rows))
    assert probs.shape == (rows, shape.vocabulary)
    assert probs.dtype == torch.float32


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("is_tree", [False, True])
def test_drafts_are_accepted_without_asking_for_a_value(shape: Shape, is_tree: bool, filtered: bool) -> None:
    accept(*shape, depth=min(shape.nodes, 8) if is_tree else None, filtered=filtered)


def test_the_other_form_does_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """So these tests would notice: it finds rows by their values."""
    monkeypatch.setitem(FORMS, "meta", Form.FEW)
    with pytest.raises(NotImplementedError):
        truncate(meta(4, 32), cuts(4))
