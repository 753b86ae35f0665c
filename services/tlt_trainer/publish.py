"""
Sharing what was learned: the own drafter becomes the fleet's, and the fleet's newest is followed.

A drafter is accepted only when it was made from the newest one (compare and swap at the coordinator). A trainer that
was overtaken merges and tries again at its next opportunity; so no work is lost and no meeting point is needed.
"""

import asyncio
import uuid
from collections.abc import Coroutine, Mapping

from torch import Tensor

from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import NotFoundError, StaleVersionError, UnavailableError, WeightsError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.config import PublishSettings
from tlt_trainer.drafter.files import META_FILE, DrafterMeta, from_files, meta_of, to_files
from tlt_trainer.examiner import Examiner
from tlt_trainer.fleet import Fleet
from tlt_trainer.learner import Learner, Published
from tlt_trainer.score import Score
from tlt_trainer.storage import Storage, read_uri

log = get_logger(__name__)


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
        kept: Own drafters kept there.
    """

    def __init__(
        self, fleet: Fleet, storage: Storage, learner: Learner, examiner: Examiner, *, worker_id: str, kept: int
    ) -> None:
        self._fleet = fleet
        self._storage = storage
        self._learner = learner
        self._examiner = examiner
        self._worker_id = worker_id
        self._kept = kept
        self._reachable = True

    async def follow(self) -> bool:
        """
        Take over the fleet's newest drafter, if it is not the own base, and what was learned since on top.

        Returns whether the weights changed. Nothing is done while the coordinator is away.
        """
        return await self._if_reachable(self._follow())

    async def publish(self, score: Score) -> bool:
        """
        Offer the own weights to the fleet; return whether they were accepted.

        If somebody was faster, that drafter is followed. Nothing is done while coordinator or storage are away.
        """
        return await self._if_reachable(self._publish(score))

    async def _if_reachable(self, call: Coroutine[None, None, bool]) -> bool:
        try:
            done = await call
        except UnavailableError as error:
            if self._reachable:
                log.warning("sharing_unreachable", error=error.message)
            self._reachable = False
            return False
        if not self._reachable:
            log.info("sharing_reachable")
        self._reachable = True
        return done

    async def _follow(self) -> bool:
        wish = await self._fleet.newest()
        base = self._learner.counters.base_version
        if wish is None:
            if base:  # the coordinator forgot all drafters: the own one will be its first
                self._learner.stand_on(DrafterVersion(0))
            return False
        if wish.version == base:
            return False
        try:
            newest = await asyncio.to_thread(self._read, wish)
        except (NotFoundError, WeightsError) as error:
            # Nobody can use it, so it may be replaced.
            log.warning("drafter_unreadable", drafter_version=wish.version, uri=wish.uri, error=error.message)
            self._learner.stand_on(wish.version)
            return False
        return await self._choose(newest)

    async def _publish(self, score: Score) -> bool:
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
            await self._follow()
            return False
        self._learner.settle(version, weights)
        metrics.DRAFTERS_PUBLISHED.labels(outcome="accepted").inc()
        log.info("drafter_published", drafter_version=version, steps=own.steps, top1=round(score.top1, 3))
        return True

    async def _choose(self, newest: Published) -> bool:
        if not self._learner.counters.own_steps:
            self._learner.follow(newest, newest.weights)
            log.info("drafter_followed", drafter_version=newest.version, took="newest")
            return True
        candidates = {
            "merged": self._learner.merged_with(newest),
            "newest": newest.weights,
            "own": self._learner.weights(),
        }
        scores = await self._examiner.scores(*candidates.values())
        took = "merged"
        if scores is not None:
            took = max(zip(scores, candidates, strict=True), key=lambda pair: pair[0].accept_length)[1]
        self._learner.follow(newest, candidates[took])
        log.info("drafter_followed", drafter_version=newest.version, took=took)
        return took != "own"

    def _read(self, wish: DrafterWish) -> Published:
        files = read_uri(wish.uri, mark=META_FILE)
        meta = meta_of(files)
        weights = from_files(files, self._learner.shape)
        return Published(version=wish.version, weights=weights, steps=meta.steps, tokens=meta.tokens)

    def _write(self, name: str, weights: Mapping[str, Tensor], meta: DrafterMeta) -> str:
        uri = self._storage.write(name, to_files(weights, self._learner.shape, meta))
        for old in [held for held in self._storage.names() if held != name][: 1 - self._kept]:
            self._storage.remove(old)
        return uri
