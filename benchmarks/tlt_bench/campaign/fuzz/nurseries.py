"""The processes that fork those of the targets, as many as run at once."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tlt_bench.campaign.fuzz.nursery import Errand
from tlt_common.processes.children import send


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A child that has ended."""

    code: int
    """Exit code; the negative signal if one ended it."""
    output: str
    errors: str


class Nursery:
    """One of them. Its children run one after the other."""

    def __init__(self, process: asyncio.subprocess.Process, directory: Path) -> None:
        self._process = process
        self._directory = directory

    async def run(self, arguments: Sequence[str]) -> Ended:
        """Run a child with these arguments until it ends; cancellation kills it."""
        output, errors = self._directory / "output", self._directory / "errors"
        for file in (output, errors):
            file.write_text("")
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        errand = Errand(arguments=tuple(arguments), output=str(output), errors=str(errors))
        self._process.stdin.write(errand.model_dump_json().encode() + b"\n")
        pid = await self._number()
        try:
            code = await self._number()
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            await self._number()
            raise
        return Ended(code=code, output=output.read_text(), errors=errors.read_text(errors="replace"))

    async def _number(self) -> int:
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that forks targets ended; its log is in {self._directory}")
        return int(line)


@asynccontextmanager
async def nurseries(directory: Path, count: int) -> AsyncIterator[asyncio.Queue[Nursery]]:
    """Start them; yield those that are free. All have ended when the block ends."""
    free: asyncio.Queue[Nursery] = asyncio.Queue()
    processes: list[asyncio.subprocess.Process] = []
    try:
        for number in range(count):
            own = directory / f"nursery-{number}"
            own.mkdir(parents=True)
            with (own / "log").open("wb") as log:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "tlt_bench.campaign.fuzz.nursery",
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                )
            processes.append(process)
            free.put_nowait(Nursery(process, own))
        yield free
    finally:
        for process in processes:
            send(process, signal.SIGKILL)
            await process.wait()
