"""The Lease of the coordinator: won, renewed, given up, and what is kept in it."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Never
from uuid import uuid4

from pydantic import ValidationError

from tlt_common.errors import ConfigError, InvalidRequestError, UnavailableError
from tlt_common.telemetry.log import get_logger
from tlt_coordinator.config import KubernetesSettings
from tlt_coordinator.kube.api import (
    ApiError,
    ConflictError,
    Kube,
    LeaseObject,
    MissingError,
    RefusedError,
)
from tlt_coordinator.kube.election import Candidate
from tlt_coordinator.kube.refusals import Refusals
from tlt_coordinator.state import STATE_CODEC, State

log = get_logger(__name__)

RECORDS_KEPT = 100
"""Records of drafters that outlive the leader: some 15 kB. They are for people; nothing is decided by them."""

STATE_BYTES = 200_000
"""Above this a state is not kept. Kubernetes takes 256 KiB of annotations per object."""

RELEASE_S = 2.0
"""Longest wait for the API server at the end; without it the others wait until the Lease ends by itself."""


class LostError(Exception):
    """The replica does not lead any more."""


class LeaseKeeper:
    """
    One replica's part in the election, and the state it keeps while it leads.

    Renewals and states are written by one hand, one after the other, over the version last seen. So once another
    replica has taken the Lease nothing of this one's arrives.

    Args:
        wall: Tells the time that is shown to people.
    """

    def __init__(
        self, kube: Kube, settings: KubernetesSettings, *, wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._kube = kube
        self._settings = settings
        self._wall = wall
        # A container that was restarted must not take itself for the process that was killed in it.
        self._candidate = Candidate(f"{settings.pod}_{uuid4()}", settings)
        self._turn = asyncio.Lock()
        self._term = 0
        self._refusals = Refusals()

    @property
    def leads(self) -> bool:
        """Whether this replica leads now."""
        return asyncio.get_running_loop().time() < self._candidate.leads_until_s

    @property
    def leader(self) -> str:
        """Pod of the holder last seen; empty: there is none."""
        lease = self._candidate.lease
        return lease.holder.rpartition("_")[0] if lease else ""

    async def campaign(self) -> "Term":
        """
        Try until this replica leads; return its term.

        Raises:
            ConfigError: What the Lease keeps is not a coordinator's state.
        """
        while True:
            try:
                async with self._turn, asyncio.timeout(self._call_s):
                    term = await self._stand()
            except (ApiError, TimeoutError) as error:
                self._note(error)
            else:
                if term is not None:
                    return term
            await asyncio.sleep(self._settings.retry_period_s)

    async def hold(self) -> Never:
        """
        Renew until the Lease is lost.

        Raises:
            LostError: This replica led until now.
        """
        while True:
            try:
                async with asyncio.timeout_at(self._candidate.leads_until_s):
                    await asyncio.sleep(self._settings.retry_period_s)
                    await self._renew()
            except TimeoutError as error:
                if not self.leads:
                    raise LostError(f"not renewed for {self._settings.renew_deadline_s:g} s") from error

    async def write(self, state: State, *, term: int) -> None:
        """
        Keep a state on behalf of a term.

        Raises:
            UnavailableError: The term is over, or the API server does not answer.
            InvalidRequestError: It is too large.
        """
        text = encoded(state)
        try:
            async with self._turn, asyncio.timeout(self._call_s):
                await self._write(lambda lease: replace(lease, state=text), term=term)
        except LostError as error:
            raise UnavailableError("this replica does not lead any more") from error
        except (ApiError, TimeoutError) as error:
            self._note(error)
            raise UnavailableError(f"the Lease {self._settings.lease} could not be written: {_said(error)}") from error

    async def release(self) -> None:
        """Give the Lease up, so that another replica can lead at once. What still leads must have ended."""
        async with self._turn:
            lease = self._candidate.resigned(self._wall())
            if lease is None:
                return
            try:
                async with asyncio.timeout(RELEASE_S):
                    await self._kube.replace_lease(self._settings.lease, lease)
                log.info("lease_released", lease=self._settings.lease)
            except (ApiError, TimeoutError) as error:
                log.warning("lease_not_released", lease=self._settings.lease, reason=_said(error))

    @property
    def _call_s(self) -> float:
        # Two attempts fit before the deadline.
        return self._settings.renew_deadline_s / 2

    async def _stand(self) -> "Term | None":
        await self._read()
        if self._candidate.bid(asyncio.get_running_loop().time(), self._wall()) is None:
            return None
        # Before the Lease is taken: a replica that cannot read the state must not keep others from leading.
        lease = self._candidate.lease
        state = decoded(lease.state if lease else "", self._settings.lease)
        if not await self._bid():
            return None
        self._term += 1
        return Term(self, self._term, state)

    async def _renew(self) -> None:
        try:
            async with self._turn, asyncio.timeout(self._call_s):
                await self._write(lambda lease: lease, term=self._term)
        except (ApiError, TimeoutError) as error:
            self._note(error)

    async def _write(self, change: Callable[[LeaseObject], LeaseObject], *, term: int) -> None:
        """Write over the version last seen; if that is not the newest, over the newest, provided it is still ours."""
        if not self.leads or term != self._term:
            raise LostError("the term is over")
        kept = self._candidate.lease
        try:
            won = await self._bid(change)
        except (ConflictError, MissingError):
            await self._read()
            if not self._candidate.holds and self._candidate.lease is not kept:
                raise LostError(f"taken by {self.leader or 'nobody'}") from None
            # What this replica knows counts, not what a write whose answer was lost left there.
            state = kept.state if kept else ""
            won = await self._bid(lambda lease: change(replace(lease, state=state)))
        if not won:
            raise LostError(f"taken by {self.leader}")

    async def _bid(self, change: Callable[[LeaseObject], LeaseObject] = lambda lease: lease) -> bool:
        loop = asyncio.get_running_loop()
        sent_at_s = loop.time()
        bid = self._candidate.bid(sent_at_s, self._wall())
        if bid is None:
            return False
        write = self._kube.replace_lease if bid.version else self._kube.create_lease
        self._candidate.won(await write(self._settings.lease, change(bid)), sent_at_s)
        return True

    async def _read(self) -> None:
        lease = await self._kube.lease(self._settings.lease)
        self._candidate.observe(lease, asyncio.get_running_loop().time())

    def _note(self, error: ApiError | TimeoutError) -> None:
        """Log why the Lease cannot be used."""
        if isinstance(error, RefusedError):
            self._refusals.note(error, consequence="no replica can lead")
        elif isinstance(error, ConflictError):
            log.debug("lease_contended", reason=str(error))
        else:
            log.warning("lease_out_of_reach", lease=self._settings.lease, reason=_said(error))


class Term:
    """
    Time in which one replica leads without interruption. Keeps the state as long as it lasts: implements `Backing`.

    A write that outlives its term must not land in the next one of the same replica, which began with what it read.
    """

    def __init__(self, keeper: LeaseKeeper, number: int, state: State) -> None:
        self._keeper = keeper
        self._number = number
        self.state = state
        """What was found at the beginning."""

    async def write(self, state: State) -> None:
        await self._keeper.write(state, term=self._number)


def encoded(state: State) -> str:
    """
    The state as it is kept: with the newest records only.

    Raises:
        InvalidRequestError: It is too large for an annotation.
    """
    text = STATE_CODEC.dump_json(replace(state, drafters=state.drafters[-RECORDS_KEPT:])).decode()
    if len(text.encode()) > STATE_BYTES:
        raise InvalidRequestError(
            f"the state would take {len(text.encode())} bytes; accepted: {STATE_BYTES}. Use a shorter uri", field="uri"
        )
    return text


def decoded(text: str, lease: str) -> State:
    """
    The state that was kept; empty text is a new one.

    Raises:
        ConfigError: It is not a coordinator's.
    """
    try:
        return STATE_CODEC.validate_json(text) if text else State()
    except ValidationError as error:
        raise ConfigError(
            f"annotation tlt.dev/state of Lease {lease} is not a coordinator's state; remove the annotation to start "
            "afresh, with drafters counted from what workers have loaded",
            field="kubernetes.lease",
        ) from error


def _said(error: ApiError | TimeoutError) -> str:
    return str(error) or "no answer in time"
