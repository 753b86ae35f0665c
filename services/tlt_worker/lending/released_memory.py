"""
Releases the devices to an RL trainer that shares them with the engine, and takes them back when it resumes.

Weights, KV cache and graphs of target and drafter are released, and the spot trainer's process exits, since nothing
else frees all its memory. Weights of target and drafter are kept in host memory and restored on resume.
"""

from collections.abc import Callable, Iterable

from tlt_common.changes import Changes
from tlt_common.domain.fleet import MEMORY_TAGS
from tlt_common.errors import InvalidRequestError
from tlt_common.telemetry.log import get_logger
from tlt_worker.activity import Activity
from tlt_worker.engine.base import Engine
from tlt_worker.lending.trainer import Child

log = get_logger(__name__)


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

    @property
    def tags(self) -> frozenset[str]:
        """The tags of MEMORY_TAGS that are currently released."""
        return self._tags

    async def release(self, tags: Iterable[str]) -> None:
        """
        Release memory. Without tags, release all of it. Idempotent.

        Raises:
            InvalidRequestError: A tag is unknown, requests are running, or the engine keeps its memory.
            EngineError: The engine did not release it.
        """
        wanted = _known(tags)
        self._require_able()
        if self._activity.running:
            raise InvalidRequestError(
                f"tags: {self._activity.running} requests are running; repeat the call once they have ended",
                field="tags",
            )
        await self._changes.do(lambda: self._release(wanted))

    async def resume(self, tags: Iterable[str]) -> None:
        """
        Resume memory. Without tags, resume all released memory. Idempotent.

        Raises:
            InvalidRequestError: A tag is unknown.
            EngineError: The engine did not resume.
        """
        wanted = _known(tags)
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

    async def _release(self, wanted: frozenset[str]) -> None:
        new = wanted - self._tags
        if not new:
            return
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
        log.info("memory_resumed", tags=sorted(back), released=sorted(self._tags))

    def _settle(self) -> None:
        """Return to normal once nothing is released."""
        if not self._tags:
            if self._trainer is not None:
                self._trainer.resume()
            self._activity.set_released(released=False)

    def _require_able(self) -> None:
        if not self.releasable:
            raise InvalidRequestError(
                "tags: this engine keeps its memory; accepted: engines on GPUs that are started with engine.releasable",
                field="tags",
            )


def _known(tags: Iterable[str]) -> frozenset[str]:
    wanted = frozenset(tags) or frozenset(MEMORY_TAGS)
    if unknown := sorted(wanted.difference(MEMORY_TAGS)):
        raise InvalidRequestError(f"tags has {unknown[0]!r:.40}; accepted: {', '.join(MEMORY_TAGS)}", field="tags")
    return wanted
