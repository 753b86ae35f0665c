"""
Duration of a decoding round, calculated from the bytes it reads and its arithmetic operations. Pure.

A pass reads its weights once, and the keys and values of its context once per request; each element of a weight takes
two operations per row. The larger of both durations counts (a roofline). Launches, communication between ranks and
sampling are omitted, so that small models are slower than calculated. Nothing here is measured: rates are the vendor's
published ones, times an assumed utilization.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tlt_worker.capacity.shape import ModelShape

READ_SHARE, COMPUTE_SHARE = 0.9, 0.6
"""Assumed shares of a card's published memory bandwidth and of its dense bfloat16 rate that large passes reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Published rates of a card."""

    gb_per_s: float
    """Memory bandwidth in GB/s."""
    tflops: float
    """Dense bfloat16 TFLOP/s."""

    def seconds(self, size: float, operations: float) -> float:
        """Return the duration of a pass with this many bytes and operations."""
        return max(size / (self.gb_per_s * 1e9 * READ_SHARE), operations / (self.tflops * 1e12 * COMPUTE_SHARE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """
    The model, card and batch of a round.

    A tensor-parallel group counts as one fast card that shares the work equally.
    """

    shape: ModelShape
    speed: Speed
    batch: int = 1
    context: int = 8192
    """Context length of each request, in tokens."""
    ranks: int = 1

    def verification_s(self, tokens: int) -> float:
        """Return the duration of a target pass over this many tokens per request; with one token, of a plain round."""
        shape, rows = self.shape, self.batch * tokens
        kv = self.batch * self.context * 2 * shape.layers * shape.kv_heads * shape.head_dim
        weights = shape.read_parameters(rows) + shape.vocab * shape.hidden
        return self._pass_s(weights + kv, (shape.active_parameters + shape.vocab * shape.hidden) * rows)

    def draft_bytes(self) -> int:
        """Return the bytes that a drafter pass reads, without its context and the drafts' additional reads."""
        return (self._draft_layers + self._draft_head) * self.shape.element_bytes

    def drafting_s(self, drafts: int) -> float:
        """Return the duration of all drafter passes for this many drafts: one pass per draft, or one per block."""
        draft = self.shape.drafter
        kv = self.batch * self.context * 2 * draft.layers * draft.kv_heads * draft.head_dim
        passes, rows = (1, self.batch * drafts) if draft.queries else (drafts, self.batch)
        weights = self._draft_layers + self._draft_head
        steps = drafts * self._pass_s(draft.per_draft, draft.per_draft * self.batch)
        return passes * self._pass_s(weights + kv, weights * rows) + steps

    @property
    def head_tokens(self) -> int:
        """Number of tokens that drafts are chosen from."""
        draft = self.shape.drafter
        return draft.tokens or draft.head_rows or self.shape.vocab

    @property
    def _draft_layers(self) -> int:
        """Parameters of the draft layers. Routed experts count as if all requests of a batch chose the same."""
        draft = self.shape.drafter
        return draft.parameters + draft.chosen - draft.head_parameters - draft.table - draft.per_draft

    @property
    def _draft_head(self) -> int:
        return self.head_tokens * self.shape.hidden

    def _pass_s(self, elements: float, products: float) -> float:
        return self.speed.seconds(elements * self.shape.element_bytes, 2 * products) / self.ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTime:
    """Duration of a round with one drafter. Durations are in milliseconds."""

    drafter: str
    drafts: int
    batch: int
    head_tokens: int
    draft_mb: float
    """Megabytes that a drafter pass reads."""
    draft_ms: float
    """Duration per draft."""
    drafting_ms: float
    verification_ms: float
    plain_ms: float

    @property
    def round_ms(self) -> float:
        """Duration of the round."""
        return self.drafting_ms + self.verification_ms

    @property
    def over_plain(self) -> float:
        """Duration in units of plain rounds, which equals the accept length at which drafting starts to pay off."""
        return self.round_ms / self.plain_ms


def rounds_of(name: str, situation: Situation, drafts: tuple[int, ...]) -> Iterator[RoundTime]:
    """Yield the duration of a round for each number of drafts."""
    for count in drafts:
        drafting_s = situation.drafting_s(count)
        yield RoundTime(
            drafter=name,
            drafts=count,
            batch=situation.batch,
            head_tokens=situation.head_tokens,
            draft_mb=situation.draft_bytes() / 1e6,
            draft_ms=1e3 * drafting_s / count,
            drafting_ms=1e3 * drafting_s,
            verification_ms=1e3 * situation.verification_s(count + 1),
            plain_ms=1e3 * situation.verification_s(1),
        )
