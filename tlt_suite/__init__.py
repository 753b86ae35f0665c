"""
What a trainer imports: the client, its types and its errors. Adapters for trainers are modules of this package.

This package is the only stable name of the suite's Python code. `tlt_common` and the services are internal: they may
change in any release.
"""

from tlt_common import __version__
from tlt_common.client import (
    BlockingClient,
    ChangedElements,
    Client,
    FinishReason,
    LogprobKind,
    PromptLogprobs,
    ResponseStats,
    RolloutLog,
    RoutedExperts,
    Sample,
    SamplingParams,
    Speculation,
    TokenChunk,
)

__all__ = [
    "BlockingClient",
    "ChangedElements",
    "Client",
    "FinishReason",
    "LogprobKind",
    "PromptLogprobs",
    "ResponseStats",
    "RolloutLog",
    "RoutedExperts",
    "Sample",
    "SamplingParams",
    "Speculation",
    "TokenChunk",
    "__version__",
]
