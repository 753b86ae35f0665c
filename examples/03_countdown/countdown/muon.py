"""
Muon: momentum that is orthogonalised before it is applied (Jordan et al., 2024).

Only for the matrices inside layers; AdamW updates embeddings, output head and norms.
"""

from collections.abc import Callable, Iterable
from typing import Final

import torch
from torch import Tensor

NEWTON_SCHULZ: Final = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration in Jordan et al., tuned for a steep slope at zero."""

NEWTON_SCHULZ_STEPS: Final = 5


def orthogonalise(matrix_RC: Tensor) -> Tensor:
    """Return approximately the nearest matrix with all singular values 1; they end up between 0.7 and 1.2."""
    first, third, fifth = NEWTON_SCHULZ
    tall = matrix_RC.shape[0] > matrix_RC.shape[1]
    x: Tensor = matrix_RC.T if tall else matrix_RC
    x = x / (x.norm() + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        gram = x @ x.T
        x = first * x + (third * gram + fifth * gram @ gram) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Orthogonalised Nesterov momentum with decoupled weight decay. Every parameter must be a matrix."""

    def __init__(
        self, parameters: Iterable[Tensor], lr: float, *, momentum: float = 0.95, weight_decay: float = 0.02
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Apply the gradients once. `closure` exists for compatibility and must be None."""
        if closure is not None:
            raise ValueError("Muon does not support closures; call backward before step")
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group["lr"], group["momentum"], group["weight_decay"])

    def _update(self, parameter: Tensor, gradient: Tensor, lr: float, momentum: float, weight_decay: float) -> None:
        average: Tensor = self.state[parameter].setdefault("average", torch.zeros_like(parameter))
        average.lerp_(gradient, 1 - momentum)
        direction = orthogonalise(gradient.lerp(average, momentum))
        rows, columns = parameter.shape
        parameter.mul_(1 - lr * weight_decay).add_(direction, alpha=-lr * max(1.0, rows / columns) ** 0.5)
