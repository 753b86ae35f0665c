"""Selects the prompts held out of training for scoring. Pure."""

from tlt_common.domain.hidden import PROMPT_HASHES

HELD_OUT_ONE_IN = 8
"""About one prompt in this many is held out."""

HELD_OUT_BELOW = PROMPT_HASHES // HELD_OUT_ONE_IN
"""A prompt whose hash is below this is held out, always and by every trainer."""


class HeldOutPrompts:
    """
    Holds out the prompts whose hash is below HELD_OUT_BELOW; until one is seen, the prompt with the smallest hash.

    Holds out whole prompts, since samples of one prompt resemble each other: scores on samples of trained prompts
    overestimate a drafter. Hashes the prompt's tokens, so that a prompt stays held out when it returns in the next
    epoch under another request id. The smallest hash is a fallback: with 12 prompts none is below the bound in one case
    in five, and a drafter without a score is never published.

    The bound only decreases, so that no prompt is used for scoring after training. Trainers agree once they have seen
    the same prompts; the smallest hash of a data set is held out by each of them from the start.
    """

    def __init__(self) -> None:
        self._smallest = PROMPT_HASHES

    @property
    def bound(self) -> int:
        """Hashes up to this one are held out."""
        return max(HELD_OUT_BELOW - 1, self._smallest)

    def see(self, prompt_hash: int) -> bool:
        """Record a prompt. Return whether the bound decreased, which releases prompts for training."""
        before = self.bound
        self._smallest = min(self._smallest, prompt_hash)
        return self.bound < before

    def holds_out(self, prompt_hash: int) -> bool:
        """Return whether a known prompt is held out."""
        return prompt_hash <= self.bound
