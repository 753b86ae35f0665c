"""
Proposals of the drafter after a round, before the next round's arm is chosen.

The last logits of a draft pass become the first drafts of the next round. Sampled chains need a token sampled from the
drafter and its distribution; other chains and trees need the most likely tokens. All are concatenated in SGLang's draft
input, `[sampled | best, second, ...]`, and a round uses the columns of its arm.

Shapes: B requests, V vocabulary, C columns, K branches.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tlt_common.domain.arm import Arm

_proposing: ContextVar["ProposalLayout | None"] = ContextVar("tlt_proposing", default=None)
"""The layout to fill from the running draft pass; None within a round's own drafting."""


@dataclass(slots=True, kw_only=True)
class ProposalLayout:
    """Columns of a draft input that serve every arm."""

    samples: bool
    """Whether the first column is a sampled token, whose distribution is then kept as well."""
    branches: int
    """Number of most likely tokens kept, K."""
    logits: Tensor | None = field(default=None, repr=False)
    """[B, V] logits of the draft pass over a prompt."""

    @classmethod
    def of(cls, arms: Sequence[Arm], *, rejects: bool) -> "ProposalLayout":
        """
        Return the layout that these arms need. Without rejection, even sampled arms draft the most likely token.

        Blocks need no proposals, since they start from the last token only.
        """
        learned = [arm for arm in arms if arm.needs_drafter and not arm.is_block]
        best = [arm.topk for arm in learned if not (rejects and arm.sampled)]
        samples = rejects and any(arm.sampled for arm in learned)
        return cls(samples=samples, branches=max(best, default=0 if samples else 1))

    @property
    def width(self) -> int:
        """Number of columns, C."""
        return self.samples + self.branches

    @contextmanager
    def proposing(self) -> Iterator[None]:
        """Make `sample_draft_proposal` fill all columns for the duration of the context."""
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

        `sample` is SGLang's `sample_draft_proposal`, which handles temperature and greedy rows. Most likely tokens have
        the drafter's own probability, regardless of the request's temperature: trees select their best nodes by it.
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
        """Keep only the columns of `arm` in an SGLang draft input."""
        low = 0 if arm.sampled or not self.samples else 1
        high = low + arm.topk
        draft_input.topk_p = draft_input.topk_p[:, low:high].contiguous()
        draft_input.topk_index = draft_input.topk_index[:, low:high].contiguous()


def sample_for_every_arm(original: Callable[..., Any], logits: Tensor, *args: Any, **kw: Any) -> Any:
    """Wrap `sample_draft_proposal`: after a round, fill the columns of every arm; within one, leave it unchanged."""
    layout = _proposing.get()
    return original(logits, *args, **kw) if layout is None else layout.fill(original, logits, *args, **kw)


def keep_prompt_logits(original: Callable[..., Tensor], logits: Tensor, *args: Any, **kw: Any) -> Tensor:
    """Wrap `renorm_draft_probs`, which a draft pass over prompts calls instead of `sample_draft_proposal`."""
    layout = _proposing.get()
    if layout is not None:
        layout.logits = logits
    return original(logits, *args, **kw)


def keep_parents(original: Callable[..., Any], score_list: Sequence[Tensor], *args: Any, **kw: Any) -> Any:
    """
    Wrap `organize_draft_results`, which selects a tree's best nodes: among equal scores prefer the earlier node.

    A drafter with probability 1 for a token scores it as high as its parent, and `topk` might keep it without the
    parent.
    """
    scores_BN = torch.cat(list(score_list), dim=1).flatten(1)
    order_BN = scores_BN.sort(dim=-1, descending=True, stable=True).indices
    place_BN = torch.arange(scores_BN.shape[1], device=scores_BN.device, dtype=torch.float32).expand_as(scores_BN)
    return original([torch.empty_like(place_BN).scatter_(1, order_BN, -place_BN)], *args, **kw)
