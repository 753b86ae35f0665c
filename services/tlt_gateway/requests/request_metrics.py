"""Prometheus metrics of one request."""

import asyncio

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.telemetry import metrics


class RequestMetrics:
    """
    Times and lengths of one request, measured from construction. Totals are observed only if it finishes.

    Attributes:
        began_s: Loop time of its construction.
        first_s: Loop time of the first token; None before it.
        versions: Versions of the policy that generated tokens.
        outcome: How the request ended: "failed" until it is known.
    """

    def __init__(self, prompt: Prompt) -> None:
        self._clock = asyncio.get_running_loop().time
        self.began_s = self._clock()
        self.first_s: float | None = None
        self.versions: set[PolicyVersion] = set()
        self.outcome = "failed"
        self._tokens = 0
        self._is_turn = bool(prompt.session_id)
        metrics.GATEWAY_PROMPT_TOKENS.observe(len(prompt.token_ids))

    def chunk(self, chunk: TokenChunk) -> TokenChunk:
        """Record a chunk about to be sent to the client, and return it."""
        if self._is_turn and chunk.stats is not None:
            metrics.GATEWAY_SESSION_TOKENS.inc(chunk.stats.prompt_tokens)
            metrics.GATEWAY_SESSION_CACHED.inc(chunk.stats.cached_tokens)
        if not chunk.token_ids:
            return chunk
        if self.first_s is None:
            self.first_s = self._clock()
            metrics.GATEWAY_FIRST_TOKEN_SECONDS.observe(self.first_s - self.began_s)
        self._tokens += len(chunk.token_ids)
        self.versions.update(chunk.policy_versions)
        metrics.GATEWAY_PRODUCED_TOKENS.inc(len(chunk.token_ids))
        return chunk

    def finished(self) -> None:
        """Record the completion of the response."""
        self.outcome = "finished"
        metrics.GATEWAY_REQUEST_SECONDS.observe(self._clock() - self.began_s)
        metrics.GATEWAY_RESPONSE_TOKENS.observe(self._tokens)
        metrics.GATEWAY_RESPONSE_VERSIONS.observe(len(self.versions))
