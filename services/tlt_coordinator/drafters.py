"""The fleet's drafter: which is the newest, and who made it."""

from dataclasses import dataclass, replace

from tlt_common.domain.fleet import DrafterRecord, DrafterWish
from tlt_common.domain.ids import DrafterVersion, WorkerId
from tlt_common.errors import InvalidRequestError, StaleVersionError
from tlt_coordinator.state import State, Store

RECORDS = 1024
"""Published drafters remembered; the oldest are forgotten first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A drafter somebody wants to be the fleet's."""

    base: DrafterVersion
    """It was trained from this one; 0: from scratch."""
    uri: str
    worker_id: WorkerId
    held_out_top1: float
    """Share of held-out positions whose most likely token it guesses."""


class Drafters:
    """Versions by compare-and-swap: a drafter replaces only the one it was trained from."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def newest(self) -> DrafterWish | None:
        """The drafter every worker should have; None before the first."""
        return self._store.state.drafter

    @property
    def records(self) -> tuple[DrafterRecord, ...]:
        """Published drafters, oldest first."""
        return self._store.state.drafters

    async def publish(self, publication: Publication, now_s: float, *, loaded: DrafterVersion) -> DrafterWish:
        """
        Make a drafter the newest. Repeating a call that succeeded returns the same version.

        Args:
            publication: What to make the newest.
            now_s: Unix time.
            loaded: Newest drafter that a worker has.

        Raises:
            InvalidRequestError: The publication has no uri, or its figure is not a share.
            StaleVersionError: Another one was published since its base: merge with that and try again.
            UnavailableError: It could not be kept; nothing changed.
        """
        if not publication.uri:
            raise InvalidRequestError("uri is empty; accepted: where the drafter is", field="uri")
        if not 0.0 <= publication.held_out_top1 <= 1.0:
            raise InvalidRequestError(
                f"held_out_top1 is {publication.held_out_top1}; accepted: from 0 to 1", field="held_out_top1"
            )
        state = await self._store.update(lambda state: published(state, publication, now_s, loaded))
        assert state.drafter is not None  # noqa: S101 - `published` has just set it
        return state.drafter


def published(state: State, publication: Publication, now_s: float, loaded: DrafterVersion) -> State:
    """
    Return the state with the publication in it, its version one above the newest.

    When the state was lost, what trainers and workers remember counts: a base above the newest known is taken, and
    the version is above all that are loaded, since workers refuse to go back.

    Raises:
        StaleVersionError: Its base is not the newest.
    """
    newest = state.drafter.version if state.drafter else DrafterVersion(0)
    if state.drafter and publication.uri == state.drafter.uri:
        return state
    if publication.base < newest:
        raise StaleVersionError(
            f"base_version is {publication.base}, but {newest} was published since; merge with it and publish again",
            field="base_version",
        )
    wish = DrafterWish(version=DrafterVersion(max(publication.base, loaded) + 1), uri=publication.uri)
    record = DrafterRecord(
        version=wish.version,
        worker_id=publication.worker_id,
        at_unix_s=now_s,
        held_out_top1=publication.held_out_top1,
    )
    return replace(state, drafter=wish, drafters=(*state.drafters, record)[-RECORDS:])
