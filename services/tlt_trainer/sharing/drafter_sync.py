"""Follows the fleet's newest drafter without losing local training since the previous one."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from tlt_common.aio import backoff
from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion
from tlt_common.drafter.meta import CONFIG_FILE, training_of
from tlt_common.errors import NotFoundError, TltError, WeightsError
from tlt_common.telemetry.log import get_logger
from tlt_trainer.drafter.files import as_safetensors, from_files
from tlt_trainer.drafter.merge import fitted, merge_of
from tlt_trainer.drafter.score import Score
from tlt_trainer.learned import Published
from tlt_trainer.learner import Learner
from tlt_trainer.lease.device import TrainingDevice
from tlt_trainer.lease.learner_turn import LearnerTurn, Occupation
from tlt_trainer.lease.pieces import in_pieces, placed
from tlt_trainer.lease.short_memory import ShortMemory
from tlt_trainer.sharing.drafter_registry import DrafterRegistry
from tlt_trainer.sharing.evaluator import Evaluator
from tlt_trainer.store.storage import read_uri

log = get_logger(__name__)


GONE_AFTER_S = 60.0
"""A drafter counts as gone after every attempt for this many seconds found it missing or broken: a volume that is being
mounted, or a listing that lags, shows an empty directory for a moment."""


FIRST_AGAIN_S = 1.0
MAX_AGAIN_S = 600.0
"""At most this many seconds until a refused drafter is read again; doubles with each time."""


class SyncOutcome(StrEnum):
    """The weights from which training continues."""

    UNCHANGED = "unchanged"
    """Nothing newer exists, or the device was taken back before it could be scored."""
    NEWEST = "newest"
    """The fleet's drafter unchanged."""
    MERGED = "merged"
    """The fleet's drafter merged with local progress."""
    OWN = "own"
    """The trainer's own weights, which are better than the newest and the merge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """Result of one `follow`."""

    outcome: SyncOutcome
    own: Score | None = None
    """Score of the chosen weights; None if nothing was scored."""
    newest: Score | None = None
    """Score of the fleet's drafter on the same frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refusal:
    """A drafter that was read but does not fit."""

    wish: DrafterWish
    error: WeightsError
    delays: Iterator[float]
    again_at_s: float


