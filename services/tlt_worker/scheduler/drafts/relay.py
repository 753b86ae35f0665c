"""
State that a round passes to the next one with overlapped scheduling. Used inside SGLang's processes only.

SGLang keeps proposals (tokens, states and a distribution over the vocabulary) in buffers by request, and gathers them
before every round. A round's arm is chosen later, and off needs the last token only.

Written against SGLang 0.5.23: `managers/overlap_utils.py`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

_GATHER = "tlt_gather"


def gather_tokens(original: Callable[..., None], self: Any, batch: Any) -> None:
    """Wrap `FutureMap._resolve_spec_extras`: gather each request's last token, and proposals if the round drafts."""
    draft_input = batch.spec_info
    if draft_input is None or not len(draft_input.future_indices):
        original(self, batch)
        return
    draft_input.bonus_tokens = self.output_tokens_buf[draft_input.future_indices]
    setattr(draft_input, _GATHER, partial(original, self, batch))


def gather_proposals(draft_input: Any) -> None:
    """Gather the drafter's inputs into the draft input of a round that drafts with it."""
    gather = getattr(draft_input, _GATHER, None)
    if gather is not None:
        delattr(draft_input, _GATHER)
        gather()
