"""Scores drafters on held-out frames, one batch at a time, so that the device can be taken back between two batches."""

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

from torch import Tensor

from tlt_common.domain.ids import DrafterVersion, PolicyVersion
from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.frame_pool import FramePool
from tlt_trainer.data.pack import collate, plan
from tlt_trainer.drafter.kinds.draft_model import AnyDrafter
from tlt_trainer.drafter.score import Score, ScoreTally, score_of
from tlt_trainer.learner import Learner
from tlt_trainer.lease.device import TrainingDevice
from tlt_trainer.lease.pieces import placed


class _Occasion(NamedTuple):
    """Inputs that a score of the base depends on."""

    base: DrafterVersion
    policies: int
    """Number of embeddings and heads that the learner has shared."""
    frames: list[TrainingFrame]
    """The frames, compared by identity."""


class Evaluator:
    """
    Scores on the newest held-out frames: those of the workload that the drafter is about to serve.

    Args:
        tokens: Approximate number of states to score on.
        batch_tokens: Returns the maximum number of states per batch.
        allowed: Returns whether the device may still be used.
    """

    def __init__(
        self,
        learner: Learner,
        device: TrainingDevice,
        pool: FramePool,
        *,
        tokens: int,
        batch_tokens: Callable[[], int],
        allowed: Callable[[], bool],
    ) -> None:
        self._learner = learner
        self._device = device
        self._pool = pool
        self._tokens = tokens
        self._batch_tokens = batch_tokens
        self._allowed = allowed
        self._known: tuple[_Occasion, Score] | None = None
        """The last score of the learner's base."""

    @property
    def allowed(self) -> bool:
        """Whether the device may still be used."""
        return self._allowed()

    async def scores(self, *candidates: Mapping[str, Tensor] | None) -> tuple[Score, ...] | None:
        """
        Score several weights on the same frames; None stands for the learner's own.

        Returns None if nothing is held out yet or the device was taken back. The learner's base is not scored again on
        the frames of its last score.
        """
        frames = self._pool.held_out(self._tokens)
        newest = max((frame.header.policy_version for frame in frames), default=PolicyVersion(0))
        groups = plan(frames, self._batch_tokens(), random.Random(0))
        scores: list[Score] = []
        occasion = _Occasion(self._learner.counters.base_version, self._learner.policies, frames)
        for weights in candidates:
            is_base = weights is not None and weights is self._learner.base()
            if is_base and self._known is not None and self._known[0] == occasion:
                scores.append(self._known[1])
                continue
            drafter = None
            if weights is not None:
                held = await placed(self._device, weights, allowed=self._allowed)
                if held is None:
                    return None
                drafter = await self._device.run(self._learner.candidate, held)
            tallies: list[ScoreTally] = []
            for group in groups:
                if not self._allowed():
                    return None
                tallies.append(await self._device.run(self._tally, group, drafter))
            score = score_of(tallies, newest)
            if score is None:
                return None
            if is_base:
                self._known = occasion, score
            scores.append(score)
        return tuple(scores)

    def _tally(self, group: tuple[TrainingFrame, ...], drafter: AnyDrafter | None) -> ScoreTally:
        return self._learner.tally(collate(group, self._learner.device), drafter)
