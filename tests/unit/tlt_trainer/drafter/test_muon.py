"""Muon: the same as PyTorch's where that is fast, and as good in float32."""

import pytest
import torch
from torch import nn

from tlt_trainer.drafter.muon import Muon, orthogonal

SHAPES = ((12, 20), (20, 12), (16, 16))


def _matrices(seed: int) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def _steps(optimizer: torch.optim.Optimizer, matrices: list[nn.Parameter]) -> None:
    generator = torch.Generator().manual_seed(7)
    for _ in range(4):
        for matrix in matrices:
            matrix.grad = torch.randn(matrix.shape, generator=generator)
        optimizer.step()


def test_in_bfloat16_it_is_the_optimizer_of_pytorch() -> None:
    ours, theirs = _matrices(1), _matrices(1)
    muon, reference = (
        Muon(ours, lr=0.03, weight_decay=0.02, dtype=torch.bfloat16),
        torch.optim.Muon(theirs, lr=0.03, weight_decay=0.02),
    )
    _steps(muon, ours)
    _steps(reference, theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert torch.equal(mine, other)
        assert torch.equal(muon.state[mine]["momentum_buffer"], reference.state[other]["momentum_buffer"])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_direction_is_nearly_orthogonal(shape: tuple[int, int], dtype: torch.dtype) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    before = matrix.clone()
    found = orthogonal(matrix, dtype).float()
    assert torch.equal(matrix, before)
    values = torch.linalg.svdvals(found)
    assert 0.5 < float(values.min()) <= float(values.max()) < 1.4
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    assert float((u.T @ found @ v.T).diagonal().min()) > 0.5  # the matrix's own singular vectors


def test_a_matrix_without_gradient_stays() -> None:
    matrices = _matrices(3)
    before = matrices[0].detach().clone()
    Muon(matrices, lr=0.03, weight_decay=0.02, dtype=torch.float32).step()
    assert torch.equal(matrices[0], before)
