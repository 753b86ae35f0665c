"""Detects workers that are lost because they are silent, or late to answer."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import aclosing
from typing import Never, TypeVar

from tlt_common.schedule_clock import ScheduleClock
from tlt_common.telemetry.log import get_logger
from tlt_gateway.workers.pooled_worker import PooledWorker

Worker = TypeVar("Worker", bound=Hashable)


log = get_logger(__name__)


def lost_by_silence(silent_s: Mapping[Worker, float], limit_s: float | None) -> list[Worker]:
    """
    Return the workers that hang, whose requests must move.

    Never returns all workers: if the whole fleet is silent over open connections, the cause is the network or this
    process, and there is nowhere to move requests to. If the fleet is gone, gRPC's keepalive closes its connections.

    Args:
        silent_s: Seconds of silence of each worker in use, counted only while this process ran on schedule.
        limit_s: Silence up to this is accepted; None accepts any.
    """
    if limit_s is None:
        return []
    silent = [worker for worker, seconds in silent_s.items() if seconds >= limit_s]
    return silent if len(silent) < len(silent_s) else []


async def judge_silence(
    workers: Callable[[], Iterable[PooledWorker]],
    lose: Callable[[PooledWorker, str], None],
    limit_s: float | None,
) -> Never:
    """Call `lose` with each worker that hangs and the reason, until cancelled."""
    async with aclosing(ScheduleClock().ticks()) as ticks:
        async for now_s in ticks:
            silent_s = {worker: worker.silent_for_s(now_s) for worker in workers() if worker.answers}
            for worker in lost_by_silence(silent_s, limit_s):
                lose(worker, f"silent for {silent_s[worker]:g} s while other workers were heard")
    raise AssertionError("a clock does not end")


async def late(workers: Iterable[PooledWorker], within_s: float) -> list[PooledWorker]:
    """Ask workers for their state, which they report at once; return those that did not within `within_s` seconds."""
    serials = {worker: worker.demands.ask() for worker in workers}

    async def reported(worker: PooledWorker) -> None:
        while worker.serial < serials[worker]:
            await worker.reported.beyond(worker.reported.count)

    try:
        async with asyncio.timeout(within_s), asyncio.TaskGroup() as waits:
            for worker in serials:
                waits.create_task(reported(worker), name=f"report of {worker.name}")
    except TimeoutError:
        missing = [worker for worker, serial in serials.items() if worker.serial < serial]
        log.warning("reports_late", workers=[worker.name for worker in missing], within_s=within_s)
        return missing
    return []
