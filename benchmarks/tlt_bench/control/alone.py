"""
CPU time of one decision in an otherwise idle coordinator with a fleet.

`python -m tlt_bench.control.alone WORKERS` prints it, in microseconds.
"""

import asyncio
import sys
import time
from dataclasses import replace
from statistics import median

from tlt_bench.control.workers import IDLE, hello
from tlt_common.domain.fleet import Lease, Revocation, WorkerState
from tlt_common.telemetry.log import configure
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig, LendingPolicy
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.registry import WorkerSession
from tlt_coordinator.state import StateStore

DECISIONS = 200
PATIENCE_S = 600.0
"""Accepted silence, and lifetime of leases: no worker reports here without being asked."""


async def decision_us(workers: int) -> float:
    """Return the median CPU time from the report of a worker that took its device back to the revocation."""
    config = CoordinatorConfig(silence_s=PATIENCE_S, spot=LendingPolicy(lease_ttl_s=PATIENCE_S))
    clock = Clock()
    coordinator = Coordinator(config, StateStore.open(None, now_s=clock.now()), clock)
    async with asyncio.TaskGroup() as parts:
        running = parts.create_task(coordinator.run())
        hellos = (replace(hello(f"alone-{number}"), accepts_report_interval=False) for number in range(workers))
        sessions = [coordinator.join(known) for known in hellos]
        for session in sessions:
            coordinator.report(session, IDLE)
        for session in sessions:
            await _lent(coordinator, session)
        # Spread over the fleet: the cost must not depend on where a worker is in any order.
        chosen = sessions[:: max(1, workers // DECISIONS)]
        times_us = [await _taken_back_us(coordinator, session) for session in chosen]
        running.cancel()
    return median(times_us)


async def _lent(coordinator: Coordinator, session: WorkerSession) -> None:
    order = await anext(session.outbox.orders())
    assert isinstance(order, Lease)  # noqa: S101 - it is idle, and holds none
    training = replace(IDLE, state=WorkerState.TRAINING, epoch=order.epoch, lent=True)
    coordinator.report(session, training)


async def _taken_back_us(coordinator: Coordinator, session: WorkerSession) -> float:
    await asyncio.sleep(0)
    began_s = time.thread_time()
    coordinator.report(session, replace(IDLE, state=WorkerState.ROLLOUT, running=1))
    order = await anext(session.outbox.orders())
    took_s = time.thread_time() - began_s
    assert isinstance(order, Revocation)  # noqa: S101 - it is busy
    return took_s * 1e6


if __name__ == "__main__":
    configure("info")  # what a coordinator logs belongs to its cost
    sys.stdout.write(f"{asyncio.run(decision_us(int(sys.argv[1])))}\n")
