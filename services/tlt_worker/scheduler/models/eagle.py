"""
SGLang's EAGLE drafter with a head that may cover part of the target's vocabulary. Imported inside SGLang's processes
only.

Written against SGLang 0.5.23: `models/llama_eagle.py`.
"""

from sglang.srt.models.llama_eagle import LlamaForCausalLMEagle

from tlt_worker.scheduler.models.targets_head import SharesWithTarget


class TltEagle(SharesWithTarget, LlamaForCausalLMEagle):  # type: ignore[misc] # SGLang is untyped
    """An EAGLE drafter."""


EntryClass = TltEagle
