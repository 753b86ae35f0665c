"""
Penalties and least lengths, from exact counts of what each response has said.

SGLang's penalisers lose their counts when a request is retracted, know nothing of a prefix made elsewhere, and with
overlapped scheduling are a token behind. Here counts begin with all that was said before the pass, and take in each
round's root: the token accepted last, which is one per round, since nothing is drafted for penalised requests.

Shapes: B requests, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tlt_common.domain.rollout import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class Penalty:
    """What one request is penalised by; travels in its parameters."""

    frequency: float = 0.0
    presence: float = 0.0
    repetition: float = 1.0
    least_tokens: int = 0

    @classmethod
    def of(cls, sampling: SamplingParams) -> "Penalty":
        """Read a request's parameters."""
        return cls(
            frequency=sampling.frequency_penalty,
            presence=sampling.presence_penalty,
            repetition=sampling.repetition_penalty,
            least_tokens=sampling.min_new_tokens,
        )

    def packed(self) -> list[float] | None:
        """Write for SGLang's custom parameters; None where there is nothing to do."""
        return None if self == Penalty() else [self.frequency, self.presence, self.repetition, self.least_tokens]


@dataclass(slots=True)
class Penalties:
    """The penalised requests of an engine."""

    vocabulary: int
    _said: dict[str, Tensor] = field(default_factory=dict)
    """Counts [V] of each token, by request."""

    def begin(self, reqs: Sequence[Any], device: Any) -> None:
        """Count what SGLang's requests have said before a pass over their prompts, prefix included."""
        for req in reqs:
            if _penalty(req) is not None:
                said = [*req.origin_input_ids[len(req.origin_input_ids) - prefix_of(req) :], *req.output_ids]
                ids = torch.tensor(said, dtype=torch.int64, device=device)
                self._said[req.rid] = torch.bincount(ids, minlength=self.vocabulary).float()

    def follow(self, reqs: Sequence[Any], draft_input: Any) -> None:
        """Count the tokens accepted last by the requests of a round, and forget all others: they ended."""
        if not self._said:
            return
        roots_B = draft_input.bonus_tokens.to(torch.int64)
        self._said = {req.rid: self._said[req.rid] for req in reqs if req.rid in self._said}
        for place, req in enumerate(reqs):
            if (said_V := self._said.get(req.rid)) is not None:
                said_V.index_add_(0, roots_B[place : place + 1], said_V.new_ones(1))

    def apply(self, reqs: Sequence[Any], info: Any) -> None:
        """Put this round's penalties [B, V] where SGLang adds them to logits and divides logits by them."""
        penalised = [(place, penalty) for place, req in enumerate(reqs) if (penalty := _penalty(req)) is not None]
        if not penalised:
            return
        device = info.temperatures.device
        added_BV = torch.zeros(len(reqs), self.vocabulary, device=device)
        divided_BV = torch.ones(len(reqs), self.vocabulary, device=device)
        for place, penalty in penalised:
            said_V, req = self._said[reqs[place].rid], reqs[place]
            is_said_V = said_V > 0
            added_BV[place] -= said_V * penalty.frequency + is_said_V * penalty.presence
            divided_BV[place] = torch.where(is_said_V, penalty.repetition, 1.0)
            ends = sorted({*(req.sampling_params.stop_token_ids or ()), *(req.eos_token_ids or ())})
            if penalty.least_tokens and ends:
                too_short = said_V.sum() < penalty.least_tokens
                added_BV[place, torch.tensor(ends, device=device)] += torch.where(too_short, float("-inf"), 0.0)
        info.acc_additive_penalties, info.acc_scaling_penalties = added_BV, divided_BV


def prefix_of(req: Any) -> int:
    """Tokens at the end of a request's prompt that belong to its response."""
    return int((req.sampling_params.custom_params or {}).get("tlt_prefix", 0))


def _penalty(req: Any) -> Penalty | None:
    packed = (req.sampling_params.custom_params or {}).get("tlt_penalty")
    if packed is None:
        return None
    frequency, presence, repetition, least_tokens = packed
    return Penalty(frequency=frequency, presence=presence, repetition=repetition, least_tokens=int(least_tokens))
