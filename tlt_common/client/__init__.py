"""The client of the rollout endpoint, public as `tlt_suite`."""

from tlt_common.client.blocking import BlockingClient
from tlt_common.client.options import ClientOptions
from tlt_common.client.rollout import Client
from tlt_common.client.rollout_log import RolloutLog
from tlt_common.domain.batch import Sample
from tlt_common.domain.prompt import LogprobKind, SamplingParams, Speculation
from tlt_common.domain.response import FinishReason, PromptLogprobs, ResponseStats, RoutedExperts, TokenChunk
from tlt_common.domain.weights import ChangedElements

__all__ = [
    "BlockingClient",
    "ChangedElements",
    "Client",
    "ClientOptions",
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
]
