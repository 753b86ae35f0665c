"""
Chooses the tokens to train a drafter on, the policy's most frequent ones: the draft tokens of EAGLE-3, which are part
of the drafter, or the rows of the policy's head that the loss of others compares.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from tlt_common.drafter.token_counts import TokenCounts
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.learner import Learner
from tlt_trainer.lease.device import TrainingDevice
from tlt_trainer.lease.learner_turn import LearnerTurn, Occupation

log = get_logger(__name__)

COUNTED_TOKENS = 4096
"""Generated tokens from which tokens that were chosen may be replaced: of fewer, a share says little."""


class DraftTokens:
    """
    Keeps a learner's tokens up to date with recent responses. Does nothing for block drafters, which have no choice.

    Args:
        counts: Counts of the policy's generated tokens, maintained elsewhere.
        allowed: Returns whether the device may be used, which implies that the policy's head is loaded.
    """

    def __init__(
        self,
        learner: Learner,
        device: TrainingDevice,
        turn: LearnerTurn,
        counts: TokenCounts,
        *,
        allowed: Callable[[], bool],
    ) -> None:
        self._learner = learner
        self._device = device
        self._turn = turn
        self._counts = counts
        self._allowed = allowed
        self._is_ready = learner.tokens is None and learner.rows is None

    async def prepare(self) -> None:
        """Choose tokens if there are none. Called before every micro-step; only the first call has an effect."""
        if not self._is_ready:
            await self.renew()

    async def renew(self) -> None:
        """
        Choose tokens again if others would cover clearly more of the policy's tokens.

        Raises:
            torch.OutOfMemoryError: Memory is short; the tokens stay unchanged.
        """
        if self._learner.tokens is None and self._learner.rows is None:
            return
        async with self._turn.of(Occupation.CHOOSING_TOKENS):
            if not self._allowed():  # lost while another task had its turn
                return
            # A copy: more is counted meanwhile, by another thread than the device's.
            counts = self._counts.copy()
            if (rows := self._learner.rows) is not None:
                await self._device.run(rows.choose, counts)
            else:
                metrics.DRAFT_COVERAGE.set(await self._device.run(self._choose, counts))
        self._is_ready = True

    def _choose(self, counts: TokenCounts) -> float:
        before_D = self._tokens().numpy()
        has_none = bool((before_D < 0).any())
        better_D = counts.better_than(before_D) if has_none or counts.total >= COUNTED_TOKENS else None
        if better_D is None:
            return counts.coverage(before_D)
        self._learner.choose(torch.from_numpy(better_D))
        replaced = len(better_D) - len(np.intersect1d(better_D, before_D))
        log.info("draft_tokens_chosen", replaced=replaced, counted_tokens=counts.total)
        return counts.coverage(better_D)

    def _tokens(self) -> Tensor:
        tokens_D = self._learner.tokens
        assert tokens_D is not None  # noqa: S101 - of EAGLE this is never asked
        return tokens_D.cpu()