class DrafterSync:
    """Keeps a learner up to date with its fleet's newest drafter."""

    def __init__(
        self,
        registry: DrafterRegistry,
        learner: Learner,
        device: TrainingDevice,
        turn: LearnerTurn,
        evaluator: Evaluator,
        memory: ShortMemory,
    ) -> None:
        self._registry = registry
        self._learner = learner
        self._device = device
        self._turn = turn
        self._evaluator = evaluator
        self._memory = memory
        self._unusable: tuple[DrafterVersion, float] | None = None
        """The version that was last found missing or broken, and since when."""
        self._refusal: _Refusal | None = None
        self.problem = ""
        """Why the fleet's drafter cannot be continued from, in a sentence; empty: it can."""

    async def follow(self) -> SyncResult:
        """
        Make the fleet's newest drafter the base, unless it is already.

        A drafter that is missing or broken for GONE_AFTER_S may be replaced by one that was not trained from it, if
        the coordinator accepts its score. It is still adopted if it can be read later.

        If device memory is short, nothing changes until the next call.

        Raises:
            UnavailableError: The coordinator or the storage is unreachable; the drafter may still exist.
        """
        wish = await self._registry.newest()
        base = self._learner.counters.base_version
        if wish is None:
            if base:  # the coordinator lost all drafters: the own one will be its first
                await self._stand_on(DrafterVersion(0))
            return SyncResult(outcome=SyncOutcome.UNCHANGED)
        if wish.version == base and self._learner.base() is not None:
            return SyncResult(outcome=SyncOutcome.UNCHANGED)
        try:
            newest = await self._fetched(wish)
        except (NotFoundError, WeightsError) as error:
            await self._note_unusable(wish, error)
            return SyncResult(outcome=SyncOutcome.UNCHANGED)
        self._unusable, self._refusal, self.problem = None, None, ""
        followed = None
        async with self._turn.of(Occupation.MERGING):
            with suppress(torch.OutOfMemoryError):
                followed = await self._choose(newest)
            if followed is None:
                await self._memory.give_up(Occupation.MERGING)
                return SyncResult(outcome=SyncOutcome.UNCHANGED)
        if followed.outcome is not SyncOutcome.UNCHANGED:
            log.info("drafter_followed", drafter_version=newest.version, outcome=followed.outcome)
        return followed

    async def _fetched(self, wish: DrafterWish) -> Published:
        """Read a drafter. A refused one is read again at growing intervals, since its files seldom change."""
        now_s = asyncio.get_running_loop().time()
        if self._refusal is None or self._refusal.wish != wish:
            self._refusal = None
        elif now_s < self._refusal.again_at_s:
            raise self._refusal.error
        try:
            return await asyncio.to_thread(self._read, wish)
        except WeightsError as error:
            delays = self._refusal.delays if self._refusal else backoff(FIRST_AGAIN_S, MAX_AGAIN_S)
            self._refusal = _Refusal(wish=wish, error=error, delays=delays, again_at_s=now_s + next(delays))
            raise

    async def _stand_on(self, version: DrafterVersion) -> None:
        async with self._turn.of(Occupation.MERGING):  # steps count too
            self._learner.stand_on(version)

    async def _note_unusable(self, wish: DrafterWish, error: TltError) -> None:
        """Use a version as base without its weights, once it has been unusable for GONE_AFTER_S."""
        now_s = asyncio.get_running_loop().time()
        self.problem = f"drafter v{wish.version} cannot be trained further: {error.message}"
        if self._unusable is None or self._unusable[0] != wish.version:
            self._unusable = wish.version, now_s
            log.warning("drafter_unusable", drafter_version=wish.version, uri=wish.uri, error=error.message)
        elif self._learner.counters.base_version != wish.version and now_s - self._unusable[1] >= GONE_AFTER_S:
            log.error("drafter_gone", drafter_version=wish.version, uri=wish.uri, error=error.message)
            await self._stand_on(wish.version)

    async def _choose(self, newest: Published) -> SyncResult:
        if not self._learner.counters.own_steps:
            return await self._adopted(newest, SyncOutcome.NEWEST, newest.weights)
        share, own, base = (
            self._learner.share_beside(newest),
            self._learner.averaged(),
            self._learner.start_with(newest),
        )
        fit = await self._device.run(fitted, own, newest.weights)
        start = await self._device.run(fitted, base, newest.weights) if base else {}

        def merge(name: str) -> Tensor:
            return merge_of(fit[name], newest.weights[name], start.get(name), share)

        merged = await in_pieces(self._device, merge, {name: name for name in fit}, allowed=self._allowed)
        if merged is None:
            return SyncResult(outcome=SyncOutcome.UNCHANGED)
        # max() returns the first of equals: the merge, which contains the work of all.
        candidates = {SyncOutcome.MERGED: merged, SyncOutcome.NEWEST: newest.weights, SyncOutcome.OWN: own}
        scores = await self._evaluator.scores(*candidates.values())
        if scores is None:
            return await self._adopted(newest, SyncOutcome.MERGED, merged)
        scored = dict(zip(candidates, scores, strict=True))
        outcome = max(scored, key=lambda candidate: scored[candidate].accept_length)
        adopted = await self._adopted(newest, outcome, candidates[outcome])
        if adopted.outcome is SyncOutcome.UNCHANGED:
            return adopted
        return SyncResult(outcome=outcome, own=scored[outcome], newest=scored[SyncOutcome.NEWEST])

    async def _adopted(self, newest: Published, outcome: SyncOutcome, weights: Mapping[str, Tensor]) -> SyncResult:
        """Continue from these weights, unless the device was taken back meanwhile."""
        held = await placed(self._device, weights, allowed=self._allowed)
        if held is None or not self._allowed():
            return SyncResult(outcome=SyncOutcome.UNCHANGED)
        # One call: half of the weights must not be another drafter's. On the device it is a copy in memory.
        await self._device.run(self._learner.follow, newest, held, has_own=outcome is not SyncOutcome.NEWEST)
        return SyncResult(outcome=outcome)

    def _allowed(self) -> bool:
        return self._evaluator.allowed

    def _read(self, wish: DrafterWish) -> Published:
        files = as_safetensors(read_uri(wish.uri, mark=CONFIG_FILE))
        weights = from_files(files, self._learner.form)
        steps, tokens = training_of(files)
        return Published(version=wish.version, weights=weights, steps=steps, tokens=tokens)
