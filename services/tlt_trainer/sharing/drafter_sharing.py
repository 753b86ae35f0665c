"""
Publishes the trainer's drafter to the fleet, and follows the fleet's newest one.

A drafter is accepted only if it is based on the newest one (compare-and-swap at the coordinator). A trainer that was
overtaken merges and, if the merge is better than the newest, publishes it immediately: otherwise, trainers that publish
in turn would overtake each other forever. No work is lost, and no synchronization is needed.

Training continues while files are written and the coordinator is called; only access to the learner is exclusive.
Weights are also copied from the device after the lease, tensor by tensor, which computes nothing.

The coordinator also refuses a drafter that scores clearly below the newest; training then continues, and the drafter is
offered again once it has improved.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Mapping
from typing import Never, TypeVar

from torch import Tensor

from tlt_common.domain.fleet import Publication
from tlt_common.domain.ids import DrafterVersion, WorkerId
from tlt_common.drafter.meta import DrafterMeta
from tlt_common.errors import AbortedError, InvalidRequestError, StaleVersionError, UnavailableError, WeightsError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_trainer.drafter.files import to_files
from tlt_trainer.drafter.score import Score
from tlt_trainer.learner import Learner
from tlt_trainer.lease.device import TrainingDevice
from tlt_trainer.lease.learner_turn import LearnerTurn, Occupation
from tlt_trainer.lease.pieces import copies
from tlt_trainer.sharing.decision import TrainingDecisions
from tlt_trainer.sharing.drafter_registry import DrafterRegistry
from tlt_trainer.sharing.drafter_sync import DrafterSync, SyncOutcome
from tlt_trainer.store.storage import Storage

log = get_logger(__name__)

T = TypeVar("T")

KEPT = 4
"""Number of its drafters that a trainer keeps: engines may still be loading one that was just superseded."""
ATTEMPTS = 3
"""Attempts per publication. A trainer overtaken this often stops until the next time."""


class DrafterSharing:
    """
    One trainer's access to the fleet's drafter.

    Args:
        storage: Storage written by this worker only and readable by all.
        kept: Number of own drafters to keep in the storage.
    """

    def __init__(
        self,
        registry: DrafterRegistry,
        storage: Storage,
        learner: Learner,
        device: TrainingDevice,
        turn: LearnerTurn,
        sync: DrafterSync,
        decisions: TrainingDecisions,
        *,
        worker_id: str,
        kept: int = KEPT,
    ) -> None:
        self._registry = registry
        self._storage = storage
        self._learner = learner
        self._device = device
        self._turn = turn
        self._sync = sync
        self._worker_id = worker_id
        self._decisions = decisions
        self._kept = kept
        self._reachable = True
        self._due = asyncio.Event()
        self._offered: tuple[Score, Score | None, DrafterVersion] | None = None
        self._newest: DrafterVersion | None = None

    @property
    def problem(self) -> str:
        """Why training cannot continue from the fleet's drafter, in one sentence; empty if it can."""
        return self._sync.problem

    def offer(self, score: Score, base: Score | None) -> None:
        """Request that `run` publishes the trainer's own weights, unless it adopts others first; see `publish`."""
        self._offered = score, base, self._learner.counters.base_version
        self._due.set()

    def catch_up(self, newest: DrafterVersion | None) -> None:
        """Request that `run` makes the fleet's newest drafter the base; see `follow`."""
        self._newest = newest
        self._due.set()

    async def run(self) -> Never:
        """Serve requests one at a time until cancelled, while training continues."""
        while True:
            await self._due.wait()
            self._due.clear()
            offered, self._offered = self._offered, None
            if offered is not None and offered[2] == self._learner.counters.base_version:
                await self.publish(offered[0], offered[1])
            else:
                await self.follow(self._newest)

    async def follow(self, newest: DrafterVersion | None = None) -> bool:
        """
        Make the fleet's newest drafter the base, unless it is already, keeping training since then.

        Return whether the weights changed. Does nothing while the coordinator is unreachable.

        Args:
            newest: Version of the fleet's drafter, 0 before the first. If it is the base, the coordinator is not
                called. None calls it in any case.
        """
        if newest == self._learner.counters.base_version and (not newest or self._learner.base() is not None):
            return False
        followed = await self._if_reachable(self._sync.follow())
        return followed is not None and followed.outcome in {SyncOutcome.NEWEST, SyncOutcome.MERGED}

    async def publish(self, score: Score, base: Score | None) -> bool:
        """
        Publish the trainer's own weights to the fleet; return whether they, or a merge with newer ones, were accepted.

        Does nothing while coordinator or storage are unreachable.

        Args:
            score: Score of the trainer's own weights.
            base: Score of the fleet's drafter they are based on, on the same frames; None if there is none or it could
                not be read.
        """
        began_s = asyncio.get_running_loop().time()
        try:
            return bool(await self._if_reachable(self._publish(score, base)))
        finally:
            self._decisions.publication_took(began_s, asyncio.get_running_loop().time())

    async def _publish(self, score: Score, base: Score | None) -> bool:
        for _ in range(ATTEMPTS):
            try:
                if await self._offer(score, base):
                    return True
            except (InvalidRequestError, WeightsError) as error:
                metrics.DRAFTERS_PUBLISHED.labels(outcome="refused").inc()
                log.warning("drafter_refused", field=error.field, error=error.message)
                return False
            followed = await self._sync.follow()
            if followed.own is None or not self._decisions.admits(followed.own, followed.newest):
                break
            score, base = followed.own, followed.newest
        return False

    async def _offer(self, score: Score, base: Score | None) -> bool:
        """
        Write the trainer's own weights and publish them; return whether they were accepted.

        Raises:
            InvalidRequestError: The coordinator refuses them.
            WeightsError: The weights are not finite.
            UnavailableError: Coordinator or storage are unreachable.
        """
        newest = await self._registry.newest()  # nothing is written for a coordinator that is away
        if newest is not None and newest.version > self._learner.counters.base_version:
            return self._overtaken()
        async with self._turn.of(Occupation.PUBLISHING):
            own = self._learner.counters
            weights = await copies(self._device, self._learner.averaged())
        meta = DrafterMeta(
            version=own.base_version + 1,
            base=own.base_version,
            worker_id=self._worker_id,
            steps=own.steps,
            tokens=own.tokens,
            held_out_top1=score.top1,
        )
        # Names are never reused: after a lost response, an engine may be about to load the directory.
        name = f"{own.base_version + 1:06d}-{own.steps:08d}-{uuid.uuid4().hex[:6]}"
        uri = await asyncio.to_thread(self._write, name, weights, meta)
        publication = Publication(
            base=own.base_version,
            uri=uri,
            worker_id=WorkerId(self._worker_id),
            held_out_top1=score.top1,
            base_top1=base.top1 if base else None,
            policy_version=score.policy_version,
            tokens=own.tokens,
        )
        try:
            version = await self._registry.publish(publication)
        except StaleVersionError:
            await asyncio.to_thread(self._remove, name)
            return self._overtaken()
        except InvalidRequestError:
            await asyncio.to_thread(self._remove, name)
            raise
        async with self._turn.of(Occupation.PUBLISHING):
            self._learner.settle(version, weights, own)
        await asyncio.to_thread(self._prune, name)
        metrics.DRAFTERS_PUBLISHED.labels(outcome="accepted").inc()
        log.info("drafter_published", drafter_version=version, steps=own.steps, top1=round(score.top1, 3))
        return True

    def _overtaken(self) -> bool:
        metrics.DRAFTERS_PUBLISHED.labels(outcome="overtaken").inc()
        log.info("drafter_overtaken", base=self._learner.counters.base_version)
        return False

    def _write(self, name: str, weights: Mapping[str, Tensor], meta: DrafterMeta) -> str:
        return self._storage.write(name, to_files(weights, self._learner.form, meta))

    def _prune(self, newest: str) -> None:
        """Remove old drafters once `newest` is the fleet's, since until then the fleet's was one of them."""
        try:
            for old in [held for held in self._storage.names() if held != newest][: 1 - self._kept]:
                self._storage.remove(old)
        except UnavailableError as error:  # the next publication removes them
            log.warning("drafters_not_removed", error=error.message)

    def _remove(self, name: str) -> None:
        try:
            self._storage.remove(name)
        except UnavailableError as error:
            log.warning("drafters_not_removed", error=error.message)

    async def _if_reachable(self, call: Awaitable[T]) -> T | None:
        try:
            result = await call
        except (UnavailableError, AbortedError) as error:  # unreachable, or shutting down
            if self._reachable:
                log.warning("sharing_unreachable", error=error.message)
            self._reachable = False
            return None
        if not self._reachable:
            log.info("sharing_reachable")
        self._reachable = True
        return result
