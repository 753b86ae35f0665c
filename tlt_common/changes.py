"""Changes of the served weights and drafters, applied in order, each to completion."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Never, TypeVar

from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

Result = TypeVar("Result")


class Changes:
    """
    Applies changes in a single task.

    If a caller hangs up, its change still completes: aborting it halfway would leave weights of an unknown version.
    """

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]] = asyncio.Queue()

    async def do(self, change: Callable[[], Awaitable[Result]]) -> Result:
        """Apply `change` after earlier ones; return its result or raise its exception."""
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((change, done))
        return await done

    async def run(self) -> Never:
        """Apply changes until cancelled; pending callers are then cancelled, too."""
        try:
            while True:
                await _perform(*await self._waiting.get())
        finally:
            while not self._waiting.empty():
                self._waiting.get_nowait()[1].cancel()


async def _perform(change: Callable[[], Awaitable[Any]], done: asyncio.Future[Any]) -> None:
    try:
        result = await change()
    except asyncio.CancelledError:
        done.cancel()
        raise
    except Exception as error:  # noqa: BLE001 - the caller gets it, and the next change must still run
        if done.cancelled():
            log.warning("change_failed_unheard", error=str(error))
        else:
            done.set_exception(error)
    else:
        if not done.cancelled():
            done.set_result(result)
