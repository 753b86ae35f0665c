"""A fleet of simulated workers in a coordinator's process that report the states of their histories."""

import asyncio
import random
from collections.abc import Sequence
from typing import Never

from tlt_bench.page.courses import DISTINCT, STEP_S, course
from tlt_common.domain.fleet import Lease, Publication, Revocation, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion, WorkerId
from tlt_common.load import GatewayLoad, WorkerLoad, by_cap
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig, LendingPolicy
from tlt_coordinator.coordinator import Coordinator

PAST_S = 1800.0
"""Length of the history that workers report when they join."""
AHEAD_S = 3600.0
TICK_S = 0.25
REPORT_TICKS = 20
"""Ticks in which each worker reports once."""
GATEWAY = "simulated-gateway"
CAP = 32_768
PATIENCE_S = 1e6
CONFIG = CoordinatorConfig(silence_s=PATIENCE_S, spot=LendingPolicy(lease_ttl_s=PATIENCE_S))
"""Workers report when something changes; nothing needs to be renewed."""
NEEDS_LEASE = frozenset({WorkerState.TRAINING, WorkerState.SWITCHING})


def names(count: int, odd: Sequence[str] = ()) -> list[str]:
    """Return the ids of workers; the last ones are odd if given."""
    digits = len(str(count - 1))
    return [f"worker-{number:0{digits}d}" for number in range(count - len(odd))] + list(odd)


class SimulatedFleet:
    """
    Joins a coordinator, and reports to it.

    Args:
        coordinator: The coordinator, whose plan runs elsewhere in this event loop.
        workers: Their ids.
        clock: The coordinator's clock.
        problem: Problem that one worker in a hundred reports, starting with the fifth.
    """

    def __init__(self, coordinator: Coordinator, workers: Sequence[str], clock: Clock, problem: str) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._problem = problem
        self._random = random.Random(len(workers))
        self._joined_s = clock.now()
        self._began_s = self._joined_s - PAST_S
        self._courses = [course(seed, PAST_S + AHEAD_S) for seed in range(min(DISTINCT, len(workers)))]
        self._places = [each.at(PAST_S) for each in self._courses]
        self._drafter = 0
        self._epochs = [Epoch(0)] * len(workers)
        """Epochs of the leases they hold."""
        self._waiting = set[int]()
        """Workers that would train, and have no lease."""
        self._shown = [WorkerState.IDLE] * len(workers)
        self._reported_s = [self._joined_s] * len(workers)
        self._trained_s = [0.0] * len(workers)
        hellos = [self._hello(number, name) for number, name in enumerate(workers)]
        self._sessions = [coordinator.join(hello) for hello in hellos]
        for number in range(len(workers)):
            self._report(number)

    async def run(self) -> Never:
        """Live until cancelled."""
        published_s, ticks = 0.0, 0
        while True:
            now_s, ticks = self._clock.now(), ticks + 1
            for index, followed in enumerate(self._courses):
                place = followed.at(now_s - self._began_s)
                if place != self._places[index]:
                    self._places[index] = place
                    for number in range(index, len(self._sessions), len(self._courses)):
                        self._report(number)
            for number in tuple(self._waiting):
                if self._takes_lease(number):
                    self._report(number)
            # What is trained counts once it is reported.
            for number in range(ticks % REPORT_TICKS, len(self._sessions), REPORT_TICKS):
                self._report(number)
            self._coordinator.report_queue(GATEWAY, 0)
            self._coordinator.report_load(GATEWAY, self._load())
            if now_s - published_s > STEP_S / 4:
                published_s = now_s
                await self._publish()
            await asyncio.sleep(TICK_S)

    def _hello(self, number: int, name: str) -> WorkerHello:
        return WorkerHello(
            worker_id=WorkerId(name),
            address=f"10.0.{number // 250}.{number % 250}:7700",
            model="simulated-7b",
            device="simulated",
            max_running=64,
            pod=f"rl-tlt-worker-{number}",
            history=self._courses[number % len(self._courses)].history(PAST_S),
        )

    def _state(self, number: int) -> WorkerState:
        index = number % len(self._courses)
        return self._courses[index].states[self._places[index]]

    def _takes_lease(self, number: int) -> bool:
        """Process an offered lease; return whether the worker holds one."""
        outbox = self._sessions[number].outbox
        while (order := outbox.take()) is not None:
            if isinstance(order, Lease):
                self._epochs[number] = order.epoch
            elif isinstance(order, Revocation) and order.epoch >= self._epochs[number]:
                self._epochs[number] = Epoch(0)
        return self._epochs[number] > 0

    def _report(self, number: int) -> None:
        state, held = self._state(number), self._takes_lease(number)
        if state not in NEEDS_LEASE:
            self._epochs[number] = Epoch(0)
            self._waiting.discard(number)
        elif held:
            self._waiting.discard(number)
        else:
            state = WorkerState.IDLE
            self._waiting.add(number)
        now_s = self._clock.now()
        if self._shown[number] is WorkerState.TRAINING:
            self._trained_s[number] += now_s - self._reported_s[number]
        self._shown[number], self._reported_s[number] = state, now_s
        is_busy = state is WorkerState.ROLLOUT
        step = int((now_s - self._began_s) / STEP_S)
        status = WorkerStatus(
            state=state,
            running=8 if is_busy else 0,
            policy_version=PolicyVersion(step),
            drafter_version=DrafterVersion(self._drafter),
            accept_length=3.2 if is_busy else 0.0,
            arm="drafter-4" if is_busy else "",
            trainer_ready=True,
            epoch=self._epochs[number],
            lent=self._epochs[number] > 0,
            training_s=self._trained_s[number],
            training_steps=int(self._trained_s[number]),
            training_loss=2.0,
            produced_tokens=int(1000 * now_s - 1000 * self._joined_s),
            problem=self._problem if number % 100 == 4 else "",
        )
        self._coordinator.report(self._sessions[number], status)

    def _load(self) -> GatewayLoad:
        busy = [
            session for number, session in enumerate(self._sessions[:512]) if self._state(number).value == "rollout"
        ]
        lengths = [min(CAP, int(self._random.lognormvariate(7.5, 1.0)) + 1) for _ in range(4 + len(busy) // 8)]
        workers = tuple(
            WorkerLoad(
                worker_id=session.hello.worker_id,
                running=by_cap((CAP, int(self._random.lognormvariate(7.0, 1.0)) + 1) for _ in range(8)),
            )
            for session in busy
        )
        return GatewayLoad(workers=workers, ended=tuple(lengths))

    async def _publish(self) -> None:
        wish = await self._coordinator.publish(
            Publication(
                base=DrafterVersion(self._drafter),
                uri=f"simulated:{self._drafter + 1}",
                worker_id=self._sessions[self._drafter % len(self._sessions)].hello.worker_id,
                held_out_top1=0.75 - 0.3 * 0.8**self._drafter,
            )
        )
        self._drafter = wish.version
