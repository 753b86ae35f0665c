"""
SGLang's head of MiMo, as it is: engines run classes of ours only. Imported inside SGLang's processes only.

Written against SGLang 0.5.23: `models/mimo_mtp.py`.
"""

from sglang.srt.models.mimo_mtp import MiMoMTP as UpstreamMiMoMTP


class MiMoMTP(UpstreamMiMoMTP):  # type: ignore[misc] # SGLang is untyped
    """The head of a MiMo policy."""


EntryClass = MiMoMTP
