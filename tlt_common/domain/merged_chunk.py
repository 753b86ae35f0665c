"""Merges the chunks of a response in memory of a few bytes per token."""

from array import array
from dataclasses import replace

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.rollout import TokenChunk


class MergedChunk:
    """Successive chunks of one response as one chunk."""

    def __init__(self) -> None:
        self._token_ids = array("i")
        self._logprobs = array("d")
        self._policy_versions = array("q")
        self._rounds = 0
        self._last: TokenChunk | None = None

    @property
    def token_ids(self) -> "array[int]":
        """All tokens so far."""
        return self._token_ids

    def add(self, chunk: TokenChunk) -> None:
        """Append a chunk."""
        self._token_ids.extend(chunk.token_ids)
        self._logprobs.extend(chunk.logprobs)
        self._policy_versions.extend(chunk.policy_versions)
        self._rounds += chunk.rounds or bool(chunk.token_ids)
        self._last = chunk

    def whole(self) -> TokenChunk:
        """Return what was added as one chunk. At least one chunk must have been added."""
        assert self._last is not None, "no chunk was added"  # noqa: S101
        return replace(
            self._last,
            token_ids=tuple(self._token_ids),
            logprobs=tuple(self._logprobs),
            policy_versions=tuple(map(PolicyVersion, self._policy_versions)),
            rounds=self._rounds,
        )
