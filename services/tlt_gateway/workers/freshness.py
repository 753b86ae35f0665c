"""Asks workers for their state and waits for their reports."""

import asyncio
from collections.abc import Iterable

from tlt_common.telemetry.log import get_logger
from tlt_gateway.workers.pooled_worker import PooledWorker

log = get_logger(__name__)


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
