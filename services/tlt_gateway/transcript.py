"""What was sent of one response, and how another worker goes on with it. Pure."""

from dataclasses import replace

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.rollout import FinishReason, Prompt, ResponseStats, TokenChunk


class Transcript:
    """
    One response, over all the workers it took.

    Going on from the tokens sent so far is exact in distribution, since a token depends on its prefix only: lengths and
    penalties count the prefix, and the random numbers of a seed belong to positions.
    """

    def __init__(self, prompt: Prompt) -> None:
        """Begin. `prompt` has been checked by `Prompt.for_model`, so that it says how many tokens may come."""
        self.prompt = prompt
        self._token_ids: list[int] = []
        self._logprobs: list[float] = []
        self._policy_versions: list[PolicyVersion] = []
        self._part = _Part()
        self._lost = _Part()
        self.moves = 0
        """Workers lost so far."""
        self._last: TokenChunk | None = None

    @property
    def closed(self) -> bool:
        """Whether its last chunk was added."""
        return self._last is not None

    @property
    def finish_reason(self) -> FinishReason | None:
        """
        Why the response is complete; None when more tokens are to come.

        Known from the tokens alone too, for when a worker is lost after its last token and before it says so.
        """
        sampling = self.prompt.sampling
        count = len(self.prompt.prefix_token_ids) + len(self._token_ids)
        if self._last is not None:
            return self._last.finish_reason
        if self._token_ids and count > sampling.min_new_tokens and self._token_ids[-1] in sampling.stop_token_ids:
            return FinishReason.STOP
        return FinishReason.LENGTH if count == sampling.max_new_tokens else None

    def add(self, chunk: TokenChunk) -> TokenChunk:
        """Take a worker's chunk in; return it as the client should see it."""
        self._token_ids += chunk.token_ids
        self._logprobs += chunk.logprobs
        self._policy_versions += chunk.policy_versions
        self._part.rounds += bool(chunk.token_ids)
        self._part.tokens += len(chunk.token_ids)
        if chunk.finish_reason is None:
            return replace(chunk, request_id=self.prompt.request_id)
        self._last = replace(chunk, request_id=self.prompt.request_id, stats=self._stats(chunk.stats))
        return self._last

    def end(self, reason: FinishReason) -> TokenChunk:
        """Close the response from this side; return the chunk that says so."""
        return self.add(
            TokenChunk(
                request_id=self.prompt.request_id, token_ids=(), logprobs=(), policy_versions=(), finish_reason=reason
            )
        )

    def move(self) -> None:
        """The worker is lost: what it sent stays, another goes on."""
        self._lost.rounds += self._part.rounds
        self._lost.tokens += self._part.tokens
        self._part = _Part()
        self.moves += 1

    def rest(self) -> Prompt:
        """What the next worker is asked: the prompt, and the tokens sent so far as its prefix."""
        if not self.moves:
            return self.prompt
        return replace(
            self.prompt,
            # The lost worker may still run the request under its old id until it notices.
            request_id=RequestId(f"{self.prompt.request_id}~{self.moves}"),
            prefix_token_ids=(*self.prompt.prefix_token_ids, *self._token_ids),
        )

    def whole(self) -> TokenChunk:
        """All of the response in one chunk, once its last one was added."""
        assert self._last is not None, "the response is not complete"  # noqa: S101
        return replace(
            self._last,
            token_ids=tuple(self._token_ids),
            logprobs=tuple(self._logprobs),
            policy_versions=tuple(self._policy_versions),
        )

    def _stats(self, last: ResponseStats | None) -> ResponseStats:
        """Sum over workers. A lost one told nothing; each of its chunks took a round at least."""
        rounds = last.rounds if last else self._part.rounds
        accepted = last.accepted_draft_tokens if last else self._part.accepted
        return ResponseStats(
            prompt_tokens=len(self.prompt.token_ids),
            completion_tokens=len(self._token_ids),
            rounds=self._lost.rounds + rounds,
            accepted_draft_tokens=self._lost.accepted + accepted,
            # Of a lost worker's only those are known that were accepted.
            proposed_draft_tokens=self._lost.accepted + (last.proposed_draft_tokens if last else accepted),
            speculation_blocker=last.speculation_blocker if last else "",
            worker_id=last.worker_id if last else "",
        )


class _Part:
    """What one worker sent."""

    def __init__(self) -> None:
        self.rounds = 0
        self.tokens = 0

    @property
    def accepted(self) -> int:
        """Tokens beyond one per round."""
        return self.tokens - self.rounds
