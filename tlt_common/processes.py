"""Ending child processes."""

import asyncio
import os
import signal
from contextlib import suppress


def send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """
    Send a signal to a process that has not ended.

    Not by `process.kill()`: that looks for the exit status first, and takes it away from asyncio's own watcher.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


async def end(process: asyncio.subprocess.Process, within_s: float) -> bool:
    """Ask a process to end and wait for it; kill it after `within_s`. Return whether it ended by itself."""
    send(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(within_s):
            await process.wait()
    except TimeoutError:
        send(process, signal.SIGKILL)
        await process.wait()
        return False
    return True
