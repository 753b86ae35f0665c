"""Workers that operators excluded from lending. They stay excluded over restarts."""

from collections.abc import Collection
from dataclasses import replace

from tlt_common.domain.ids import WorkerId
from tlt_common.errors import InvalidRequestError
from tlt_coordinator.state import State, StateStore

SHOWN = 8
"""Workers named in an error."""


class ExcludedWorkers:
    """The workers excluded from lending."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    @property
    def worker_ids(self) -> frozenset[WorkerId]:
        return frozenset(self._store.state.excluded)

    async def change(self, named: frozenset[WorkerId], *, excluded: bool, known: Collection[WorkerId]) -> None:
        """
        Exclude workers, or include them again.

        Args:
            named: The workers.
            excluded: Whether they are excluded from now on.
            known: All workers ever seen.

        Raises:
            InvalidRequestError: No worker is named, or one to exclude was never seen.
            UnavailableError: The state could not be stored; nothing changed.
        """
        if not named:
            raise InvalidRequestError("worker_ids is empty; accepted: ids of workers", field="worker_ids")
        if excluded and (unknown := named.difference(known)):
            accepted = ", ".join(sorted(known)[:SHOWN]) or "none, as no worker has joined"
            raise InvalidRequestError(
                f"worker_ids: no worker {min(unknown)!r} was seen; accepted: {accepted}", field="worker_ids"
            )

        def change(state: State) -> State:
            now = named.union(state.excluded) if excluded else frozenset(state.excluded) - named
            return replace(state, excluded=tuple(sorted(now)))

        await self._store.update(change)
