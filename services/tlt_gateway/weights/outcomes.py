"""Calls workers concurrently, without waiting long for the slowest."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from tlt_common.errors import TltError, UnavailableError
from tlt_gateway.workers.pooled_worker import PooledWorker

Result = TypeVar("Result")


async def each(
    workers: Iterable[PooledWorker],
    call: Callable[[PooledWorker], Awaitable[Result]],
    *,
    straggler_s: float,
    vetoes: Callable[[TltError], bool] = lambda _error: False,
) -> dict[PooledWorker, Result | TltError]:
    """
    Call all workers; return the result or error of each.

    Once the first call has succeeded, the others get as long again as it took, at least `straggler_s` seconds. Then
    they are cancelled, and their error is UnavailableError. An error that `vetoes` cancels them at once.
    """
    loop = asyncio.get_running_loop()
    started_s, deadline_s = loop.time(), float("inf")

    async def outcome(worker: PooledWorker) -> Result | TltError:
        try:
            return await call(worker)
        except TltError as error:
            return error

    async with asyncio.TaskGroup() as group:
        tasks = {worker: group.create_task(outcome(worker), name=f"update {worker.name}") for worker in workers}
        pending = set(tasks.values())
        while pending:
            wait_s = None if deadline_s == float("inf") else max(0.0, deadline_s - loop.time())
            done, pending = await asyncio.wait(pending, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            results = [task.result() for task in done if not task.cancelled()]
            if any(isinstance(result, TltError) and vetoes(result) for result in results):
                break
            if results and not all(isinstance(result, TltError) for result in results):
                deadline_s = min(deadline_s, loop.time() + max(straggler_s, loop.time() - started_s))
        for task in pending:
            task.cancel()
    late = f"not done {straggler_s:g} s after the first worker"
    return {worker: UnavailableError(late) if task.cancelled() else task.result() for worker, task in tasks.items()}
