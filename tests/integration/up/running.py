"""A running suite, seen from its coordinator and from its processes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from tlt_common.domain.fleet import Fleet, WorkerState
from tlt_common.errors import UnavailableError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator
from tlt_local.stack import Stack
from tlt_local.supervision import guard

LOOK_S = 0.5
COME_BACK_S = 400.0


async def fleet(stack: Stack) -> Fleet:
    async with connect(stack.coordinator) as channel:
        with translated():
            request = coordinator.pb.GetFleetRequest()
            return coordinator.fleet_from_pb(await coordinator.Stub(channel).GetFleet(request, timeout=5))


async def until(stack: Stack, holds: Callable[[Fleet], bool]) -> Fleet:
    async with asyncio.timeout(COME_BACK_S):
        while True:
            try:
                if holds(seen := await fleet(stack)):
                    return seen
            except UnavailableError:  # the coordinator is restarting
                pass
            await asyncio.sleep(LOOK_S)


def pids(stack: Stack, *marks: str) -> list[int]:
    """Return the processes of the run whose command line contains all marks."""
    found = []
    for entry in guard.processes(stack.token):
        try:
            command = Path(f"/proc/{entry.pid}/cmdline").read_text()
        except OSError:
            continue
        if entry.marked and all(mark in command for mark in marks):
            found.append(entry.pid)
    return found


def serving(count: int) -> Callable[[Fleet], bool]:
    return lambda seen: sum(w.status.state is not WorkerState.DOWN for w in seen.workers) == count
