"""Merges the chunks of a response, using a few bytes of memory per token."""

from array import array
from dataclasses import replace

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.response import PromptLogprobs, TokenChunk


class MergedChunk:
    """Successive chunks of one response as one chunk. As cheap as the chunk itself while there is only one."""

    def __init__(self) -> None:
        self._only: TokenChunk | None = None
        self._last: TokenChunk | None = None
        self._token_ids = array("i")
        self._logprobs = array("d")
        self._policy_versions = array("q")
        self._prompt_logprobs: PromptLogprobs | None = None
        self._rounds = 0

    @property
    def count(self) -> int:
        """Number of tokens."""
        return len(self._only.token_ids) if self._only else len(self._token_ids)

    @property
    def is_complete(self) -> bool:
        """Whether the last chunk of the response has been added."""
        return self._last is not None and self._last.finish_reason is not None

    def add(self, chunk: TokenChunk) -> None:
        """Append a chunk."""
        if self._last is None:
            self._only = chunk
        else:
            if self._only is not None:
                self._append(self._only)
                self._only = None
            self._append(chunk)
        self._last = chunk

    def whole(self) -> TokenChunk:
        """Return the merged chunk. At least one chunk must have been added."""
        if self._only is not None:
            return self._only
        assert self._last is not None, "no chunk was added"  # noqa: S101
        return replace(
            self._last,
            token_ids=tuple(self._token_ids),
            logprobs=tuple(self._logprobs),
            policy_versions=tuple(map(PolicyVersion, self._policy_versions)),
            prompt_logprobs=self._prompt_logprobs,
            rounds=self._rounds,
        )

    def _append(self, chunk: TokenChunk) -> None:
        self._token_ids.extend(chunk.token_ids)
        self._logprobs.extend(chunk.logprobs)
        self._policy_versions.extend(chunk.policy_versions)
        self._prompt_logprobs = self._prompt_logprobs or chunk.prompt_logprobs
        self._rounds += chunk.rounds or bool(chunk.token_ids)
