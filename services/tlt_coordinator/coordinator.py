"""The coordinator: combines the reports of workers and gateways, and makes all decisions."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Never

from tlt_common.aio import Pieces, Signal
from tlt_common.domain.fleet import (
    DrafterWish,
    Member,
    MembershipChange,
    Publication,
    WorkerHello,
    WorkerStatus,
)
from tlt_common.domain.ids import WorkerId
from tlt_common.domain.server_info import Bubbles
from tlt_common.errors import InvalidRequestError, TltError
from tlt_common.load import GatewayLoad
from tlt_common.telemetry.log import get_logger
from tlt_common.telemetry.optional import kept_running, optional
from tlt_coordinator.account.figures import FleetFigures, WorkerStanding
from tlt_coordinator.account.ledger import Ledger
from tlt_coordinator.account.steps import Steps
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.drafters.announcer import Announcer
from tlt_coordinator.drafters.published import PublishedDrafters
from tlt_coordinator.journal import NO_JOURNAL, CoordinatorJournal
from tlt_coordinator.lender import Lender, LendingTerms
from tlt_coordinator.lending.decision import Circumstances
from tlt_coordinator.lending.excluded import ExcludedWorkers
from tlt_coordinator.lending.orders import Grant
from tlt_coordinator.lending.pace import Pace
from tlt_coordinator.lending.worklist import STEP_WORKERS
from tlt_coordinator.lengths import ReportedLengths
from tlt_coordinator.observer import Observer
from tlt_coordinator.queues import QUEUE_STALE_S, Queues
from tlt_coordinator.registry import Registry, WorkerSession
from tlt_coordinator.state import Epochs, StateStore, keep_totals

log = get_logger(__name__)

TICK_S = 0.1
"""Maximum delay, in seconds, before the plan notices a change caused by time alone: a worker settled, a lease is due
for renewal, a worker is silent."""

COALESCE_S = 0.05
"""Minimum time between two updates to a gateway, in seconds, however often the fleet changes."""


class Coordinator:
    """
    State and decisions for one fleet.

    All methods except `run`, `watch`, `exclude` and `publish` are synchronous and must be called in one
    event loop, so that each sees a consistent state.
    """

    def __init__(
        self, config: CoordinatorConfig, store: StateStore, clock: Clock, journal: CoordinatorJournal = NO_JOURNAL
    ) -> None:
        self._config = config
        self._journal = journal
        self._clock = clock
        self._ledger = Ledger(store.state.seconds)
        self._store = store
        self._registry = Registry(self._ledger, clock.now(), journal)
        self._excluded = ExcludedWorkers(store)
        self._registry.exclude(self._excluded.worker_ids, clock.now())
        self._queues = Queues(QUEUE_STALE_S)
        self._lengths = ReportedLengths(QUEUE_STALE_S)
        self._lender = Lender(self._registry, self._queues)
        self._announcer = Announcer()
        self._drafters = PublishedDrafters(store)
        self._epochs = Epochs(store)
        self._lending = config.lending
        self._pace = Pace(config.lending_policy)
        self._due = Signal()
        """There is something to decide. Reports without a change do not set it."""
        self._moved = Signal()
        """Workers joined or left, lending was enabled or disabled, or all streams end."""
        self._over: TltError | None = None
        self._steps = Steps()
        self.observer = Observer(
            now=clock.now,
            registry=self._registry,
            ledger=self._ledger,
            queues=self._queues,
            lengths=self._lengths,
            drafters=self._drafters,
            steps=self._steps,
            circumstances=self._circumstances,
            excluded=lambda: len(store.state.excluded),
            pieces=Pieces(),
            forget_silent=self._end_silent_step,
        )
        journal.leads(True)
        journal.lending(self._lending)
        journal.excluded(self._excluded.worker_ids)

    async def run(self) -> Never:
        """Plan after every change, and at least every TICK_S, until cancelled."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._epochs.run(), name="epochs")
            totals = partial(keep_totals, self._store, lambda: self._ledger.totals(self._clock.now()))
            parts.create_task(kept_running("totals", totals), name="totals")
            await self._plan()
        raise AssertionError("the plan never ends")

    async def _plan(self) -> Never:
        while True:
            seen = self._due.count
            if self._step(self._clock.now()):
                await asyncio.sleep(0)  # reports and calls first: no wave of leases holds the loop
                continue
            try:
                async with asyncio.timeout(TICK_S):
                    await self._due.beyond(seen)
            except TimeoutError:
                continue

    def join(self, hello: WorkerHello) -> WorkerSession:
        """
        Open a session for a worker; its outbox holds the newest drafter.

        Raises:
            InvalidRequestError: The hello is incomplete.
        """
        session = self._registry.join(hello, self._clock.now())
        if self._drafters.newest is not None:
            session.outbox.put(self._drafters.newest)
        self._pace.fit(self._registry.connected)
        return session

    def report(self, session: WorkerSession, status: WorkerStatus) -> None:
        """
        Record the status of a worker.

        Raises:
            InvalidRequestError: Its epoch was never granted.
        """
        self._epochs.require_plausible(status.epoch, self._clock.now())
        if self._registry.report(session, status, self._clock.now()):
            self._moved.set()
        self._registry.set_pace(session, self._pace.report_every_s)
        self._epochs.seen(status.epoch)
        self._steps.change_policy(self._registry.policy, self._clock.now())
        if self._registry.undecided:
            self._due.set()

    def leave(self, session: WorkerSession) -> None:
        """Close the session of a worker whose stream ended."""
        self._registry.leave(session, self._clock.now())
        self._moved.set()

    def report_queue(self, gateway_id: str, queued: int, pause_left_s: float = 0.0) -> Bubbles:
        """
        Record the number of queued requests at a gateway and the seconds left of its pause; return the fleet's bubbles.

        Raises:
            InvalidRequestError: The gateway id is empty, or the count is negative.
        """
        if not gateway_id:
            raise InvalidRequestError("gateway_id is empty; accepted: a name", field="gateway_id")
        if queued < 0:
            raise InvalidRequestError(f"queued_count is {queued}; accepted: at least 0", field="queued_count")
        now_s = self._clock.now()
        self._queues.report(gateway_id, queued, now_s, pause_left_s=pause_left_s)
        self._due.set()
        return self._ledger.bubbles(now_s)

    def report_load(self, gateway_id: str, load: GatewayLoad) -> None:
        """Record the running requests of a gateway."""
        now_s = self._clock.now()
        with optional("lengths"):
            self._lengths.report(gateway_id, load, now_s)
            self._steps.announce(gateway_id, load.announced)
            ended = (*load.ended, *load.cut)
            self._learn_steps(now_s, ended=len(ended), tokens=sum(ended))

    async def publish(self, publication: Publication) -> DrafterWish:
        """
        Make a drafter the fleet's newest and tell all workers to load it, unless they have just loaded another.

        Raises:
            InvalidRequestError: The publication is incomplete, or scores clearly below the newest.
            StaleVersionError: Another drafter was published since its base.
            UnavailableError: The state could not be stored.
        """
        before = self._drafters.version
        wish = await self._drafters.publish(publication, self._clock.now(), loaded=self._registry.loaded)
        log.info("drafter_published", drafter_version=wish.version, worker_id=publication.worker_id, uri=wish.uri)
        if wish.version > before:
            self._journal.published(publication, wish.version)
        self._announcer.publish(wish)
        self._announce(self._clock.now())
        return wish

    @property
    def drafter(self) -> DrafterWish | None:
        """The newest drafter; None before the first."""
        return self._drafters.newest

    @property
    def opened(self) -> int:
        """Number of streams that workers have opened so far."""
        return self._registry.opened

    @property
    def connected(self) -> int:
        """Number of streams of workers that are open."""
        return self._registry.connected

    def set_lending(self, *, enabled: bool) -> bool:
        """Enable or disable lending; return the previous setting."""
        before, self._lending = self._lending, enabled
        if before is not enabled:
            log.info("lending_set", enabled=enabled)
            self._journal.lending(enabled)
            self._moved.set()
        self._due.set()
        return before

    async def exclude(self, worker_ids: Iterable[WorkerId], *, excluded: bool) -> tuple[WorkerId, ...]:
        """
        Exclude workers from lending, or include them again; return all excluded workers.

        Raises:
            InvalidRequestError: No worker is named, or one to exclude was never seen.
            UnavailableError: The state could not be stored; nothing changed.
        """
        named = frozenset(worker_ids)
        known = {member.hello.worker_id for member in self._registry.known()}
        await self._excluded.change(named, excluded=excluded, known=known)
        self._registry.exclude(self._excluded.worker_ids, self._clock.now())
        self._journal.excluded(self._excluded.worker_ids)
        log.info("workers_excluded" if excluded else "workers_included", worker_ids=sorted(named))
        self._due.set()
        return tuple(sorted(self._excluded.worker_ids))

    def end(self, error: TltError) -> None:
        """End all streams of workers and gateways with this error. No method may be called afterwards."""
        self._over = error
        self.note_training(0, self._registry.opened)
        self._journal.leads(False)
        self._registry.close(error)
        self._moved.set()

    def changed(self, seen: int) -> tuple[int, list[Member]]:
        """
        Return workers whose state, lease or drafter changed, with their last status (`down` if disconnected).

        Args:
            seen: The number returned by the last call; 0 at first, for all workers ever seen.
        """
        count, worker_ids = self._registry.changes.since(seen)
        return count, [self._registry.last_known(worker_id) for worker_id in worker_ids]

    def figures(self) -> FleetFigures:
        """Return the figures of the whole fleet, without iterating over workers."""
        now_s = self._clock.now()
        return FleetFigures(
            queued=self._queues.queued(now_s),
            drafter=self._drafters.version,
            published_at_unix_s=self._drafters.records[-1].at_unix_s if self._drafters.records else 0.0,
            policy=self._registry.policy,
            lending=self._lending,
            bubble_utilisation=self._ledger.bubbles(now_s).utilisation,
        )

    def standings(self, after: int, count: int) -> tuple[int, list[WorkerStanding]]:
        """
        Return the state and seconds of the next `count` workers in turn, and where to continue.

        Args:
            after: The number returned by the last call; 0 at first.
            count: Maximum number of workers.
        """
        now_s = self._clock.now()
        accounts, following = self._ledger.next_accounts(after, count)
        return following, [
            WorkerStanding(worker_id=worker_id, state=account.state, seconds=account.settled(now_s))
            for worker_id, account in accounts
        ]

    def note_training(self, after: int, count: int) -> int:
        """Journal the training of the next `count` workers in turn; return where to continue, as `standings`."""
        if not self._journal.is_written:
            return 0
        following, standings = self.standings(after, count)
        for standing in standings:
            self._journal.trained(standing, self._registry.last_known(standing.worker_id).status)
        return following

    async def watch(self) -> AsyncIterator[MembershipChange]:
        """
        Yield the workers that accept requests, first all of them, then those that joined and left. Each with whether
        idle workers are lent.

        Raises:
            TltError: The error passed to `end`.
        """
        journal, seen, is_change, lending = self._registry.membership, 0, False, self._lending
        while self._over is None:
            signaled = self._moved.count
            seen, changed = journal.since(seen)
            if changed or not is_change or lending is not self._lending:
                lending = self._lending
                members = {worker_id: self._registry.member(worker_id) for worker_id in reversed(changed)}
                yield MembershipChange(
                    is_change=is_change,
                    joined=tuple(member for member in members.values() if member is not None),
                    left=tuple(worker_id for worker_id, member in members.items() if member is None and is_change),
                    lending=lending,
                )
                is_change = True
            await asyncio.sleep(COALESCE_S)
            await self._moved.beyond(signaled)
        raise self._over

    def _end_silent_step(self) -> None:
        """End the step if its gateways have stopped reporting."""
        now_s = self._clock.now()
        if not self._lengths.running(now_s) and not self._queues.queued(now_s):
            self._steps.report(0, now_s)

    def _learn_steps(self, now_s: float, *, ended: int, tokens: int) -> None:
        before, queued = self._steps.number, self._queues.queued(now_s)
        running = max(1, self._registry.tally.running) if self._lengths.running(now_s) else 0
        self._steps.report(running + queued, now_s, ended=ended, tokens=tokens)
        if self._steps.number != before:
            self._lengths.begin_step()

    def _circumstances(self, now_s: float) -> Circumstances:
        policy, measures = self._pace.policy, self._registry.measures
        return Circumstances(
            lending=self._lending,
            queued=self._queues.queued(now_s),
            settle_s=measures.settle_s(policy, now_s),
            enough=self._registry.loans >= measures.trainers(policy, now_s),
        )

    def _announce(self, now_s: float) -> None:
        """Tell workers to load the newest drafter, if it is due."""
        every_s = self._registry.measures.publish_every_s
        if (wish := self._announcer.due(now_s, every_s=every_s, training=self._registry.loans > 0)) is not None:
            self._registry.wish(wish)

    def _step(self, now_s: float) -> bool:
        """Decide about a bounded number of workers; return whether there may be more to decide now."""
        dropped = self._registry.drop_silent(self._pace.silence_s(self._config.silence_s), now_s)
        if dropped:
            self._moved.set()
        self._announce(now_s)
        terms = LendingTerms(
            enabled=self._lending,
            policy=self._pace.policy,
            last_epoch=self._epochs.last,
            reserved_epoch=self._epochs.reserved,
            drafter=self._drafters.version,
        )
        changes = self._lender.step(now_s, terms)
        for change in changes:
            if isinstance(change, Grant):
                self._epochs.seen(change.lease.epoch)
        return self._registry.undecided or max(dropped, len(changes)) >= STEP_WORKERS
