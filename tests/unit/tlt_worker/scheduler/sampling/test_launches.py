"""A round of the fixed form launches as many kernels as the functions say: each takes the host's time."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.unit.tlt_worker.scheduler.sampling.meta_rounds import accept, cuts, meta
from tlt_bench.gpu_loop.launches import Launches
from tlt_worker.scheduler.sampling import acceptance, filters, threshold

VOCABULARY = 1000


def said(function: Callable[..., Any]) -> list[int]:
    """The numbers in the sentence of a docstring that tells the launches."""
    sentence = re.search(r"On a GPU it launches [^.]*", function.__doc__ or "")
    assert sentence
    return [int(number) for number in re.findall(r"\d+", sentence[0])]


def launches(call: Callable[[], object]) -> int:
    with Launches() as counted:
        call()
    total: int = counted.count
    return total


@pytest.mark.parametrize("batch", [1, 64])
def test_a_chain(batch: int) -> None:
    with_drafts, without = said(acceptance.accept_chain)
    for nodes in (2, 4, 8):
        assert launches(lambda nodes=nodes: accept(batch, nodes, VOCABULARY)) == with_drafts  # type: ignore[misc]
    assert launches(lambda: accept(batch, 1, VOCABULARY)) == without


@pytest.mark.parametrize("nodes", [4, 16, 64])
@pytest.mark.parametrize("depth", [2, 5])
def test_a_tree(nodes: int, depth: int) -> None:
    always, per_level = said(acceptance.tree_speculative_sampling_target_only)
    found = launches(lambda: accept(8, nodes, VOCABULARY, depth=depth))
    assert found == always + per_level * depth + nodes.bit_length()


def test_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    def kernel(probs_MV: Tensor, most_M1: Tensor, mass_M1: Tensor) -> Tensor:
        del most_M1, mass_M1
        return torch.zeros(len(probs_MV), 1, device=probs_MV.device)  # counts as the launch of the Triton kernel

    in_torch = launches(lambda: filters.truncate(meta(8, VOCABULARY), cuts(8)))
    monkeypatch.setattr(threshold, "_threshold", kernel)
    found = launches(lambda: filters.truncate(meta(8, VOCABULARY), cuts(8)))
    assert [found] == said(threshold.truncate)
    assert in_torch > 8 * found
