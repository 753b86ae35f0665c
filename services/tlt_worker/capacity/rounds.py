"""
Duration of a decoding round, calculated for a model and a card. Pure.

The one formula of `tlt engine plan --rounds` and `tlt simulate`; docs/costs.md explains its parts. Reading and
computing add up: published rounds get longer with every row, at one request already. Utilizations of a card's
published rates, the fixed time of a round and the engine's own are chosen to fit, with a single calibration, 81 rounds
and 23 speedups that others have published; `tlt simulate cases --held-out` prints the errors.
"""

import math
from dataclasses import dataclass
from typing import Final

from tlt_common.domain.arm import OFF, Arm
from tlt_worker.capacity.shape import ModelShape

READ_SHARE: Final = 0.9
"""Assumed share of a card's bandwidth at which weights are read, where no published round tells it."""
KV_SHARE: Final = 0.53
"""Share of it for keys and values: of published slopes one gives 0.39 (30B-A3B, A100), one 0.99 (72B, H100)."""
ROW_SHARE: Final = 0.77
"""Share of a card's dense rate at which the rows of a round are computed: 21 us a row of an 8B policy on an H100."""
LAYER_S: Final = 37e-6
"""Kernels of a layer, beyond what they read: their beginnings and ends within a CUDA graph."""
EXPERT_LAYER_S: Final = 38e-6
"""More of them in a layer with experts."""
REDUCE_S: Final = 8.5e-6
"""Each of a layer's two sums over ranks, on NVLink. It fits small, since the time of waiting ranks is in `LAYER_S`."""
REQUEST_S: Final = 30e-6
"""Sampling and scheduling of a request."""
PASS_S: Final = 230e-6
"""Launches of a pass of the drafter: a layer, the head, a draw."""
NGRAM_ROUND_S: Final = 0.5e-3
"""What a round with n-grams takes besides rows and lookups: it does not overlap with the scheduling of the next one."""
NGRAM_REQUEST_S: Final = 35e-6
"""Looking up n-grams: 0.6 % of a verification of 6 ms (SpecDecode-Bench, arXiv 2601.11580)."""


