"""The SDK of the rollout endpoint: `from tlt_common.client import Client`."""

from tlt_common.client.blocking import BlockingClient
from tlt_common.client.rollout import Client
from tlt_common.client.rollout_log import RolloutLog
from tlt_common.domain.batch import Sample
from tlt_common.domain.delta import ChangedElements
from tlt_common.domain.rollout import FinishReason, LogprobKind, ResponseStats, SamplingParams, Speculation, TokenChunk

__all__ = [
    "BlockingClient",
    "ChangedElements",
    "Client",
    "FinishReason",
    "LogprobKind",
    "ResponseStats",
    "RolloutLog",
    "Sample",
    "SamplingParams",
    "Speculation",
    "TokenChunk",
]
