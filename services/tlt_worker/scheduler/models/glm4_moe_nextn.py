"""
SGLang's head of GLM-4.5 and later, on every device, whose own head may cover a part of the target's vocabulary.

SGLang's own takes the policy's embedding and head only where there is CUDA. It is found by its architecture's name, on
which SGLang decides other things, so ours has the same. Imported inside SGLang's processes only.

Written against SGLang 0.5.23: `models/glm4_moe_nextn.py`.
"""

from sglang.srt.models.glm4_moe_nextn import Glm4MoeForCausalLMNextN as UpstreamGlm4MoeForCausalLMNextN

from tlt_worker.scheduler.models.targets_head import SharesWithTarget


class Glm4MoeForCausalLMNextN(SharesWithTarget, UpstreamGlm4MoeForCausalLMNextN):  # type: ignore[misc] # SGLang is untyped
    """The head of a GLM-4 MoE policy."""


EntryClass = Glm4MoeForCausalLMNextN
