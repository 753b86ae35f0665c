"""
SGLang's EAGLE drafter, whose head may cover a part of the target's vocabulary. Imported inside SGLang's processes only.

An EAGLE drafter uses its target's head. For 152,000 tokens that is two thirds of the bytes that a draft reads, although
a run's responses use a few thousand. With fewer draft tokens the head is a copy of their rows of the target's, chosen
anew as responses change (`tlt_worker.scheduler.drafts.head_tokens`). Logits are spread over the target's vocabulary
as for EAGLE-3.

Each rank covers tokens of its own shard of the vocabulary, so that no rows are exchanged.

Written against SGLang 0.5.23: `models/llama_eagle.py`. Shapes: M rows, D draft tokens, V target vocabulary.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any

import torch
from sglang.srt.layers.logits_processor import LogitsProcessor
from sglang.srt.models.llama_eagle import LlamaForCausalLMEagle
from sglang.srt.runtime_context import get_parallel
from torch import Tensor

from tlt_worker.scheduler.models.spread import SpreadLogits
from tlt_worker.scheduler.sent import sent


class TltEagle(LlamaForCausalLMEagle):  # type: ignore[misc] # SGLang is untyped
    """An EAGLE drafter. Its head covers `config.hot_vocab_size` tokens, or all of them without it."""

    def __init__(self, config: Any, *args: Any, **kw: Any) -> None:
        super().__init__(config, *args, **kw)
        self.ranks: int = get_parallel().tp_size
        self.covered: int = getattr(config, "hot_vocab_size", config.vocab_size) // self.ranks
        """Tokens that the head of each rank covers."""
        self.is_reduced = self.covered * self.ranks < config.vocab_size
        if not self.is_reduced:
            return
        self.rank: int = get_parallel().tp_rank
        self.rows = self.lm_head.weight.shape[0]
        """Rows of each rank's head: those that cover tokens, and padding."""
        self.register_buffer("taken", torch.zeros(self.covered, dtype=torch.int64), persistent=False)
        self.spread = SpreadLogits(config.vocab_size, self.rows * self.ranks)
        gathered = copy(config)
        gathered.vocab_size = self.rows * self.ranks
        self.logits_processor = LogitsProcessor(gathered)

    def set_embed_and_head(self, embed: Tensor, head: Tensor) -> None:
        """Share the target's embedding, and its head or the rows of the covered tokens."""
        if not self.is_reduced:
            super().set_embed_and_head(embed, head)
            return
        self.target_head = head
        super().set_embed_and_head(embed, self.lm_head.weight)

    def cover(self, tokens: Sequence[Sequence[int]]) -> None:
        """Cover these tokens: for each rank, at most `covered` of its shard of the vocabulary."""
        shard, device = self.target_head.shape[0], self.taken.device
        rows = sent([token - self.rank * shard for token in tokens[self.rank]], device, torch.int64)
        self.taken.zero_()
        self.taken[: len(rows)] = rows
        columns = [rank * self.rows + place for rank, mine in enumerate(tokens) for place in range(len(mine))]
        flat = [token for mine in tokens for token in mine]
        self.spread.cover(sent(flat, device, torch.int64), sent(columns, device, torch.int64))
        self.refresh()

    @torch.no_grad()
    def refresh(self) -> None:
        """Copy the rows of the covered tokens again, since the target has new weights. In place: graphs read them."""
        torch.index_select(self.target_head, 0, self.taken, out=self.lm_head.weight.data[: self.covered])

    def forward(self, *args: Any, **kw: Any) -> Any:
        output = super().forward(*args, **kw)
        if self.is_reduced:
            output.next_token_logits = self.spread(output.next_token_logits)
        return output


EntryClass = TltEagle
