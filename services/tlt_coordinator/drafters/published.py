"""The fleet's drafters: the newest version, and the publisher of each."""

from dataclasses import replace

from tlt_common.domain.fleet import DrafterRecord, DrafterWish, Publication
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import InvalidRequestError, StaleVersionError
from tlt_coordinator.drafters.score_gate import MAX_SCORE_DROP, check_score
from tlt_coordinator.state import State, StateStore

RECORDS = 1024
"""Published drafters remembered; the oldest records are dropped first."""


class PublishedDrafters:
    """
    Drafter versions with compare-and-swap: a drafter replaces only the one it was trained from, and must not be clearly
    worse.

    Args:
        max_drop: See `score_gate`.
    """

    def __init__(self, store: StateStore, max_drop: float = MAX_SCORE_DROP) -> None:
        self._store = store
        self._max_drop = max_drop

    @property
    def newest(self) -> DrafterWish | None:
        """The drafter every worker should load; None before the first."""
        return self._store.state.drafter

    @property
    def version(self) -> DrafterVersion:
        """Version of the newest; 0 before the first."""
        return self.newest.version if self.newest else DrafterVersion(0)

    @property
    def records(self) -> tuple[DrafterRecord, ...]:
        """Published drafters, oldest first."""
        return self._store.state.drafters

    async def publish(self, publication: Publication, now_s: float, *, loaded: DrafterVersion) -> DrafterWish:
        """
        Make a drafter the newest. Repeating a call that succeeded returns the same version.

        Args:
            publication: The drafter to publish.
            now_s: Unix time.
            loaded: Newest version loaded by a worker.

        Raises:
            InvalidRequestError: The publication has no uri, a score is not between 0 and 1, or it scores clearly below
                the newest on comparable data.
            StaleVersionError: Another drafter was published since its base: merge with it and retry.
            UnavailableError: The state could not be stored; nothing changed.
        """
        if not publication.uri:
            raise InvalidRequestError("uri is empty; accepted: a path or URL of the drafter", field="uri")
        for name, share in (("held_out_top1", publication.held_out_top1), ("base_top1", publication.base_top1)):
            if share is not None and not 0.0 <= share <= 1.0:
                raise InvalidRequestError(f"{name} is {share}; accepted: 0 to 1", field=name)
        if publication.base < 0:
            raise InvalidRequestError(
                f"base_version is {publication.base}; accepted: 0 and above", field="base_version"
            )
        state = await self._store.update(lambda state: published(state, publication, now_s, loaded, self._max_drop))
        assert state.drafter is not None  # noqa: S101 - `published` has just set it
        return state.drafter


def published(state: State, publication: Publication, now_s: float, loaded: DrafterVersion, max_drop: float) -> State:
    """
    Return the state with the publication added, its version one above the newest.

    If the state was lost, the versions known to trainers and workers count: a base above the newest known version is
    accepted, and the new version is above all loaded ones, since workers refuse older versions.

    Raises:
        StaleVersionError: Its base is not the newest.
        InvalidRequestError: It scores clearly below the newest.
    """
    newest = state.drafter.version if state.drafter else DrafterVersion(0)
    if state.drafter and publication.uri == state.drafter.uri:
        return state
    if publication.base < newest:
        raise StaleVersionError(
            f"base_version is {publication.base}, but {newest} was published since; merge with it and retry",
            field="base_version",
        )
    check_score(publication, _record_of(state), max_drop)
    wish = DrafterWish(version=DrafterVersion(max(publication.base, loaded) + 1), uri=publication.uri)
    record = DrafterRecord(
        version=wish.version,
        worker_id=publication.worker_id,
        at_unix_s=now_s,
        held_out_top1=publication.held_out_top1,
        policy_version=publication.policy_version,
    )
    return replace(state, drafter=wish, drafters=(*state.drafters, record)[-RECORDS:])


def _record_of(state: State) -> DrafterRecord | None:
    """Return the record of the newest drafter, if it is known."""
    last = state.drafters[-1] if state.drafters else None
    return last if last and state.drafter and last.version == state.drafter.version else None
