"""A spot trainer's process, started and called as by its worker, with its log events about leases."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tlt_common.errors import UnavailableError
from tlt_common.processes.children import end
from tlt_common.rpc.channel import connect
from tlt_worker.lending.trainer_control import TrainerClient
from tlt_worker.lending.trainer_process import command

CALL_S = 60.0
"""Time limit of a call, in seconds: a slow one is a result, not an error."""
STOP_S = 30.0
START_S = 120.0
LOOK_S = 0.2


@dataclass(slots=True)
class LeaseLog:
    """Log events of the trainer, by epoch."""

    began_at_s: dict[int, float] = field(default_factory=dict)
    """Monotonic time at which training began."""
    doing: dict[int, str] = field(default_factory=dict)
    """Activity of the trainer when the lease was revoked."""
    drafters: int = 0
    """Published drafters."""
    merges: int = 0

    def note(self, event: Mapping[str, Any]) -> None:
        """Process one event."""
        match event.get("event"):
            case "training_began":
                self.began_at_s[event["epoch"]] = event["monotonic_s"]
            case "device_freed":
                self.doing[event["epoch"]] = event["doing"]
            case "drafter_published":
                self.drafters += 1
            case "drafter_followed":
                self.merges += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTrainer:
    """A trainer that serves."""

    link: TrainerClient
    log: LeaseLog


@asynccontextmanager
async def running(settings: Mapping[str, str], directory: Path) -> AsyncIterator[RunningTrainer]:
    """
    Run a trainer within the block.

    Args:
        settings: Its settings except the socket.
        directory: Directory of the socket.

    Raises:
        UnavailableError: It does not serve in time.
    """
    socket, log = directory / "trainer.sock", LeaseLog()
    process = await asyncio.create_subprocess_exec(
        *command({**settings, "socket": str(socket)}), stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.TaskGroup() as owner:
        reading = owner.create_task(_read(process, log))
        try:
            async with connect(f"unix:{socket}") as channel:
                link = TrainerClient(channel, start_s=CALL_S, preempt_s=CALL_S)
                await _until_serving(link)
                yield RunningTrainer(link=link, log=log)
        finally:
            await end(process, STOP_S)
            await reading


async def _read(process: asyncio.subprocess.Process, log: LeaseLog) -> None:
    assert process.stderr is not None  # noqa: S101 - it is a pipe
    async for line in process.stderr:
        event = json.loads(line) if line.startswith(b"{") else {"level": "unknown"}
        if event["level"] == "info":
            log.note(event)
        else:
            sys.stderr.write(line.decode())


async def _until_serving(link: TrainerClient) -> None:
    async with asyncio.timeout(START_S):
        while True:
            try:
                await link.progress()
            except UnavailableError:
                await asyncio.sleep(LOOK_S)
            else:
                return
