"""
SGLang's MTP head of MiMo, with an output head that may cover part of the vocabulary.

Imported inside SGLang's processes only. Written against SGLang 0.5.23: `models/mimo_mtp.py`.
"""

from sglang.srt.models.mimo_mtp import MiMoMTP as UpstreamMiMoMTP

from tlt_worker.scheduler.models.targets_head import SharesWithTarget


class MiMoMTP(SharesWithTarget, UpstreamMiMoMTP):  # type: ignore[misc] # SGLang is untyped
    """The head of a MiMo policy."""


EntryClass = MiMoMTP
