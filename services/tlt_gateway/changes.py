"""Changes of the fleet's weights: one after the other, and each to its end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Never, TypeVar

from tlt_common.errors import TltError
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

Result = TypeVar("Result")


class Changes:
    """
    Runs weight updates in one task of its own.

    A caller that hangs up stops waiting, but the change goes on: half an update would leave workers at two versions.
    """

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()

    async def do(self, change: Callable[[], Awaitable[Result]]) -> Result:
        """Run `change` after those before it; return its result, or raise the TltError it raised."""
        done: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        async def perform() -> None:
            try:
                result = await change()
            except TltError as error:
                if done.cancelled():
                    log.warning("change_failed_unheard", error=error.message)
                else:
                    done.set_exception(error)
            else:
                if not done.cancelled():
                    done.set_result(result)

        self._waiting.put_nowait(perform)
        return await done

    async def run(self) -> Never:
        """Live until cancelled."""
        while True:
            perform = await self._waiting.get()
            await perform()
