"""The coordinator's Kubernetes Lease: acquires, renews and releases it, and stores the state in it."""

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
    KubeRefusedError,
    LeaseObject,
    MissingError,
)
from tlt_coordinator.kube.election import LeaderElection
from tlt_coordinator.kube.refusals import Refusals
from tlt_coordinator.state import STATE_CODEC, State

log = get_logger(__name__)

RECORDS_KEPT = 100
"""Drafter records that outlive the leader, about 15 kB. They are informational; no decision depends on them."""

STATE_BYTES = 200_000
"""Maximum size of the stored state, in bytes. Kubernetes accepts 256 KiB of annotations per object."""

RELEASE_S = 2.0
"""Time limit, in seconds, for releasing the Lease at shutdown; if it fails, the others wait until the Lease expires."""


class LostError(Exception):
    """The replica no longer leads."""


class LeaderLease:
    """
    One replica's side of the election, and the state it stores while it leads.

    Renewals and states are written one at a time, each over the version last seen. So nothing of this replica is
    written once another replica has acquired the Lease.

    Args:
        wall: Returns the time written to the Lease, which is informational.
    """

    def __init__(
        self, kube: Kube, settings: KubernetesSettings, *, wall: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._kube = kube
        self._settings = settings
        self._wall = wall
        # A restarted container must not identify itself as the process that was killed in it.
        self._election = LeaderElection(f"{settings.pod}_{uuid4()}", settings)
        self._turn = asyncio.Lock()
        self._term = 0
        self._refusals = Refusals()

    @property
    def leads(self) -> bool:
        """Whether this replica leads now."""
        return asyncio.get_running_loop().time() < self._election.leads_until_s

    @property
    def leader(self) -> str:
        """Pod of the holder last seen; empty: none."""
        lease = self._election.lease
        return lease.holder.rpartition("_")[0] if lease else ""

    async def acquire(self) -> "Term":
        """
        Retry until this replica leads; return its term.

        Raises:
            ConfigError: The state stored in the Lease is not valid.
        """
        while True:
            try:
                async with self._turn, asyncio.timeout(self._call_s):
                    term = await self._try_acquire()
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
            LostError: This replica no longer leads.
        """
        while True:
            try:
                async with asyncio.timeout_at(self._election.leads_until_s):
                    await asyncio.sleep(self._settings.retry_period_s)
                    await self._renew()
            except TimeoutError as error:
                if not self.leads:
                    raise LostError(f"not renewed for {self._settings.renew_deadline_s:g} s") from error

    async def write(self, state: State, *, term: int) -> None:
        """
        Store a state on behalf of a term.

        Raises:
            UnavailableError: The term has ended, or the API server is unreachable.
            InvalidRequestError: The state is too large.
        """
        text = encoded(state)
        try:
            async with self._turn, asyncio.timeout(self._call_s):
                await self._write(lambda lease: replace(lease, state=text), term=term)
        except LostError as error:
            raise UnavailableError("this replica no longer leads") from error
        except (ApiError, TimeoutError) as error:
            self._note(error)
            raise UnavailableError(
                f"the Lease {self._settings.lease} could not be written: {_reason(error)}"
            ) from error

    async def release(self) -> None:
        """Release the Lease, so that another replica can lead at once. Everything that leads must have ended."""
        async with self._turn:
            lease = self._election.resigned(self._wall())
            if lease is None:
                return
            try:
                async with asyncio.timeout(RELEASE_S):
                    await self._kube.replace_lease(self._settings.lease, lease)
                log.info("lease_released", lease=self._settings.lease)
            except (ApiError, TimeoutError) as error:
                log.warning("lease_not_released", lease=self._settings.lease, reason=_reason(error))

    @property
    def _call_s(self) -> float:
        # Two attempts fit before the deadline.
        return self._settings.renew_deadline_s / 2

    async def _try_acquire(self) -> "Term | None":
        await self._read()
        if self._election.bid(asyncio.get_running_loop().time(), self._wall()) is None:
            return None
        # Before acquiring the Lease: a replica that cannot read the state must not keep others from leading.
        lease = self._election.lease
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
        """Write over the version last seen; if it is outdated, over the newest one if this replica still holds it."""
        if not self.leads or term != self._term:
            raise LostError("the term has ended")
        kept = self._election.lease
        try:
            won = await self._bid(change)
        except (ConflictError, MissingError):
            await self._read()
            if not self._election.holds and self._election.lease is not kept:
                raise LostError(f"acquired by {self.leader}" if self.leader else "released") from None
            # This replica's state counts, not one left there by a write whose response was lost.
            state = kept.state if kept else ""
            won = await self._bid(lambda lease: change(replace(lease, state=state)))
        if not won:
            raise LostError(f"acquired by {self.leader}")

    async def _bid(self, change: Callable[[LeaseObject], LeaseObject] = lambda lease: lease) -> bool:
        loop = asyncio.get_running_loop()
        sent_at_s = loop.time()
        bid = self._election.bid(sent_at_s, self._wall())
        if bid is None:
            return False
        write = self._kube.replace_lease if bid.version else self._kube.create_lease
        self._election.won(await write(self._settings.lease, change(bid)), sent_at_s)
        return True

    async def _read(self) -> None:
        lease = await self._kube.lease(self._settings.lease)
        self._election.observe(lease, asyncio.get_running_loop().time())

    def _note(self, error: ApiError | TimeoutError) -> None:
        """Log why a call for the Lease failed."""
        if isinstance(error, KubeRefusedError):
            self._refusals.note(error, consequence="no replica can lead")
        elif isinstance(error, ConflictError):
            log.debug("lease_contended", reason=str(error))
        else:
            log.warning("lease_out_of_reach", lease=self._settings.lease, reason=_reason(error))


class Term:
    """
    A period in which one replica leads without interruption. Stores the state during it: implements `StateBackend`.

    A write that outlives its term must not end up in the next term of the same replica, which began with the state it
    read.
    """

    def __init__(self, lease: LeaderLease, number: int, state: State) -> None:
        self._lease = lease
        self._number = number
        self.state = state
        """The state found at the beginning."""

    async def write(self, state: State) -> None:
        await self._lease.write(state, term=self._number)


def encoded(state: State) -> str:
    """
    Return the state as stored, with the newest records only.

    Raises:
        InvalidRequestError: It is too large for an annotation.
    """
    text = STATE_CODEC.dump_json(replace(state, drafters=state.drafters[-RECORDS_KEPT:])).decode()
    if len(text.encode()) > STATE_BYTES:
        raise InvalidRequestError(
            f"the state has {len(text.encode())} bytes; the maximum is {STATE_BYTES}. Use a shorter uri", field="uri"
        )
    return text


def decoded(text: str, lease: str) -> State:
    """
    Return the stored state; empty text yields a new one.

    Raises:
        ConfigError: The text is not a coordinator's state.
    """
    try:
        return STATE_CODEC.validate_json(text) if text else State()
    except ValidationError as error:
        raise ConfigError(
            f"annotation tlt.dev/state of Lease {lease} is not a coordinator's state; remove the annotation to "
            "start over; drafter versions then continue from those loaded by workers",
            field="kubernetes.lease",
        ) from error


def _reason(error: ApiError | TimeoutError) -> str:
    return str(error) or "timed out"
