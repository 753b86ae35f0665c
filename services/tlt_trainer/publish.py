"""
Sharing what was learned: the own drafter becomes the fleet's, and the fleet's newest is followed.

A drafter is accepted only when it was made from the newest one (compare and swap at the coordinator). A trainer that
was overtaken merges and, if the merge is better than the newest, offers it at once: trainers that publish in turn
would otherwise overtake each other for ever. So no work is lost and no meeting point is needed.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Mapping
from typing import TypeVar

from torch import Tensor

from tlt_common.errors import AbortedError, StaleVersionError, UnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.config import PublishSettings
from tlt_trainer.drafter.files import DrafterMeta, to_files
from tlt_trainer.fleet import Fleet
from tlt_trainer.following import Following, Took
from tlt_trainer.learner import Learner
from tlt_trainer.score import Score
from tlt_trainer.storage import Storage

log = get_logger(__name__)

T = TypeVar("T")

ATTEMPTS = 3
"""To publish at one time. Who is overtaken so often leaves it to the others until the next time."""


def is_worth_sharing(own: Score, published: Score | None, settings: PublishSettings) -> bool:
    """Decide by scores on the same frames; `published` is None as long as the fleet has no drafter."""
    if published is None:
        return own.top1 >= settings.first_top1
    return own.accept_length >= published.accept_length + settings.gain


class Sharing:
    """
    One trainer's part in the fleet's drafter.

    Args:
        storage: Of this worker alone, readable by all.
    """

    def __init__(
        self,
        fleet: Fleet,
        storage: Storage,
        learner: Learner,
        following: Following,
        *,
        worker_id: str,
        settings: PublishSettings,
    ) -> None:
        self._fleet = fleet
        self._storage = storage
        self._learner = learner
        self._following = following
        self._worker_id = worker_id
        self._settings = settings
        self._reachable = True

    async def follow(self) -> bool:
        """
        Take over the fleet's newest drafter, if it is not the own base, and what was learned since on top.

        Returns whether the weights changed. Nothing is done while the coordinator is away.
        """
        followed = await self._if_reachable(self._following.follow())
        return followed is not None and followed.took in {Took.NEWEST, Took.MERGED}

    async def publish(self, score: Score) -> bool:
        """
        Offer the own weights to the fleet; return whether they, or a merge with newer ones, were accepted.

        Nothing is done while coordinator or storage are away.
        """
        return bool(await self._if_reachable(self._publish(score)))

    async def _publish(self, score: Score) -> bool:
        for _ in range(ATTEMPTS):
            if await self._offer(score):
                return True
            followed = await self._following.follow()
            if followed.own is None or not is_worth_sharing(followed.own, followed.newest, self._settings):
                break
            score = followed.own
        return False

    async def _offer(self, score: Score) -> bool:
        own, weights = self._learner.counters, self._learner.weights()
        meta = DrafterMeta(
            version=own.base_version + 1,
            base=own.base_version,
            worker_id=self._worker_id,
            steps=own.steps,
            tokens=own.tokens,
            held_out_top1=score.top1,
        )
        # Never a name used before: a lost answer leaves a directory that an engine may be about to load.
        name = f"{own.base_version + 1:06d}-{own.steps:08d}-{uuid.uuid4().hex[:6]}"
        uri = await asyncio.to_thread(self._write, name, weights, meta)
        try:
            version = await self._fleet.publish(base=own.base_version, uri=uri, top1=score.top1)
        except StaleVersionError:
            metrics.DRAFTERS_PUBLISHED.labels(outcome="overtaken").inc()
            log.info("drafter_overtaken", base=own.base_version)
            await asyncio.to_thread(self._storage.remove, name)
            return False
        self._learner.settle(version, weights)
        metrics.DRAFTERS_PUBLISHED.labels(outcome="accepted").inc()
        log.info("drafter_published", drafter_version=version, steps=own.steps, top1=round(score.top1, 3))
        return True

    def _write(self, name: str, weights: Mapping[str, Tensor], meta: DrafterMeta) -> str:
        uri = self._storage.write(name, to_files(weights, self._learner.shape, meta))
        for old in [held for held in self._storage.names() if held != name][: 1 - self._settings.kept]:
            self._storage.remove(old)
        return uri

    async def _if_reachable(self, call: Awaitable[T]) -> T | None:
        try:
            result = await call
        except (UnavailableError, AbortedError) as error:  # gone, or going
            if self._reachable:
                log.warning("sharing_unreachable", error=error.message)
            self._reachable = False
            return None
        if not self._reachable:
            log.info("sharing_reachable")
        self._reachable = True
        return result
