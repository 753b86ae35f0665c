"""
SGLang's MTP head of GLM-4.5 and later, on every device, with an output head that may cover part of the vocabulary.

SGLang's class shares the policy's embedding and head on CUDA only. SGLang finds classes by architecture name, on which
it bases other decisions, so this class has the same name. Imported inside SGLang's processes only.

Written against SGLang 0.5.23: `models/glm4_moe_nextn.py`.
"""

from sglang.srt.models.glm4_moe_nextn import Glm4MoeForCausalLMNextN as UpstreamGlm4MoeForCausalLMNextN

from tlt_worker.scheduler.models.targets_head import SharesWithTarget


class Glm4MoeForCausalLMNextN(SharesWithTarget, UpstreamGlm4MoeForCausalLMNextN):  # type: ignore[misc] # SGLang is untyped
    """The head of a GLM-4 MoE policy."""


EntryClass = Glm4MoeForCausalLMNextN
