"""
Memory of a spot trainer on a GPU. Pure.

It follows `tlt_trainer`: float32 weights of one layer with a running average, gradients and momentum; embedding and
head in bfloat16; in a micro-step the float32 distributions of the policy and of every pass over the vocabulary.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tlt_worker.capacity.shape import ModelShape

BATCH_TOKENS, MIN_BATCH_TOKENS = 512, 64
"""`data.batch_tokens` of the trainer, and the smallest batch it halves it to when memory is short."""
PASSES = 3
"""Unrolled passes of the loss."""
CONTEXT_BYTES = 512 * 2**20
"""CUDA context and libraries, which are outside PyTorch's limit."""
FLOAT, HALF = 4, 2
COPIES = 4
"""Weights, their average, gradients and momentum."""
SPARE = 1.1
"""Share that PyTorch's allocator takes for what is used, by fragmentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerMemory:
    """Bytes of a trainer whose micro-steps have so many tokens."""

    shape: ModelShape
    batch_tokens: int = BATCH_TOKENS

    @property
    def learned(self) -> int:
        """Weights, average, gradients and momentum."""
        return COPIES * self.shape.drafter_parameters * FLOAT

    @property
    def shared(self) -> int:
        """Embedding and head."""
        return self.shape.vocabulary_parameters * HALF

    @property
    def peak(self) -> int:
        """The largest of what comes and goes: a micro-step, a score of another drafter, a step of the optimizer."""
        shape, tokens = self.shape, self.batch_tokens
        parameters, scores = shape.drafter_parameters, tokens * shape.vocab
        activations = PASSES * tokens * (12 * shape.hidden + 4 * shape.intermediate + shape.heads * tokens * 4) * HALF
        cast = parameters * HALF
        # Saved per pass: log-probabilities. At once besides: the policy's, logits in both types, and their gradients.
        step = cast + activations + scores * ((PASSES + 4) * FLOAT + HALF)
        score = cast + parameters * FLOAT + activations // PASSES + scores * (4 * FLOAT + HALF)
        orthogonalised = shape.hidden * max(shape.intermediate, 2 * shape.hidden) * (FLOAT + 3 * HALF)
        return max(step, score, orthogonalised)

    @property
    def limit(self) -> int:
        """Bytes that PyTorch may allocate in the trainer's process."""
        return int((self.learned + self.shared + self.peak) * SPARE)

    @property
    def total(self) -> int:
        """Bytes the process takes on its GPU."""
        return self.limit + CONTEXT_BYTES


def trainers(shape: ModelShape) -> Iterator[TrainerMemory]:
    """Yield trainers with ever smaller batches."""
    tokens = BATCH_TOKENS
    while tokens >= MIN_BATCH_TOKENS:
        yield TrainerMemory(shape=shape, batch_tokens=tokens)
        tokens //= 2
