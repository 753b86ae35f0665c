"""
Drafters that use their target's head, or rows of it. Imported inside SGLang's processes only.

With 152,000 tokens, the head is most of the bytes that a draft reads, although a run's responses use a few thousand
tokens. A reduced head is a copy of the target's rows for the covered tokens, which are chosen again as responses change
(`tlt_worker.scheduler.drafts.head_tokens`). Logits are spread over the target's vocabulary as for EAGLE-3.

Each rank covers tokens of its own shard of the vocabulary, so that no rows are exchanged.

Written against SGLang 0.5.23. Shapes: D draft tokens, V target vocabulary.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any

import torch
from sglang.srt.layers.logits_processor import LogitsProcessor
from sglang.srt.layers.vocab_parallel_embedding import ParallelLMHead
from sglang.srt.platforms import current_platform
from sglang.srt.runtime_context import get_parallel
from torch import Tensor, nn

from tlt_worker.scheduler.models.packed_weights import forget_weight
from tlt_worker.scheduler.models.spread import SpreadLogits
from tlt_worker.scheduler.sent import sent

_Untyped: Any = nn.Module  # as SGLang's drafters, before which these classes stand


class TargetsHead(_Untyped):  # type: ignore[misc] # on purpose
    """Mixin for SGLang's drafters whose head covers `config.hot_vocab_size` tokens, or all tokens if that is unset."""

    target_head: Tensor
    """This rank's shard of the target's head; set if rows of it are used."""

    def __init__(self, config: Any, *args: Any, **kw: Any) -> None:
        super().__init__(config, *args, **kw)
        self.ranks: int = get_parallel().tp_size
        self.covered: int = getattr(config, "hot_vocab_size", config.vocab_size) // self.ranks
        """Tokens that the head of each rank covers."""
        self.is_reduced = self.covered * self.ranks < config.vocab_size
        if not self.is_reduced:
            return
        self.rank: int = get_parallel().tp_rank
        self.lm_head = ParallelLMHead(self.covered * self.ranks, config.hidden_size)
        self.rows: int = self.lm_head.weight.shape[0]
        """Rows of each rank's head: those that cover tokens, and padding."""
        self.register_buffer("taken", torch.zeros(self.covered, dtype=torch.int64), persistent=False)
        self.spread = SpreadLogits(config.vocab_size, self.rows * self.ranks)

    def use_head_of(self, owner: Any) -> None:
        """Use the head of the target module, or rows of it."""
        if self.is_reduced:
            self.target_head = owner.weight
        else:
            self.lm_head = owner

    def cover(self, tokens: Sequence[Sequence[int]]) -> None:
        """Cover these tokens: at most `covered` tokens of each rank's shard of the vocabulary."""
        shard, taken = self.target_head.shape[0], self.taken
        rows = sent([token - self.rank * shard for token in tokens[self.rank]], taken.device, torch.int64)
        taken.zero_()
        taken[: len(rows)] = rows
        columns = [rank * self.rows + place for rank, mine in enumerate(tokens) for place in range(len(mine))]
        flat = [token for mine in tokens for token in mine]
        self.spread.cover(sent(flat, taken.device, torch.int64), sent(columns, taken.device, torch.int64))
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """
        Copy the rows of the covered tokens again after the target's weights changed.

        In place, since graphs read them.
        """
        rows = self.lm_head.weight.data[: self.covered]
        torch.index_select(self.target_head, 0, self.taken, out=rows)
        forget_weight(self.lm_head.weight)


class SharesWithTarget(TargetsHead):
    """Mixin for SGLang's autoregressive drafters with a logits processor."""

    def __init__(self, config: Any, *args: Any, **kw: Any) -> None:
        super().__init__(config, *args, **kw)
        if self.is_reduced:
            gathered = copy(config)
            gathered.vocab_size = self.rows * self.ranks
            self.logits_processor = LogitsProcessor(gathered)

    def set_embed_and_head(self, embed: nn.Parameter, head: nn.Parameter) -> None:
        """Use the target's embedding, and its head or the covered rows of it, on every device."""
        del self.model.embed_tokens.weight
        self.model.embed_tokens.weight = embed
        if self.is_reduced:
            self.target_head = head
        else:
            del self.lm_head.weight
            self.lm_head.weight = head
        current_platform.empty_cache()
        current_platform.synchronize()

    def forward(self, *args: Any, **kw: Any) -> Any:
        output = super().forward(*args, **kw)
        if self.is_reduced:
            output.next_token_logits = self.spread(output.next_token_logits)
        return output
