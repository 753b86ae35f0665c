"""Scores drafters on the held-out frames at hand, batch by batch, so that the device can be taken back between two."""

import random
from collections.abc import Callable, Mapping

from torch import Tensor

from tlt_trainer.batch import collate, plan
from tlt_trainer.device import Device
from tlt_trainer.learner import Learner
from tlt_trainer.pool import FramePool
from tlt_trainer.score import Score, Tally, score_of


class Examiner:
    """
    Scores on the newest held-out frames: those of the work that drafting is about to serve.

    Args:
        tokens: States to score on, at most about.
        batch_tokens: Of one batch.
        allowed: Says whether the device is still ours.
    """

    def __init__(
        self,
        learner: Learner,
        device: Device,
        pool: FramePool,
        *,
        tokens: int,
        batch_tokens: int,
        allowed: Callable[[], bool],
    ) -> None:
        self._learner = learner
        self._device = device
        self._pool = pool
        self._tokens = tokens
        self._batch_tokens = batch_tokens
        self._allowed = allowed

    @property
    def allowed(self) -> bool:
        """Whether the device is still ours."""
        return self._allowed()

    async def scores(self, *candidates: Mapping[str, Tensor] | None) -> tuple[Score, ...] | None:
        """
        Score weights on the same frames; None among them stands for the learner's own.

        Returns None where nothing is held out yet, or the device was taken back meanwhile.
        """
        frames = self._pool.held_out(self._tokens)
        groups = plan(frames, self._batch_tokens, random.Random(0))
        scores: list[Score] = []
        for weights in candidates:
            drafter = None if weights is None else self._learner.candidate(weights)
            tallies: list[Tally] = []
            for group in groups:
                if not self._allowed():
                    return None
                batch = collate(group, self._learner.device)
                tallies.append(await self._device.run(self._learner.tally, batch, drafter))
            score = score_of(tallies)
            if score is None:
                return None
            scores.append(score)
        return tuple(scores)
