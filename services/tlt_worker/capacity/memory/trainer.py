"""
Memory of a spot trainer on a GPU. Pure.

It follows `tlt_trainer`: float32 weights of one layer with a running average, gradients and momentum; embedding and
head in bfloat16; in a micro-step, the float32 distributions of the policy over its vocabulary and of every pass over
the draft tokens. A drafter that trains a head needs room for a second one when its tokens change.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_worker.capacity.shape import ModelShape

BATCH_TOKENS, MIN_BATCH_TOKENS = 512, 64
"""`data.batch_tokens` of the trainer, and the smallest batch it halves it to when memory is short."""
PASSES = {
    DrafterArchitecture.EAGLE: 3,
    DrafterArchitecture.EAGLE3: 7,
    DrafterArchitecture.BLOCK: 1,
    DrafterArchitecture.MTP: 7,
}
"""Unrolled passes of the loss."""
ANCHOR_EVERY = 8
"""States per block that a block drafter is trained on."""
CONTEXT_BYTES = 512 * 2**20
"""CUDA context and libraries, which are outside PyTorch's limit."""
FLOAT, HALF = 4, 2
COPIES = 4
"""Weights, their average, gradients and momentum."""
SPARE = 1.1
"""Share that PyTorch's allocator takes for what is used, by fragmentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerMemory:
    """Memory of a trainer with this many tokens per micro-step, in bytes."""

    shape: ModelShape
    batch_tokens: int = BATCH_TOKENS

    @property
    def learned(self) -> int:
        """Bytes of trained weights, average, gradients and momentum. A head has both of AdamW's moments."""
        return (COPIES * self.shape.drafter.parameters + self.shape.drafter.head_parameters) * FLOAT

    @property
    def shared(self) -> int:
        """Bytes of embedding and head, and of the experts of a checkpoint's own head."""
        return (self.shape.vocabulary_parameters + self.shape.drafter.frozen) * HALF

    @property
    def peak(self) -> int:
        """Largest temporary allocation: a micro-step, a score of another drafter, or an optimizer step."""
        shape, drafter, tokens = self.shape, self.shape.drafter, self.batch_tokens
        parameters, passes = drafter.parameters, PASSES[drafter.architecture]
        scores = tokens * (drafter.tokens or shape.vocab)
        read = tokens * (drafter.states + 1) * shape.hidden * HALF
        # Of attention: keys and values that each query sees of later passes, kept; and their products, in float32.
        seen = (passes - 1) * shape.hidden
        activations = passes * tokens * (12 * shape.hidden + 4 * drafter.intermediate + seen) * HALF
        activations = drafter.layers * activations + 3 * tokens * seen * FLOAT
        cast = parameters * HALF
        # The policy's logits in both types and their softmax, of which a drafter of some tokens keeps a part.
        target = tokens * shape.vocab * (2 * FLOAT + HALF) + read if drafter.tokens else 0
        # Saved per pass: log-probabilities. At once besides: the policy's, logits in both types, and their gradients.
        step = cast + activations + scores * ((passes + 4) * FLOAT + HALF) + target
        score = cast + parameters * FLOAT + activations // passes + scores * (4 * FLOAT + HALF) + target
        orthogonalized = shape.hidden * max(drafter.intermediate, 2 * shape.hidden) * (FLOAT + 3 * HALF)
        # The new heads of weights and average, and the rows they are put together from.
        chosen = 5 * drafter.head_parameters * FLOAT
        return max(step, score, orthogonalized, chosen) if not drafter.queries else max(self._blocks, orthogonalized)

    @property
    def _blocks(self) -> int:
        """
        Return the bytes of a block drafter's micro-step, which has fewer queries but keeps their attention to the
        context.
        """
        shape, drafter, tokens = self.shape, self.shape.drafter, self.batch_tokens
        blocks = -(-tokens // ANCHOR_EVERY)
        queries = blocks * drafter.queries
        cast = drafter.parameters * HALF
        context = tokens * (drafter.captured + 2 + 4 * drafter.layers) * shape.hidden * HALF
        # Per query of a layer: products with all keys, masked, joined, normalized, and as they are multiplied.
        attention = queries * drafter.heads * (tokens + drafter.queries) * (3 * FLOAT + 2 * HALF)
        activations = drafter.layers * (queries * (12 * shape.hidden + 4 * drafter.intermediate) * HALF + attention)
        # The policy's logits and distribution; the drafts' logits in both types, their bias, and gradients of these.
        return cast + context + activations + queries * shape.vocab * (6 * FLOAT + 3 * HALF)

    @property
    def limit(self) -> int:
        """Bytes that PyTorch may allocate in the trainer's process."""
        return int((self.learned + self.shared + self.peak) * SPARE)

    @property
    def total(self) -> int:
        """Bytes that the process uses on its GPU."""
        return self.limit + CONTEXT_BYTES


def trainers(shape: ModelShape) -> Iterator[TrainerMemory]:
    """Yield trainers with ever smaller batches."""
    tokens = BATCH_TOKENS
    while tokens >= MIN_BATCH_TOKENS:
        yield TrainerMemory(shape=shape, batch_tokens=tokens)
        tokens //= 2
