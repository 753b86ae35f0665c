"""
Penalties and minimum lengths, from exact token counts of each response.

SGLang's penalizers lose their counts when a request is retracted, ignore a prefix generated elsewhere, and lag one
token behind with overlapped scheduling. Here counts start with all tokens generated before the pass and add each
round's root, the last accepted token: one per round, since requests with penalties are not drafted for.

Shapes: B requests, V vocabulary.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tlt_common.domain.bounds import INT32_MAX, require_count, require_range
from tlt_common.domain.prompt import MIN_REPETITION_PENALTY
from tlt_worker.link.penalty import Penalty
from tlt_worker.scheduler.sent import sent, sent_once


@dataclass(slots=True)
class Penalties:
    """Penalties of an engine's requests."""

    vocabulary: int
    _counts: dict[str, Tensor] = field(default_factory=dict)
    """Counts [V] of each token, by request."""

    def begin(self, reqs: Sequence[Any], device: Any) -> None:
        """Count the tokens generated before a pass over the requests' prompts, including prefixes."""
        for req in reqs:
            if _penalty(req) is not None:
                generated = [*req.origin_input_ids[len(req.origin_input_ids) - prefix_of(req) :], *req.output_ids]
                ids = sent(generated, device, torch.int64)
                counts_V = torch.zeros(self.vocabulary, device=device)
                self._counts[req.rid] = counts_V.index_add_(0, ids, torch.ones(len(ids), device=device))

    def follow(self, reqs: Sequence[Any], draft_input: Any) -> None:
        """Count the last accepted tokens of a round's requests, and drop all other requests, which have ended."""
        if not self._counts:
            return
        roots_B = draft_input.bonus_tokens.to(torch.int64)
        self._counts = {req.rid: self._counts[req.rid] for req in reqs if req.rid in self._counts}
        for place, req in enumerate(reqs):
            if (counts_V := self._counts.get(req.rid)) is not None:
                counts_V.index_add_(0, roots_B[place : place + 1], counts_V.new_ones(1))

    def apply(self, reqs: Sequence[Any], info: Any) -> None:
        """Set this round's penalties [B, V] where SGLang adds them to logits and divides logits by them."""
        penalized = [(place, penalty) for place, req in enumerate(reqs) if (penalty := _penalty(req)) is not None]
        if not penalized:
            return
        device = info.temperatures.device
        added_BV = torch.zeros(len(reqs), self.vocabulary, device=device)
        divided_BV = torch.ones(len(reqs), self.vocabulary, device=device)
        for place, penalty in penalized:
            counts_V, req = self._counts[reqs[place].rid], reqs[place]
            is_generated_V = counts_V > 0
            added_BV[place] -= counts_V * penalty.frequency + is_generated_V * penalty.presence
            divided_BV[place] = torch.where(is_generated_V, penalty.repetition, 1.0)
            ends = sorted({*(req.sampling_params.stop_token_ids or ()), *(req.eos_token_ids or ())})
            if penalty.min_tokens and ends:
                too_short = counts_V.sum() < penalty.min_tokens
                suppressed = torch.where(too_short, float("-inf"), 0.0).expand(len(ends))
                added_BV[place].index_add_(0, sent_once(tuple(ends), device, torch.int64), suppressed)
        info.acc_additive_penalties, info.acc_scaling_penalties = added_BV, divided_BV


def prefix_of(req: Any) -> int:
    """Return the number of tokens at the end of a request's prompt that belong to its response."""
    return int((req.sampling_params.custom_params or {}).get("tlt_prefix", 0))


def require_penalty(req: Any, vocabulary: int, end_ids: Collection[int]) -> None:
    """
    Check the penalties of an arriving request.

    Raises:
        InvalidRequestError: A penalty is not a finite number within its range, or all tokens would be suppressed.
    """
    penalty = _penalty(req)
    if penalty is None:
        return
    require_range("sampling.frequency_penalty", penalty.frequency, low=-2.0, high=2.0)
    require_range("sampling.presence_penalty", penalty.presence, low=-2.0, high=2.0)
    require_range("sampling.repetition_penalty", penalty.repetition, low=MIN_REPETITION_PENALTY, high=2.0)
    require_range("sampling.min_new_tokens", penalty.min_tokens, low=0, high=INT32_MAX)
    if penalty.min_tokens:
        suppressed = {*end_ids, *(req.sampling_params.stop_token_ids or ())}
        require_count("sampling.stop_token_ids, with the model's end tokens,", len(suppressed), most=vocabulary - 1)


def _penalty(req: Any) -> Penalty | None:
    packed = (req.sampling_params.custom_params or {}).get("tlt_penalty")
    if packed is None:
        return None
    frequency, presence, repetition, min_tokens = packed
    return Penalty(frequency=frequency, presence=presence, repetition=repetition, min_tokens=int(min_tokens))
