"""
Muon (Keller Jordan et al., 2024): steps along the orthogonal matrix closest to the momentum.

Equals torch.optim.Muon, except that that one orthogonalizes in bfloat16 on every device, which takes CPUs without
native bfloat16 far longer than all training passes.
"""

import math
from collections.abc import Callable, Iterable
from typing import overload

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
ROUNDS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic Newton-Schulz iteration: singular values come near 1 in few rounds, though not to it."""
EPS = 1e-7


class Muon(torch.optim.Optimizer):
    """
    Muon optimizer for matrices.

    Args:
        matrices: Parameters of two dimensions.
        lr: Rate; scaled by the square root of rows over columns for tall ones.
        weight_decay: Share of a weight that a step removes, in units of the learning rate.
        dtype: Type in which to orthogonalize.
    """

    def __init__(self, matrices: Iterable[nn.Parameter], *, lr: float, weight_decay: float, dtype: torch.dtype) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})
        self._dtype = dtype

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Apply the gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is not None:
                    self._move(matrix, group["lr"], group["weight_decay"])
        return loss

    def _move(self, matrix: nn.Parameter, lr: float, weight_decay: float) -> None:
        gradient = matrix.grad
        assert gradient is not None  # noqa: S101 - the caller looked
        state = self.state[matrix]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(gradient)
        momentum = state["momentum_buffer"].lerp_(gradient, 1 - MOMENTUM)
        along = orthogonal(gradient.lerp(momentum, MOMENTUM), self._dtype)  # Nesterov
        matrix.mul_(1 - lr * weight_decay)
        matrix.add_(along, alpha=-lr * math.sqrt(max(1.0, matrix.shape[0] / matrix.shape[1])))


def orthogonal(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a matrix with the same singular vectors and singular values between about 0.7 and 1.2, in this type."""
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.to(dtype, copy=True)
    x = x.T if is_tall else x
    x.div_(x.norm().clamp(min=EPS))
    a, b, c = COEFFICIENTS
    for _ in range(ROUNDS):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x
