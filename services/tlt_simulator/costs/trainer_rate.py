"""
Training speed of a spot trainer on a card, calculated from the operations of its loss and optimizer. Pure.

Every micro-step is followed by a Muon step, whose five Newton-Schulz iterations multiply each matrix by its own
products (arXiv 2502.16982). For 7B and more, this takes most of the time.
"""

from typing import Final

from tlt_worker.capacity.memory.trainer import BATCH_TOKENS, PASSES
from tlt_worker.capacity.rounds import Speed
from tlt_worker.capacity.shape import DraftShape, ModelShape

TRAINING_SHARE: Final = 0.4
"""Assumed share of a card's dense rate that training reaches, 400 TFLOP/s of an H100."""
SCORING_SHARE: Final = 1 / 12
"""Share of a trainer's time spent on scoring (`HELD_OUT_PART` of tlt_trainer/config.py)."""
ITERATIONS: Final = 5
"""Newton-Schulz iterations in an optimizer step."""


def learned_tokens_s(drafter: DraftShape, target: ModelShape, speed: Speed) -> float:
    """Return the states per second that one GPU learns from."""
    head = target.vocab * target.hidden
    # Forward and backward: 6 operations for a trained weight, 4 for a frozen one; the policy's own head once.
    state = PASSES[drafter.architecture] * (6 * drafter.parameters + 4 * head) + 2 * head
    operations = BATCH_TOKENS * state + _optimizer_operations(drafter, target)
    return (1 - SCORING_SHARE) * BATCH_TOKENS * speed.tflops * 1e12 * TRAINING_SHARE / operations


def _optimizer_operations(drafter: DraftShape, target: ModelShape) -> float:
    """Return the operations of an optimizer step for a drafter with matrices as in EAGLE's layers."""
    hidden = target.hidden
    queries, keys = drafter.heads * drafter.head_dim, drafter.kv_heads * drafter.head_dim
    layer = [(hidden, drafter.intermediate)] * 3 + [(hidden, queries)] * 2 + [(hidden, keys)] * 2
    return drafter.layers * sum(_orthogonalised(*shape) for shape in layer) + _orthogonalised(hidden, 2 * hidden)


def _orthogonalised(rows: int, columns: int) -> float:
    small, large = sorted((rows, columns))
    return ITERATIONS * (4.0 * small**2 * large + 2.0 * small**3)
