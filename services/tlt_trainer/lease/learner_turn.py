"""One task at a time uses the learner, and everybody can see what for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum


class Occupation(StrEnum):
    """What the learner is used for."""

    NOTHING = "nothing"
    """Nobody uses it: there is no lease or no data, or files and calls are under way."""
    TRAINING = "training"
    """A micro-step or an optimizer step."""
    SCORING = "scoring"
    """Own and published weights are scored on held-out data."""
    MERGING = "merging"
    """The fleet's drafter is scored, merged and adopted."""
    PUBLISHING = "publishing"
    """The own weights are copied to be published."""
    SAVING = "saving"
    """Everything is copied for a checkpoint."""
    CHOOSING_TOKENS = "choosing_tokens"
    """The draft tokens of an EAGLE-3 drafter are compared with those of the newest responses."""
    READING_POLICY = "reading_policy"
    """Embedding and head of the policy are loaded."""


class LearnerTurn:
    """
    The right to use the learner, given in order of asking.

    What waits for a file or for another process does not hold it, so that training goes on meanwhile.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._doing = Occupation.NOTHING

    @property
    def doing(self) -> Occupation:
        """What the learner is used for now."""
        return self._doing

    @asynccontextmanager
    async def of(self, doing: Occupation) -> AsyncIterator[None]:
        """Wait for the turn, and keep it inside the block."""
        async with self._lock:
            self._doing = doing
            try:
                yield
            finally:
                self._doing = Occupation.NOTHING
