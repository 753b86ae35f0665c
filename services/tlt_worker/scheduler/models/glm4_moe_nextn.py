"""
SGLang's head of GLM-4.5 and later, on every device. Imported inside SGLang's processes only.

SGLang's own takes the policy's embedding and head only where there is CUDA. It is found by its architecture's name, on
which SGLang decides other things, so ours has the same.

Written against SGLang 0.5.23: `models/glm4_moe_nextn.py`.
"""

from sglang.srt.models.glm4_moe_nextn import Glm4MoeForCausalLMNextN as UpstreamGlm4MoeForCausalLMNextN
from sglang.srt.platforms import current_platform
from torch import nn


class Glm4MoeForCausalLMNextN(UpstreamGlm4MoeForCausalLMNextN):  # type: ignore[misc] # SGLang is untyped
    """The head of a GLM-4 MoE policy."""

    def set_embed_and_head(self, embed: nn.Parameter, head: nn.Parameter) -> None:
        """Use the policy's embedding and head instead of own ones."""
        del self.model.embed_tokens.weight, self.lm_head.weight
        self.model.embed_tokens.weight, self.lm_head.weight = embed, head
        current_platform.empty_cache()
        current_platform.synchronize()


EntryClass = Glm4MoeForCausalLMNextN
