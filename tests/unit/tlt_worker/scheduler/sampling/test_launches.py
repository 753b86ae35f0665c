"""A round of the fixed form launches as many kernels as the functions say: each takes the host's time."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.unit.tlt_worker.scheduler.sampling.meta_rounds import accept
from tlt_bench.gpu_loop.launches import Launches
from tlt_worker.scheduler.sampling import acceptance

VOCABULARY = 1000


def said(function: Callable[..., Any]) -> list[int]:
    """The numbers in the sentence of a docstring that tells the launches."""
    sentence = re.search(r"In torch, this takes [^.]*", function.__doc__ or "")
    assert sentence
    return [int(number) for number in re.findall(r"\d+", sentence[0])]


def launches(call: Callable[[], object]) -> int:
    with Launches() as counted:
        call()
    total: int = counted.count
    return total


@pytest.fixture(autouse=True)
def _kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw by one launch, as the Triton kernels do that run on a GPU only."""
    monkeypatch.setattr(acceptance, "draw", lambda rows, coins: torch.zeros_like(coins, dtype=torch.int64))


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
