"""
SGLang's EAGLE-3 drafter, with logits over the target's vocabulary. Imported inside SGLang's processes only.

The head of an EAGLE-3 drafter covers a part of the target's vocabulary. SGLang keeps its drafts in that reduced
vocabulary and maps single tokens, so it rejects sampled drafts, which need the whole distribution q over the target's
tokens, and cannot change the map at run time. Here tokens the head does not cover get the logit -inf: q is then exact
over the covered tokens and zero elsewhere, all arms share one vocabulary, and a new drafter may have a new map.

Written against SGLang 0.5.23: `models/llama_eagle3.py`. Shapes: M rows, D draft vocabulary, V target vocabulary.
"""

from collections.abc import Iterable
from typing import Any

import torch
from sglang.srt.models.llama_eagle3 import LlamaForCausalLMEagle3
from torch import Tensor

from tlt_common.drafter.tensors import MAP


class TltEagle3(LlamaForCausalLMEagle3):  # type: ignore[misc] # SGLang is untyped
    """An EAGLE-3 drafter with logits over the target's vocabulary."""

    inverse: Tensor
    """Draft token of each target token, [V]; D: not covered by the head. Filled in place: captured graphs read it."""

    def __init__(self, config: Any, *args: Any, **kw: Any) -> None:
        super().__init__(config, *args, **kw)
        unknown_V = torch.full((config.vocab_size,), config.draft_vocab_size, dtype=torch.int64)
        self.register_buffer("inverse", unknown_V, persistent=False)

    def forward(self, *args: Any, **kw: Any) -> Any:
        output = super().forward(*args, **kw)
        output.next_token_logits = self._over_target_vocabulary(output.next_token_logits)
        return output

    def load_weights(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Load weights; a map among them replaces the previous one. Draft tokens mapped to V are unused."""
        others = []
        for name, tensor in weights:
            if name == MAP:
                self._load_map(tensor)
            else:
                others.append((name, tensor))
        super().load_weights(others)

    def _load_map(self, map_D: Tensor) -> None:
        size, draft_vocab_size = self.config.vocab_size, self.config.draft_vocab_size
        draft_token_D = torch.arange(draft_vocab_size, device=self.inverse.device)
        target_token_D = map_D.to(draft_token_D) + draft_token_D
        known = target_token_D < size
        self.inverse.fill_(draft_vocab_size)
        self.inverse[target_token_D[known]] = draft_token_D[known]

    def _over_target_vocabulary(self, logits_MD: Tensor) -> Tensor:
        uncovered_M1 = logits_MD.new_full((logits_MD.shape[0], 1), float("-inf"))
        return torch.cat([logits_MD, uncovered_M1], dim=1).index_select(1, self.inverse)


EntryClass = TltEagle3
