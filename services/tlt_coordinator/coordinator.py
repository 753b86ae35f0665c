"""The coordinator: what the workers and gateways say, put together, and what follows from it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Never

from tlt_common.aio import Signal
from tlt_common.domain.fleet import DrafterWish, Fleet, Member, WorkerAccount, WorkerHello, WorkerStatus
from tlt_common.domain.ids import DrafterVersion
from tlt_common.errors import InvalidRequestError, TltError
from tlt_common.telemetry.log import get_logger
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.drafters import Drafters, Publication
from tlt_coordinator.ledger import Ledger
from tlt_coordinator.queues import Queues
from tlt_coordinator.registry import Registry, Seat
from tlt_coordinator.roles import FleetView, Grant, plan
from tlt_coordinator.state import Epochs, Store

log = get_logger(__name__)

TICK_S = 0.1
"""How late a plan may notice that time alone changed something: a worker settled, a lease is due, one is silent."""

COALESCE_S = 0.05
"""Gateways get one picture of the fleet per this time, however much changes."""


class Coordinator:
    """
    One fleet.

    Everything but `run`, `watch` and `publish` is immediate and belongs to one event loop, so what a method sees is
    consistent.
    """

    def __init__(self, config: CoordinatorConfig, store: Store, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._ledger = Ledger()
        self._registry = Registry(self._ledger)
        self._queues = Queues(config.queue_stale_s)
        self._drafters = Drafters(store)
        self._epochs = Epochs(store)
        self._lending = config.lending
        self._changed = Signal()
        self._over: TltError | None = None

    async def run(self) -> Never:
        """Plan whenever something changed, and every TICK_S, until cancelled."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._epochs.run(), name="epochs")
            await self._plan()
        raise AssertionError("the plan never ends")

    async def _plan(self) -> Never:
        while True:
            seen = self._changed.count
            self._step(self._clock.now())
            try:
                async with asyncio.timeout(TICK_S):
                    await self._changed.beyond(seen)
            except TimeoutError:
                continue

    def join(self, hello: WorkerHello) -> Seat:
        """
        Seat a worker; it finds the newest drafter in its outbox.

        Raises:
            InvalidRequestError: The hello is not complete.
        """
        seat = self._registry.join(hello, self._clock.now())
        if self._drafters.newest is not None:
            seat.outbox.put(self._drafters.newest)
        self._changed.set()
        return seat

    def report(self, seat: Seat, status: WorkerStatus) -> None:
        """Take how a worker is."""
        self._registry.report(seat, status, self._clock.now())
        self._epochs.seen(status.epoch)
        self._changed.set()

    def leave(self, seat: Seat) -> None:
        """A worker's stream ended."""
        self._registry.leave(seat, self._clock.now())
        self._changed.set()

    def report_queue(self, gateway_id: str, queued: int) -> None:
        """
        Take how many requests wait at a gateway.

        Raises:
            InvalidRequestError: The gateway has no name, or less than nothing waits.
        """
        if not gateway_id:
            raise InvalidRequestError("gateway_id is empty; accepted: a name", field="gateway_id")
        if queued < 0:
            raise InvalidRequestError(f"queued_count is {queued}; accepted: at least 0", field="queued_count")
        self._queues.report(gateway_id, queued, self._clock.now())
        self._changed.set()

    async def publish(self, publication: Publication) -> DrafterWish:
        """
        Make a drafter the fleet's and ask all workers to load it.

        Raises:
            InvalidRequestError: The publication is not complete.
            StaleVersionError: Another drafter was published since its base.
            UnavailableError: It could not be kept.
        """
        loaded = max((member.status.drafter_version for member in self._registry.members()), default=DrafterVersion(0))
        wish = await self._drafters.publish(publication, self._clock.now(), loaded=loaded)
        log.info("drafter_published", drafter_version=wish.version, worker_id=publication.worker_id, uri=wish.uri)
        self._registry.wish(wish)
        self._changed.set()
        return wish

    def set_lending(self, *, enabled: bool) -> bool:
        """Turn lending on or off; return what it was."""
        before, self._lending = self._lending, enabled
        if before is not enabled:
            log.info("lending_set", enabled=enabled)
        self._changed.set()
        return before

    def end(self, error: TltError) -> None:
        """End all streams of workers and gateways, telling them why. Nothing may be asked afterwards."""
        self._over = error
        self._registry.close(error)
        self._changed.set()

    def known(self) -> tuple[Member, ...]:
        """All workers ever seen, as last heard; state `down` when they are gone."""
        return self._registry.known()

    def fleet(self) -> Fleet:
        """How the fleet is, seconds up to now."""
        now_s = self._clock.now()
        workers = []
        for member in self._registry.known():
            account = self._ledger.account(member.hello.worker_id)
            workers.append(
                WorkerAccount(
                    hello=member.hello,
                    status=member.status,
                    seconds=account.seconds(now_s),
                    timeline=account.timeline,
                )
            )
        return Fleet(
            workers=tuple(workers),
            queued=self._queues.queued(now_s),
            drafter=self._drafters.newest,
            drafters=self._drafters.records,
            lending=self._lending,
            bubble_utilisation=self._ledger.bubble_utilisation(now_s),
        )

    async def watch(self) -> AsyncIterator[tuple[Member, ...]]:
        """
        The workers that can take requests: at once, and again when state, versions or load of one changed.

        Raises:
            TltError: What the coordinator was ended with.
        """
        shown: list[object] | None = None
        while self._over is None:
            seen = self._changed.count
            members = self._registry.members()
            if (routed := [_what_routing_needs(member) for member in members]) != shown:
                shown = routed
                yield members
            await asyncio.sleep(COALESCE_S)
            await self._changed.beyond(seen)
        raise self._over

    def _step(self, now_s: float) -> None:
        self._registry.drop_silent(self._config.silence_s, now_s)
        workers = self._registry.views()
        fleet = FleetView(
            workers=workers,
            queued=self._queues.queued(now_s),
            lending=self._lending,
            last_epoch=self._epochs.last,
            reserved_epoch=self._epochs.reserved,
        )
        changes = plan(fleet, now_s, self._config.spot)
        self._registry.carry_out(changes, now_s)
        for change in changes:
            if isinstance(change, Grant):
                self._epochs.seen(change.lease.epoch)


def _what_routing_needs(member: Member) -> object:
    status = member.status
    return (member.hello, status.state, status.running, status.policy_version, status.drafter_version)
