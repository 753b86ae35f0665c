"""What a round allocates to draw its tokens is what the plan allows for."""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from tlt_common.domain.prompt import LogprobKind
from tlt_worker.capacity.memory.memory import DRAW_BYTES
from tlt_worker.scheduler.sampling import acceptance, logprobs
from tlt_worker.scheduler.sampling.acceptance import VerifyRound, verifying
from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.forms import FORMS, Form

BATCH, VOCABULARY = 4, 20_000
FLOAT = 4
SLACK = 0.05
"""Of what does not grow with the vocabulary."""


@pytest.fixture(autouse=True)
def _kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allocate what the Triton kernels allocate, which run on a GPU only."""
    monkeypatch.setitem(FORMS, "cpu", Form.FIXED)
    for module in (acceptance, logprobs):
        monkeypatch.setattr(module, "truncate", lambda probs, cuts: torch.empty_like(probs))
    monkeypatch.setattr(acceptance, "draw", lambda weights, coins: torch.zeros(len(weights), dtype=torch.int64))
    monkeypatch.setattr(acceptance, "drawn", lambda probs, seeds, positions, otherwise: otherwise().clone())


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the most that was allocated at once."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        work()
    profiler: Any = profiled.profiler
    now = most = 0
    for event in profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    assert most > 0
    return most


def verification(nodes: int, *, is_tree: bool, seeds: Tensor | None) -> Callable[[], None]:
    """Return a verification as SGLang does it, from logits on."""
    links = torch.arange(nodes).expand(BATCH, -1).clone()
    logits, proposed = torch.randn(BATCH * nodes, VOCABULARY), torch.zeros(BATCH, max(1, nodes - 1), VOCABULARY)
    cuts = Cuts(top_ks=torch.full((BATCH,), 5), top_ps=torch.full((BATCH,), 0.9), min_ps=torch.zeros(BATCH))
    rule = acceptance.tree_speculative_sampling_target_only if is_tree else acceptance.accept_chain

    def verify() -> None:
        probs = torch.softmax(logits / 0.7, -1).view(BATCH, nodes, VOCABULARY)
        token = verifying.set(VerifyRound(cuts=cuts, seeds=seeds, positions=links))
        try:
            rule(
                torch.zeros(BATCH * nodes, dtype=torch.int32),
                torch.zeros(BATCH, nodes, dtype=torch.int32),
                torch.zeros(BATCH, dtype=torch.int32),
                candidates=links,
                retrive_index=links,
                retrive_next_token=links,
                retrive_next_sibling=links,
                uniform_samples=torch.rand(BATCH, nodes),
                uniform_samples_for_final_sampling=torch.rand(BATCH),
                target_probs=probs,
                draft_probs=torch.zeros_like(probs) if is_tree else proposed,
            )
        finally:
            verifying.reset(token)

    return verify


@pytest.mark.parametrize("seeds", [None, torch.arange(BATCH)], ids=["no seeds", "seeds"])
@pytest.mark.parametrize(("nodes", "is_tree"), [(1, False), (2, False), (8, False), (4, True), (16, True)])
def test_verification(nodes: int, *, is_tree: bool, seeds: Tensor | None) -> None:
    found = peak_bytes(verification(nodes, is_tree=is_tree, seeds=seeds)) / (BATCH * nodes * VOCABULARY)
    assert found <= DRAW_BYTES * (1 + SLACK)
    if nodes > 2:
        assert found <= 3 * FLOAT * (1 + SLACK)


@pytest.mark.parametrize(
    "kinds", [[LogprobKind.RAW], [LogprobKind.TRUNCATED], [LogprobKind.RAW, LogprobKind.TRUNCATED]]
)
def test_logprobs_of_other_kinds(kinds: Sequence[LogprobKind]) -> None:
    nodes = 4
    logits, rows = torch.randn(BATCH * nodes, VOCABULARY), torch.arange(BATCH).repeat_interleave(nodes)
    every = torch.arange(BATCH * nodes)
    info = SimpleNamespace(
        temperatures=torch.ones(BATCH, 1),
        need_top_k_sampling=True,
        need_top_p_sampling=True,
        need_min_p_sampling=True,
        top_ks=torch.full((BATCH,), 5),
        top_ps=torch.full((BATCH,), 0.9),
        min_ps=torch.zeros(BATCH),
    )
    each = [kinds[row % len(kinds)] for row in range(BATCH * nodes)]
    found = peak_bytes(lambda: logprobs.logprobs_of(logits[every], torch.zeros_like(every), each, info, rows))
    assert DRAW_BYTES * (1 - SLACK) <= found / (BATCH * nodes * VOCABULARY) <= DRAW_BYTES * (1 + SLACK)
