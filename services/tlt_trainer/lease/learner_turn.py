"""Exclusive use of the learner by one task at a time, with its purpose."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum


class Occupation(StrEnum):
    """Current use of the learner."""

    NOTHING = "nothing"
    """Unused: there is no lease or no data, or files and calls are in progress."""
    TRAINING = "training"
    """A micro-step or an optimizer step."""
    SCORING = "scoring"
    """Own and published weights are scored on held-out data."""
    MERGING = "merging"
    """The fleet's drafter is scored, merged and adopted."""
    PUBLISHING = "publishing"
    """The trainer's own weights are copied for publication."""
    SAVING = "saving"
    """The complete state is copied for a checkpoint."""
    CHOOSING_TOKENS = "choosing_tokens"
    """The draft tokens of an EAGLE-3 drafter are compared with those of the newest responses."""
    READING_POLICY = "reading_policy"
    """Embedding and head of the policy are loaded."""


class LearnerTurn:
    """
    The right to use the learner, granted in order of request.

    Tasks that wait for a file or another process do not hold it, so that training continues.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._doing = Occupation.NOTHING

    @property
    def doing(self) -> Occupation:
        """Current use of the learner."""
        return self._doing

    @asynccontextmanager
    async def of(self, doing: Occupation) -> AsyncIterator[None]:
        """Wait for the turn and hold it within the block."""
        async with self._lock:
            self._doing = doing
            try:
                yield
            finally:
                self._doing = Occupation.NOTHING
