"""
Releases the devices to an RL trainer that shares them with the engine, and takes them back when it resumes.

Weights, KV cache and graphs of target and drafter are released, and the spot trainer's process exits, since nothing
else frees all its memory. Weights of target and drafter are restored on resume; see `Engine.release_memory`.
"""

import asyncio
import math
from collections.abc import Callable, Iterable
from typing import Never

from tlt_common.aio import Signal
from tlt_common.changes import Changes
from tlt_common.domain.fleet import memory_tags, require_release_limit
from tlt_common.errors import InvalidRequestError, TltError
from tlt_common.telemetry.log import get_logger
from tlt_worker.activity import Activity
from tlt_worker.engine.base import Engine
from tlt_worker.lending.trainer import Child

log = get_logger(__name__)

RETRY_S = 10.0
"""Seconds after which memory that could not be resumed at its limit is tried again."""


class ReleasedMemory:
    """
    Args:
        changes: Lock shared with updates of weights and drafters.
        make_way: Takes the device back from the spot trainer.
        trainer: The spot trainer's process; None if there is none.
        releasable: Whether the engine can release memory.
    """

    def __init__(
        self,
        engine: Engine,
        activity: Activity,
        changes: Changes,
        make_way: Callable[[], None],
        trainer: Child | None,
        *,
        releasable: bool,
    ) -> None:
        self._engine = engine
        self._activity = activity
        self._changes = changes
        self._make_way = make_way
        self._trainer = trainer
        self.releasable = releasable
        self._tags: frozenset[str] = frozenset()
        self._until_s = math.inf
        """Loop time at which released memory is resumed."""
        self._renewed = Signal()

    @property
    def tags(self) -> frozenset[str]:
        """The tags of MEMORY_TAGS that are currently released."""
        return self._tags

    @property
    def left_s(self) -> float:
        """Seconds until released memory is resumed; infinite without a limit, 0 if nothing is released."""
        return max(0.0, self._until_s - asyncio.get_running_loop().time()) if self._tags else 0.0

    async def run(self) -> Never:
        """Resume memory whose release has reached its limit, until cancelled."""
        while True:
            renewals = self._renewed.count
            try:
                async with asyncio.timeout_at(None if math.isinf(self._until_s) else self._until_s):
                    await self._renewed.beyond(renewals)
            except TimeoutError:
                await self._changes.do(self._expire)

    async def release(self, tags: Iterable[str], *, limit_s: float | None = None) -> None:
        """
        Release memory. Without tags, release all of it. Repeating it sets the limit anew.

        Args:
            tags: A subset of MEMORY_TAGS.
            limit_s: Seconds after which all is resumed, since the trainer must have died; None sets no limit.

        Raises:
            InvalidRequestError: A tag is unknown, the limit is out of range, requests are running, or the engine keeps
                its memory.
            EngineError: The engine did not release it.
        """
        wanted = memory_tags(tags)
        require_release_limit(limit_s)
        self._require_able()
        if self._activity.running:
            raise self._busy()
        await self._changes.do(lambda: self._release(wanted, limit_s))

    async def resume(self, tags: Iterable[str]) -> None:
        """
        Resume memory. Without tags, resume all released memory. Idempotent.

        Raises:
            InvalidRequestError: A tag is unknown.
            EngineError: The engine did not resume.
        """
        wanted = memory_tags(tags)
        await self._changes.do(lambda: self._resume(wanted))

    def require_weights(self) -> None:
        """
        Raises:
            InvalidRequestError: The weights are released, so no others can be loaded.
        """
        if "weights" in self._tags:
            raise InvalidRequestError(
                "release: the memory of the weights is released; resume it before the update",
                field="release",
            )

    async def _release(self, wanted: frozenset[str], limit_s: float | None) -> None:
        new = wanted - self._tags
        if new:
            await self._release_new(new)
        self._set_limit(limit_s)

    async def _release_new(self, new: frozenset[str]) -> None:
        if self._activity.running:  # a request came while earlier changes were made
            raise self._busy()
        self._activity.set_released(released=True)
        self._make_way()
        try:
            if self._trainer is not None:
                await self._trainer.suspend()
            await self._engine.release_memory(sorted(new))
            self._tags |= new
        finally:
            self._settle()
        log.info("memory_released", tags=sorted(self._tags))

    async def _resume(self, wanted: frozenset[str]) -> None:
        back = wanted & self._tags
        if not back:
            return
        await self._engine.resume_memory(sorted(back))
        self._tags -= back
        self._settle()
        if not self._tags:
            self._set_limit(None)
        log.info("memory_resumed", tags=sorted(back), released=sorted(self._tags))

    async def _expire(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s < self._until_s:
            return  # it was renewed, or resumed, while earlier changes were made
        log.warning("release_expired", tags=sorted(self._tags), advice="the trainer neither resumed nor renewed it")
        try:
            await self._resume(self._tags)
        except TltError as error:
            log.warning("memory_not_resumed", error=error.message)
            self._set_limit(RETRY_S)

    def _set_limit(self, limit_s: float | None) -> None:
        self._until_s = math.inf if limit_s is None else asyncio.get_running_loop().time() + limit_s
        self._renewed.set()

    def _settle(self) -> None:
        """Return to normal once nothing is released."""
        if not self._tags:
            if self._trainer is not None:
                self._trainer.resume()
            self._activity.set_released(released=False)

    def _require_able(self) -> None:
        if not self.releasable:
            raise InvalidRequestError(
                "tags: this engine keeps its memory; accepted: engines that are started with engine.releasable",
                field="tags",
            )

    def _busy(self) -> InvalidRequestError:
        return InvalidRequestError(
            f"tags: {self._activity.running} requests are running; repeat the call once they have ended", field="tags"
        )
