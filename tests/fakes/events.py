"""Waiting for events."""

import asyncio


async def any_of(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    while not any(event.is_set() for event in events):
        async with asyncio.TaskGroup() as waits:
            tasks = [waits.create_task(event.wait()) for event in events]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
