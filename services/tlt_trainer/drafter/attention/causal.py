"""
Causal attention within samples, and its gradients.

Keys of later passes are handled elsewhere. As in ring attention, parts of one softmax are computed separately: each
part returns its logsumexp, with which the parts are merged; given the merged output and the joint logsumexp, the
backward pass of a part returns its share of the gradients of the whole.

Shapes: P states of a pack, N heads, D head size.
"""

from typing import Protocol

from torch import Tensor


class CausalAttention(Protocol):
    """
    Attention from the query of each state to the keys of its sample up to `lag` before it.

    The first `lag` states of a sample have no key: their output is 0, their logsumexp -inf, their gradients 0.
    """

    def forward(self, q_NPD: Tensor, k_NPD: Tensor, v_NPD: Tensor, lag: int) -> tuple[Tensor, Tensor]:
        """Return the output, (N, P, D), and the logsumexp of the scores, (N, P)."""

    def backward(
        self, grad_NPD: Tensor, q_NPD: Tensor, k_NPD: Tensor, v_NPD: Tensor, out_NPD: Tensor, lse_NP: Tensor, lag: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of queries, keys and values, given the merged output and the joint logsumexp."""
