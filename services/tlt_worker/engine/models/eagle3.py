"""
SGLang's EAGLE-3 drafter, with logits over the target's vocabulary. Imported inside SGLang's processes only.

The head of an EAGLE-3 drafter knows a part of the target's tokens. SGLang keeps its drafts in that small vocabulary
and maps token by token, and so refuses sampled drafts, which need the whole distribution q over the target's tokens,
and cannot take another map while it runs. Here tokens the head does not know get the logit -inf: q is then exact where
it is and zero elsewhere, every arm sees one vocabulary, and a new drafter may bring a new map.

Written against SGLang 0.5.23: `models/llama_eagle3.py`. Shapes: M rows, D draft vocabulary, V target vocabulary.
"""

from collections.abc import Iterable
from typing import Any

import torch
from sglang.srt.models.llama_eagle3 import LlamaForCausalLMEagle3
from torch import Tensor

from tlt_worker.engine.drafter import MAP


class TltEagle3(LlamaForCausalLMEagle3):  # type: ignore[misc] # SGLang is untyped
    """An EAGLE-3 drafter whose logits are those of the target's vocabulary."""

    inverse: Tensor
    """Draft token of each target token, [V]; D: the head does not know it. Filled in place: captured graphs read it."""

    def __init__(self, config: Any, *args: Any, **kw: Any) -> None:
        super().__init__(config, *args, **kw)
        unknown_V = torch.full((config.vocab_size,), config.draft_vocab_size, dtype=torch.int64)
        self.register_buffer("inverse", unknown_V, persistent=False)

    def forward(self, *args: Any, **kw: Any) -> Any:
        output = super().forward(*args, **kw)
        output.next_token_logits = self._over_target_vocabulary(output.next_token_logits)
        return output

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Load weights; a map among them replaces the one before. Draft tokens mapped to V stand for none."""
        others = []
        for name, tensor in weights:
            if name == MAP:
                self._follow(tensor)
            else:
                others.append((name, tensor))
        super().load_weights(others)

    def _follow(self, map_D: Tensor) -> None:
        size, unknown = self.config.vocab_size, self.config.draft_vocab_size
        draft_token_D = torch.arange(unknown, device=self.inverse.device)
        target_token_D = map_D.to(draft_token_D) + draft_token_D
        known = target_token_D < size
        self.inverse.fill_(unknown)
        self.inverse[target_token_D[known]] = draft_token_D[known]

    def _over_target_vocabulary(self, logits_MD: Tensor) -> Tensor:
        nothing_M1 = logits_MD.new_full((logits_MD.shape[0], 1), float("-inf"))
        return torch.cat([logits_MD, nothing_M1], dim=1).index_select(1, self.inverse)


EntryClass = TltEagle3