def part_counts(arm: Arm, batch: float, kv_tokens: float, *, expert_share: float = 0.0) -> dict[str, float]:
    """
    Return how often a round has each part of `RoundTerms`.

    Args:
        arm: The arm that it runs.
        batch: Number of requests.
        kv_tokens: Tokens in the KV cache, of all requests together.
        expert_share: Share of the routed experts that one token chooses, evenly.
    """
    rows, passes, drafted = batch * arm.draft_tokens, 0, 0.0
    if arm.needs_drafter:
        passes, drafted = (1, batch * arm.steps) if arm.is_block else (arm.steps, batch * arm.topk)
    return {
        "round_fixed_s": 1.0,
        "round_request_s": batch,
        "round_read_s": 1.0,
        "expert_read_s": 1.0 - math.pow(1.0 - expert_share, rows),
        "round_token_s": rows,
        "kv_token_s": kv_tokens,
        "draft_round_s": float(arm.needs_drafter),
        "draft_request_s": batch * arm.needs_drafter,
        "draft_fixed_s": passes,
        "draft_token_s": passes * max(0.0, drafted - 1.0),
        "draft_kv_token_s": passes * kv_tokens,
        "draft_step_s": float(arm.steps if arm.is_block else 0),
        "ngram_round_s": float(arm.finds_drafts),
        "ngram_request_s": batch * arm.finds_drafts,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTerms:
    """
    The parts of a round: seconds for each time that the round has one, under the names of docs/costs.md.

    The defaults are 0, for parts that a fit does not tell from others.
    """

    round_fixed_s: float
    round_read_s: float
    round_token_s: float
    kv_token_s: float
    draft_fixed_s: float
    draft_token_s: float
    round_request_s: float = 0.0
    expert_read_s: float = 0.0
    draft_round_s: float = 0.0
    draft_request_s: float = 0.0
    draft_kv_token_s: float = 0.0
    draft_step_s: float = 0.0
    ngram_round_s: float = 0.0
    ngram_request_s: float = 0.0
    expert_share: float = 0.0
    """Share of the routed experts that one token chooses; of the fields, the only one that is no duration."""

    def parts(self, arm: Arm, batch: float, kv_tokens: float) -> dict[str, float]:
        """Return the seconds of each part of a round; the arguments are those of `part_counts`."""
        counts = part_counts(arm, batch, kv_tokens, expert_share=self.expert_share)
        return {name: count * getattr(self, name) for name, count in counts.items()}

    def round_s(self, arm: Arm, batch: float, kv_tokens: float) -> float:
        """Return the duration of a round."""
        return sum(self.parts(arm, batch, kv_tokens).values())

    def drafting_s(self, arm: Arm, batch: float, kv_tokens: float) -> float:
        """Return what a round takes longer for drafting, besides its rows."""
        parts = self.parts(arm, batch, kv_tokens)
        return sum(seconds for name, seconds in parts.items() if name.startswith(("draft_", "ngram_")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Published rates of a card."""

    gb_per_s: float
    """Memory bandwidth in GB/s."""
    tflops: float
    """Dense bfloat16 TFLOP/s."""
    read_share: float = READ_SHARE
    """Share of the bandwidth at which weights are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOverhead:
    """Time of an engine's own in a round, whatever the model and the card."""

    round_s: float = 0.0
    draft_round_s: float = 0.0
    """More of it in a round with a drafter, besides its passes."""
    draft_request_s: float = 0.0
    """The same for each request."""
    pass_reduce_s: float = 0.0
    """More of it in each pass of the drafter in a tensor-parallel group."""


OWN: Final = EngineOverhead(round_s=0.4e-3, draft_round_s=1.5e-3, draft_request_s=18e-6, pass_reduce_s=100e-6)
"""
The suite's engine: SGLang with all of drafting in CUDA graphs, as in the TLT paper, whose speedups it fits (`tlt
simulate --case paper`). SGLang's of 2025 took 2.5 times as long.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """
    The GPUs of a worker and the policy on them.

    A tensor-parallel group shares the work equally, except keys and values, which are copied where there are too few
    heads.
    """

    speed: Speed
    shape: ModelShape
    gpus: int = 1

    @property
    def draft_parameters(self) -> int:
        """Parameters that a pass of the drafter reads. Routed experts: as if all requests of a batch chose the same."""
        draft = self.shape.drafter
        layers = draft.parameters + draft.chosen - draft.head_parameters - draft.table - draft.per_draft
        return layers + self.head_tokens * self.shape.hidden

    @property
    def head_tokens(self) -> int:
        """Number of tokens that drafts are chosen from."""
        draft = self.shape.drafter
        return draft.tokens or draft.head_rows or self.shape.vocab

    def terms(self, engine: EngineOverhead = OWN) -> RoundTerms:
        """Return the parts of a round."""
        shape, draft = self.shape, self.shape.drafter
        head = shape.vocab * shape.hidden
        expert_parameters = shape.read_parameters(10**6) - shape.read_parameters(0)
        reduced_s = engine.pass_reduce_s if self.gpus > 1 else 0.0
        return RoundTerms(
            round_fixed_s=engine.round_s + self.fixed_s(),
            round_request_s=REQUEST_S,
            round_read_s=self.read_s(shape.read_parameters(0) + head),
            expert_read_s=self.read_s(expert_parameters),
            expert_share=0.0 if shape.experts is None else shape.experts.chosen / shape.experts.count,
            round_token_s=self.row_s(shape.active_parameters + head),
            kv_token_s=self.kv_token_s(shape.layers, shape.kv_heads, shape.head_dim),
            draft_fixed_s=self.read_s(self.draft_parameters) + PASS_S + reduced_s,
            draft_token_s=self.row_s(self.draft_parameters + draft.per_draft),
            draft_kv_token_s=self.kv_token_s(draft.layers, draft.kv_heads, draft.head_dim),
            draft_step_s=self.read_s(draft.per_draft),
            draft_round_s=engine.draft_round_s,
            draft_request_s=engine.draft_request_s,
            ngram_round_s=NGRAM_ROUND_S,
            ngram_request_s=NGRAM_REQUEST_S,
        )

    def fixed_s(self, layer_s: float = LAYER_S, reduce_s: float = REDUCE_S) -> float:
        """Return the time of a round besides bytes, operations, requests and the engine's own."""
        shape = self.shape
        experts = 0 if shape.experts is None else shape.experts.layers
        reduced = 2 * shape.layers if self.gpus > 1 else 0
        return layer_s * shape.layers + EXPERT_LAYER_S * experts + reduce_s * reduced

    def read_s(self, parameters: float) -> float:
        """Return the duration of reading weights."""
        size = parameters * self.shape.element_bytes
        return size / (self.speed.gb_per_s * 1e9 * self.speed.read_share) / self.gpus

    def row_s(self, parameters: float) -> float:
        """Return the duration of multiplying one row by this many parameters, at two operations for each."""
        return 2 * parameters / (self.speed.tflops * 1e12 * ROW_SHARE) / self.gpus

    def kv_token_s(self, layers: int, kv_heads: int, head_dim: int) -> float:
        """Return the duration of reading one token's keys and values."""
        size = 2 * layers * max(1, kv_heads // self.gpus) * head_dim * self.shape.element_bytes
        return size / (self.speed.gb_per_s * 1e9 * KV_SHARE)


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

    @classmethod
    def of(cls, drafter: str, machine: Machine, arm: Arm, batch: int, context: int) -> "RoundTime":
        """Return the duration of a round of an arm, with so many requests of so many tokens each."""
        terms, kv_tokens = machine.terms(), batch * context
        drafting_s = terms.drafting_s(arm, batch, kv_tokens)
        return cls(
            drafter=drafter,
            drafts=arm.steps,
            batch=batch,
            head_tokens=machine.head_tokens,
            draft_mb=machine.draft_parameters * machine.shape.element_bytes / 1e6,
            draft_ms=1e3 * drafting_s / arm.steps,
            drafting_ms=1e3 * drafting_s,
            verification_ms=1e3 * (terms.round_s(arm, batch, kv_tokens) - drafting_s),
            plain_ms=1e3 * terms.round_s(OFF, batch, kv_tokens),
        )

    @property
    def round_ms(self) -> float:
        """Duration of the round."""
        return self.drafting_ms + self.verification_ms

    @property
    def over_plain(self) -> float:
        """Duration in units of plain rounds, which equals the accept length at which drafting starts to pay off."""
        return self.round_ms / self.plain_ms
