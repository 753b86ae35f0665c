"""The part of a response received so far, and how another worker or gateway continues it."""

from array import array
from dataclasses import replace

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import FinishReason, ResponseStats, TokenChunk

PROVEN_ROUNDS = 4
"""Rounds after which a response is not suspected of having ended its engine. At most two are underway in an engine."""


class Transcript:
    """
    One response across all attempts that generated parts of it. Gateways and clients keep one per request.

    Continuing from the tokens received so far is exact in distribution, since a token depends only on its prefix:
    lengths and penalties count the prefix, and the random numbers of a seed are a function of the position. If the
    weights are updated between two attempts, the tokens of the later one come from the new weights, as for a request in
    flight during an update; `policy_versions` records which.
    """

    def __init__(self, prompt: Prompt) -> None:
        """Start a transcript. With `max_new_tokens`, completion can be derived from the length."""
        self.prompt = prompt
        self._token_ids = array("i")
        self._part = _Part()
        self._lost = _Part()
        self.moves = 0
        """Workers or gateways lost so far."""
        self._handed_over = 0
        self._deaths = 0
        self._last: TokenChunk | None = None
        self._begun = prompt.begun_version

    @property
    def closed(self) -> bool:
        """Whether the last chunk was added."""
        return self._last is not None

    @property
    def stats(self) -> ResponseStats | None:
        """Statistics of the response; None until the last chunk was added."""
        return self._last.stats if self._last is not None else None

    @property
    def generated(self) -> int:
        """Tokens of the response so far, including a prefix."""
        return len(self.prompt.prefix_token_ids) + len(self._token_ids)

    @property
    def ended_attempts(self) -> int:
        """Number of attempts that ended before the response was complete."""
        return self.moves + self._handed_over

    @property
    def count(self) -> int:
        """Number of response tokens, including a prefix."""
        return len(self.prompt.prefix_token_ids) + len(self._token_ids)

    @property
    def finish_reason(self) -> FinishReason | None:
        """
        Why the response is complete; None if more tokens follow.

        Also derived from the tokens alone, in case a worker is lost after its last token but before it sent the reason.
        """
        if self._last is not None:
            return self._last.finish_reason
        sampling = self.prompt.sampling
        if self._token_ids and self.count > sampling.min_new_tokens and self._token_ids[-1] in sampling.stop_token_ids:
            return FinishReason.STOP
        return FinishReason.LENGTH if self.count == sampling.max_new_tokens else None

    def is_stale(self, served: PolicyVersion) -> bool:
        """Return whether the response must end because this version of the weights is served."""
        allowed = self.prompt.max_staleness
        return allowed is not None and self._begun is not None and served - self._begun > allowed

    def fresh(self, chunk: TokenChunk) -> TokenChunk:
        """Return the next chunk, cut before its first token from weights that make the response stale."""
        versions, allowed = chunk.policy_versions, self.prompt.max_staleness
        if allowed is None or not versions:
            return chunk
        newest = (versions[0] if self._begun is None else self._begun) + allowed
        if versions[-1] <= newest:
            return chunk
        kept = sum(version <= newest for version in versions)
        return TokenChunk(
            request_id=chunk.request_id,
            token_ids=chunk.token_ids[:kept],
            logprobs=chunk.logprobs[:kept],
            policy_versions=versions[:kept],
            prompt_logprobs=chunk.prompt_logprobs,
            rounds=min(kept, chunk.rounds),
        )

    def add(self, chunk: TokenChunk) -> TokenChunk:
        """Add a received chunk; return it as it is passed on."""
        if self._begun is None and chunk.policy_versions:
            self._begun = chunk.policy_versions[0]
        self._token_ids.extend(chunk.token_ids)
        self._part.rounds += chunk.rounds or bool(chunk.token_ids)
        self._part.tokens += len(chunk.token_ids)
        if chunk.finish_reason is None:
            return replace(chunk, request_id=self.prompt.request_id)
        self._last = replace(chunk, request_id=self.prompt.request_id, stats=self._stats(chunk.stats))
        return self._last

    def end(self, reason: FinishReason) -> TokenChunk:
        """End the response here; return its final chunk."""
        return self.add(
            TokenChunk(
                request_id=self.prompt.request_id, token_ids=(), logprobs=(), policy_versions=(), finish_reason=reason
            )
        )

    @property
    def is_suspect(self) -> bool:
        """
        Whether two engines died while running the request, the second one without further progress.

        A request that kills its engine does so again at the same position; an innocent one gets further.
        """
        return self._deaths > 1

    def move(self, *, died: bool) -> None:
        """Record the loss of the attempt: keep its tokens and let another continue. `died` if an engine may have."""
        if died:
            self._deaths = self._deaths + 1 if self._part.rounds < PROVEN_ROUNDS else 1
        self._close_part()
        self.moves += 1

    def hand_over(self) -> None:
        """Record that the attempt was ended on purpose after all its tokens were received, and let another continue."""
        self._close_part()
        self._handed_over += 1

    def rest(self) -> Prompt:
        """Return the prompt for the next attempt, with the tokens received so far as its prefix."""
        if not self.ended_attempts:
            return self.prompt
        return replace(
            self.prompt,
            attempt=self.prompt.attempt + self.ended_attempts,
            # They came with the first token.
            prompt_logprobs_start=None if self._token_ids else self.prompt.prompt_logprobs_start,
            prefix_token_ids=(*self.prompt.prefix_token_ids, *self._token_ids),
            begun_version=self._begun,
        )

    def _close_part(self) -> None:
        self._lost.rounds += self._part.rounds
        self._lost.tokens += self._part.tokens
        self._part = _Part()

    def _stats(self, last: ResponseStats | None) -> ResponseStats:
        """
        Return the statistics over all attempts.

        An ended attempt sends none; each of its chunks took at least one round.
        """
        rounds = last.rounds if last else self._part.rounds
        accepted = last.accepted_draft_tokens if last else self._part.accepted
        return ResponseStats(
            prompt_tokens=len(self.prompt.token_ids),
            completion_tokens=len(self._token_ids),
            rounds=self._lost.rounds + rounds,
            accepted_draft_tokens=self._lost.accepted + accepted,
            # Of a lost attempt's draft tokens, only the accepted ones are known.
            proposed_draft_tokens=self._lost.accepted + (last.proposed_draft_tokens if last else accepted),
            speculation_blocker=last.speculation_blocker if last else "",
            worker_id=last.worker_id if last else "",
            # A later attempt also finds tokens of the response cached, which are none of the prompt.
            cached_tokens=min(last.cached_tokens, len(self.prompt.token_ids)) if last else 0,
        )


class _Part:
    """The part of a response that one attempt sent."""

    def __init__(self) -> None:
        self.rounds = 0
        self.tokens = 0

    @property
    def accepted(self) -> int:
        """Number of tokens beyond one per round."""
        return self.tokens - self.rounds
