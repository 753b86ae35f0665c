"""Following the fleet's newest drafter without losing what was learned here since the last one."""

import asyncio
from dataclasses import dataclass
from enum import StrEnum

from tlt_common.domain.fleet import DrafterWish
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import NotFoundError, WeightsError
from tlt_common.telemetry.log import get_logger
from tlt_trainer.drafter.files import META_FILE, from_files, meta_of
from tlt_trainer.examiner import Examiner
from tlt_trainer.fleet import Fleet
from tlt_trainer.learner import Learner, Published
from tlt_trainer.score import Score
from tlt_trainer.storage import read_uri

log = get_logger(__name__)


class Took(StrEnum):
    """What training goes on from."""

    UNCHANGED = "unchanged"
    """Nothing newer is there, or the device was taken back before it could be judged."""
    NEWEST = "newest"
    """The fleet's drafter as it is."""
    MERGED = "merged"
    """The mean of both."""
    OWN = "own"
    """The own weights, which are better than both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """How following went."""

    took: Took
    own: Score | None = None
    """Of what was taken; None: nothing was scored."""
    newest: Score | None = None
    """Of the fleet's drafter, on the same frames."""


class Following:
    """Keeps a learner in line with its fleet."""

    def __init__(self, fleet: Fleet, learner: Learner, examiner: Examiner) -> None:
        self._fleet = fleet
        self._learner = learner
        self._examiner = examiner

    async def follow(self) -> Followed:
        """
        Make the fleet's newest drafter the base, if it is not.

        Raises:
            UnavailableError: The coordinator does not answer.
        """
        wish = await self._fleet.newest()
        base = self._learner.counters.base_version
        if wish is None:
            if base:  # the coordinator forgot all drafters: the own one will be its first
                self._learner.stand_on(DrafterVersion(0))
            return Followed(took=Took.UNCHANGED)
        if wish.version == base:
            return Followed(took=Took.UNCHANGED)
        try:
            newest = await asyncio.to_thread(self._read, wish)
        except (NotFoundError, WeightsError) as error:
            # Nobody can use it, so it may be replaced.
            log.warning("drafter_unreadable", drafter_version=wish.version, uri=wish.uri, error=error.message)
            self._learner.stand_on(wish.version)
            return Followed(took=Took.UNCHANGED)
        followed = await self._choose(newest)
        log.info("drafter_followed", drafter_version=newest.version, took=followed.took)
        return followed

    async def _choose(self, newest: Published) -> Followed:
        if not self._learner.counters.own_steps:
            self._learner.follow(newest, newest.weights)
            return Followed(took=Took.NEWEST)
        # The first of equals is taken: the one that has the work of all in it.
        candidates = {
            Took.MERGED: self._learner.merged_with(newest),
            Took.NEWEST: newest.weights,
            Took.OWN: self._learner.weights(),
        }
        scores = await self._examiner.scores(*candidates.values())
        if scores is None:
            if not self._examiner.allowed:
                return Followed(took=Took.UNCHANGED)
            self._learner.follow(newest, candidates[Took.MERGED])
            return Followed(took=Took.MERGED)
        scored = dict(zip(candidates, scores, strict=True))
        took = max(scored, key=lambda candidate: scored[candidate].accept_length)
        self._learner.follow(newest, candidates[took])
        return Followed(took=took, own=scored[took], newest=scored[Took.NEWEST])

    def _read(self, wish: DrafterWish) -> Published:
        files = read_uri(wish.uri, mark=META_FILE)
        meta = meta_of(files)
        weights = from_files(files, self._learner.shape)
        return Published(version=wish.version, weights=weights, steps=meta.steps, tokens=meta.tokens)
