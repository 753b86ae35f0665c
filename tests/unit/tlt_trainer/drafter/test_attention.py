"""All attention is the same attention: rows or variable lengths, by torch's kernels or written out."""

import logging
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.unit.tlt_trainer.tiny import CPU
from tlt_trainer.drafter.attention.causal import CausalAttention
from tlt_trainer.drafter.attention.choice import attention_for, computes, difference
from tlt_trainer.drafter.attention.layout import PackLayout
from tlt_trainer.drafter.attention.row_kernels import CpuFlash, Written
from tlt_trainer.drafter.attention.rows import PADDED, RowAttention, runs_of
from tlt_trainer.drafter.attention.varlen import GpuFlash, Varlen

HEADS, SIZE = 2, 8
samples = st.lists(st.integers(1, 20), min_size=1, max_size=6).map(sorted)


class FakeFlash(GpuFlash):
    """What a GPU's kernel computes, sample by sample."""

    def forward(
        self, q_QND: Tensor, k_QND: Tensor, v_QND: Tensor, edges: Tensor, longest: int
    ) -> tuple[Tensor, Tensor]:
        found = [CpuFlash().forward(*(_row(x) for x in xs)) for xs in _samples(edges, longest, q_QND, k_QND, v_QND)]
        outs, sums = zip(*found, strict=True)
        return torch.cat([out[0].transpose(0, 1) for out in outs]), torch.cat([lse[0] for lse in sums], dim=-1)

    def backward(
        self,
        grad_QND: Tensor,
        q_QND: Tensor,
        k_QND: Tensor,
        v_QND: Tensor,
        out_QND: Tensor,
        lse_NQ: Tensor,
        edges: Tensor,
        longest: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        tensors = grad_QND, q_QND, k_QND, v_QND, out_QND, lse_NQ.transpose(0, 1)[..., None]
        found = []
        for xs in _samples(edges, longest, *tensors):
            grad, q, k, v, out, lse = (_row(x) for x in xs)
            found.append(CpuFlash().backward(grad, q, k, v, out, lse[..., 0]))
        dq, dk, dv = (torch.cat([x[0].transpose(0, 1) for x in xs]) for xs in zip(*found, strict=True))
        return dq, dk, dv


def _samples(edges: Tensor, longest: int, *tensors: Tensor) -> list[list[Tensor]]:
    assert edges.dtype == torch.int32
    sizes = edges.diff().tolist()
    assert max(sizes) == longest
    assert sum(sizes) == len(tensors[0])
    parts = zip(*(torch.split(x, sizes) for x in tensors), strict=True)
    return [list(xs) for xs, size in zip(parts, sizes, strict=True) if size]


def _row(x_QND: Tensor) -> Tensor:
    return x_QND.transpose(0, 1)[None]


def drawn(tokens: int, count: int, seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(HEADS, tokens, SIZE, generator=generator, dtype=torch.float64) for _ in range(count)]


def by_definition(layout: PackLayout, q: Tensor, k: Tensor, v: Tensor, lag: int) -> tuple[Tensor, Tensor]:
    """Over the whole pack at once."""
    sample = torch.arange(len(layout.lengths)).repeat_interleave(torch.tensor(layout.lengths))
    unseen = (sample[:, None] != sample) | (layout.offsets > layout.offsets[:, None] - lag)
    scores = (q @ k.transpose(-1, -2) * SIZE**-0.5).masked_fill(unseen, float("-inf"))
    return scores.softmax(-1).nan_to_num() @ v, scores.logsumexp(-1)


def kinds(layout: PackLayout) -> list[CausalAttention]:
    return [RowAttention(layout, CpuFlash()), RowAttention(layout, Written()), Varlen(layout, FakeFlash())]


@settings(deadline=None)
@given(samples, st.integers(0, 6), st.integers(0, 100))
def test_each_query_sees_the_keys_of_its_sample_up_to_the_lag(lengths: list[int], lag: int, seed: int) -> None:
    layout = PackLayout.of(lengths, CPU)
    q, k, v = drawn(layout.tokens, 3, seed)
    for attention in kinds(layout):
        found = attention.forward(q, k, v, lag)
        for one, expected in zip(found, by_definition(layout, q, k, v, lag), strict=True):
            torch.testing.assert_close(one, expected, rtol=1e-9, atol=1e-9)


@settings(deadline=None)
@given(samples, st.integers(0, 6), st.integers(0, 100))
def test_gradients_are_those_of_the_whole_softmax_that_this_is_a_part_of(
    lengths: list[int], lag: int, seed: int
) -> None:
    layout = PackLayout.of(lengths, CPU)
    grad, q, k, v, own_k, own_v = drawn(layout.tokens, 6, seed)
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    part, lse = by_definition(layout, q, k, v, lag)
    score = (q.detach() * own_k).sum(-1)
    joint = torch.logaddexp(lse, score)
    out = part * (lse - joint).exp()[..., None] + own_v * (score - joint).exp()[..., None]
    expected = torch.autograd.grad(out, (q, k, v), grad)
    for attention in kinds(layout):
        found = attention.backward(grad, q.detach(), k.detach(), v.detach(), out.detach(), joint.detach(), lag)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other.nan_to_num(), rtol=1e-9, atol=1e-9)


def test_torchs_kernel_for_gpus_accepts_what_it_is_given() -> None:
    """Types, sizes and order of arguments, as torch itself declares them; computes nothing."""
    with FakeTensorMode():
        q, k, v, out, grad = (torch.empty(60, 4, 64, dtype=torch.bfloat16, device="cuda") for _ in range(5))
        edges = torch.empty(4, dtype=torch.int32, device="cuda")
        found, lse = GpuFlash().forward(q, k, v, edges, 33)
        assert (found.shape, lse.shape, lse.dtype) == (q.shape, (4, 60), torch.float32)
        gradients = GpuFlash().backward(grad, q, k, v, out, lse, edges, 33)
        assert [x.shape for x in gradients] == [q.shape] * 3


def test_a_device_whose_kernel_fails_pads_samples_and_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not computes(CPU, torch.bfloat16, 64)
    assert "no variable-length attention on cpu, samples are padded instead" in caplog.text


def test_a_difference_that_is_no_number_is_none_that_passes() -> None:
    fine, broken = torch.ones(2), torch.tensor([1.0, float("nan")])
    off = difference([fine, broken, fine], [fine, fine, fine])
    assert math.isnan(off)


def test_a_cpu_computes_rows() -> None:
    layout = PackLayout.of([3, 4], CPU)
    assert isinstance(attention_for(layout, torch.zeros(2, 7, 8)), RowAttention)


@given(samples)
def test_runs_hold_all_samples_with_little_padding(lengths: list[int]) -> None:
    runs = runs_of(lengths)
    assert [length for run in runs for length in run] == lengths
    assert all(len(run) * run[-1] <= PADDED * sum(run) for run in runs)


@given(samples, st.integers(0, 5))
def test_a_shift_stays_within_samples(lengths: list[int], n: int) -> None:
    layout = PackLayout.of(lengths, CPU)
    sample = torch.arange(1.0, layout.tokens + 1)
    shifted, first = layout.later_by(sample[:, None], n)[:, 0].tolist(), 0
    for length in lengths:
        whole = [float(first + place + 1) for place in range(length)]
        assert shifted[first : first + length] == ([0.0] * n + whole)[:length]
        first += length
