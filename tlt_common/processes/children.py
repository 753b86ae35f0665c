"""Stops child processes and reports why they exited."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def failure_of(socket: Path) -> Path:
    """Return the file to which a process that serves a socket writes its reason for exiting, for its parent."""
    return socket.with_suffix(".failure")


def send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """
    Send a signal to a process unless it has ended.

    `process.kill()` is not used: it polls the exit status and thereby takes it from asyncio's own watcher.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


async def end(process: asyncio.subprocess.Process, within_s: float) -> bool:
    """Send SIGTERM and wait for the process; send SIGKILL after `within_s`. Return whether it ended without SIGKILL."""
    send(process, signal.SIGTERM)
    try:
        async with asyncio.timeout(within_s):
            await process.wait()
    except TimeoutError:
        send(process, signal.SIGKILL)
        await process.wait()
        return False
    return True


@contextmanager
def ended_after_block(process: "subprocess.Popen[Any]", within_s: float) -> Iterator[None]:
    """At the end of the block, send SIGTERM and wait for the process, which asyncio does not watch, as `end` does."""
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
