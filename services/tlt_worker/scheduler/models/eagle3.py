"""
SGLang's EAGLE-3 drafter, with logits over the target's vocabulary. Imported inside SGLang's processes only.

The head of an EAGLE-3 drafter covers a part of the target's vocabulary. SGLang keeps its drafts in that reduced
vocabulary and maps single tokens, so it rejects sampled drafts, which need the whole distribution q over the target's
tokens, and cannot change the map at run time. Here logits are spread over the whole vocabulary, and a new drafter may
have a new map.

Written against SGLang 0.5.23: `models/llama_eagle3.py`. Shapes: D draft vocabulary.
"""

from collections.abc import Iterable
from typing import Any

import torch
from sglang.srt.models.llama_eagle3 import LlamaForCausalLMEagle3
from torch import Tensor

from tlt_common.drafter.tensors import MAP
from tlt_worker.scheduler.models.spread import SpreadLogits


class TltEagle3(LlamaForCausalLMEagle3):  # type: ignore[misc] # SGLang is untyped
    """An EAGLE-3 drafter with logits over the target's vocabulary."""

    def __init__(self, config: Any, *args: Any, **kw: Any) -> None:
        super().__init__(config, *args, **kw)
        self.spread = SpreadLogits(config.vocab_size, config.draft_vocab_size)

    def forward(self, *args: Any, **kw: Any) -> Any:
        output = super().forward(*args, **kw)
        output.next_token_logits = self.spread(output.next_token_logits)
        return output

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Load weights. A map among them replaces the previous one. Draft tokens mapped to V are unused."""
        others = []
        for name, tensor in weights:
            if name == MAP:
                self._load_map(tensor)
            else:
                others.append((name, tensor))
        super().load_weights(others)

    def _load_map(self, map_D: Tensor) -> None:
        draft_token_D = torch.arange(self.config.draft_vocab_size, device=self.spread.column.device)
        target_token_D = map_D.to(draft_token_D) + draft_token_D
        known = target_token_D < self.config.vocab_size
        self.spread.cover(target_token_D[known], draft_token_D[known])


EntryClass = TltEagle3
