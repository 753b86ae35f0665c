"""The engines of a bench, seen from the bench."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import typer

from tlt_common.config.base import Frozen
from tlt_common.errors import EngineError
from tlt_common.processes import end
from tlt_lab.bench.order import Ask, Count, Counted, Done, Failed, Force, Renew, Start, Told

LINE_BYTES = 64 * 2**20
STOP_S = 20.0

Answer = TypeVar("Answer", bound=Frozen)
Each = TypeVar("Each")


def say(text: str) -> None:
    """Tell on stderr what begins."""
    typer.echo(text, err=True)


def turned(all_: Sequence[Each], by: int) -> list[Each]:
    """Begin with another one each time: what comes first or last must not be the same side always."""
    return [all_[(place + by) % len(all_)] for place in range(len(all_))]


@asynccontextmanager
async def started(*sides: "Side") -> AsyncIterator[None]:
    """Engines at work side by side. Loading takes most of a minute each, so all load at once."""
    say("starting " + ", ".join(side.name for side in sides))
    try:
        async with asyncio.TaskGroup() as loading:
            for side in sides:
                loading.create_task(side.start(), name=side.name)
        yield
    finally:
        await asyncio.gather(*(side.close() for side in sides))


class Side:
    """An engine in a process of its own. See `started`."""

    def __init__(self, name: str, start: Start, variables: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._start = start
        self._variables = variables or {}
        self.detail = ""
        """What the engine runs on, once it does."""
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """
        Start process and engine.

        Raises:
            EngineError: The engine did not start.
        """
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tlt_lab.bench.side",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            env={**os.environ, "OMP_NUM_THREADS": "1", **self._variables},
        )
        done = await self._order(self._start, Done)
        self.detail = done.detail
        say(f"{self.name} runs on {self.detail}")

    async def close(self) -> None:
        """End both."""
        if self._process is None:
            return
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            await end(self._process, STOP_S)

    async def force(self, *arms: str) -> None:
        """Run these arms in turn; none gives the choice to the bandit. Heard with the next round."""
        await self._order(Force(arms=arms), Done)

    async def renew(self) -> None:
        """Load the drafter again. Heard with the next round."""
        await self._order(Renew(), Done)

    async def ask(self, order: Ask) -> Told:
        """Answer prompts, all at once."""
        return await self._order(order, Told)

    async def count(self) -> Counted:
        """Return what the scheduler has counted since the last time. Takes a second."""
        return await self._order(Count(), Counted)

    async def _order(self, order: Frozen, expected: type[Answer]) -> Answer:
        assert self._process is not None  # noqa: S101 - inside the context
        assert self._process.stdin is not None  # noqa: S101 - pipes were asked for
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(order.model_dump_json().encode() + b"\n")
        await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        if not line:
            raise EngineError(f"the engine {self.name!r} ended; its words are above")
        try:
            return expected.model_validate_json(line)
        except ValueError:
            failure = Failed.model_validate_json(line)
            raise EngineError(f"the engine {self.name!r}: {failure.error}") from None
