"""
What the drafter proposes after a round, before the next round's arm is known.

The last logits of a draft pass become the first drafts of the next round. Sampled chains need a token drawn from the
drafter and the distribution it was drawn from; other chains and trees need the likeliest tokens. All are laid side by
side in SGLang's draft input, `[sampled | best, second, ...]`, and a round takes the columns of its arm.

Shapes: B requests, V vocabulary, C columns, K branches.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tlt_common.domain.strategy import Arm, DrafterKind

_proposing: ContextVar["Layout | None"] = ContextVar("tlt_proposing", default=None)
"""The layout that the logits of the running draft pass are for; None inside a round's own drafting."""


@dataclass(slots=True, kw_only=True)
class Layout:
    """Columns of a draft input, wide enough for every arm."""

    samples: bool
    """Whether the first column is a sampled token; its distribution then travels along."""
    branches: int
    """Likeliest tokens kept, K."""
    logits: Tensor | None = field(default=None, repr=False)
    """[B, V], of the draft pass over a prompt."""

    @classmethod
    def of(cls, arms: Sequence[Arm], *, rejects: bool) -> "Layout":
        """Return what these arms need. Without rejection even sampled arms draft the likeliest token."""
        learned = [arm for arm in arms if arm.kind is DrafterKind.EAGLE]
        best = [arm.topk for arm in learned if not (rejects and arm.sampled)]
        samples = rejects and any(arm.sampled for arm in learned)
        return cls(samples=samples, branches=max(best, default=0 if samples else 1))

    @property
    def width(self) -> int:
        """Number of columns, C."""
        return self.samples + self.branches

    @contextmanager
    def proposing(self) -> Iterator[None]:
        """While the context lasts, `sample_draft_proposal` fills all columns."""
        token = _proposing.set(self)
        try:
            yield
        finally:
            _proposing.reset(token)
            self.logits = None

    def fill(
        self, sample: Callable[..., tuple[Tensor, Tensor, Tensor]], logits_BV: Tensor, *args: Any, **kw: Any
    ) -> tuple[Tensor | None, Tensor, Tensor]:
        """
        Return the distribution [B, V] of the sampled column (None if there is none), and all columns [B, C].

        `sample` is SGLang's `sample_draft_proposal`: temperature and greedy rows are its concern. Likeliest tokens
        have the drafter's own probability, whatever the request's temperature: trees keep their best nodes by it.
        """
        probs_BV, shares, tokens = None, [], []
        if self.samples:
            probs_BV, share_B1, token_B1 = sample(logits_BV, *args, **kw)
            shares, tokens = [share_B1], [token_B1]
        if self.branches:
            best = torch.softmax(logits_BV.float(), dim=-1).topk(self.branches, dim=-1)
            shares.append(best.values)
            tokens.append(best.indices)
        return probs_BV, torch.cat(shares, 1), torch.cat(tokens, 1)

    def narrow(self, draft_input: Any, arm: Arm) -> None:
        """Keep the columns of `arm` in a draft input of SGLang's."""
        low = 0 if arm.sampled or not self.samples else 1
        high = low + arm.topk
        draft_input.topk_p = draft_input.topk_p[:, low:high].contiguous()
        draft_input.topk_index = draft_input.topk_index[:, low:high].contiguous()


def sample_for_every_arm(original: Callable[..., Any], logits: Tensor, *args: Any, **kw: Any) -> Any:
    """Around `sample_draft_proposal`: after a round, what every arm may need; within one, as it was."""
    layout = _proposing.get()
    return original(logits, *args, **kw) if layout is None else layout.fill(original, logits, *args, **kw)


def keep_prompt_logits(original: Callable[..., Tensor], logits: Tensor, *args: Any, **kw: Any) -> Tensor:
    """Around `renorm_draft_probs`, which a draft pass over prompts calls in the place of the above."""
    layout = _proposing.get()
    if layout is not None:
        layout.logits = logits
    return original(logits, *args, **kw)


def keep_parents(original: Callable[..., Any], score_list: Sequence[Tensor], *args: Any, **kw: Any) -> Any:
    """
    Around `organize_draft_results`, which keeps a tree's best nodes: of equal scores the earlier node is better.

    A drafter that is sure of a token scores it as high as its parent, and `topk` might keep it without the parent.
    """
    scores_BN = torch.cat(list(score_list), dim=1).flatten(1)
    order_BN = scores_BN.sort(dim=-1, descending=True, stable=True).indices
    place_BN = torch.arange(scores_BN.shape[1], device=scores_BN.device, dtype=torch.float32).expand_as(scores_BN)
    return original([torch.empty_like(place_BN).scatter_(1, order_BN, -place_BN)], *args, **kw)
