"""Client side of a benchmark's engines."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import typer

from tlt_bench.engines.commands import (
    CaptureCheck,
    CheckCapture,
    Counters,
    Done,
    Failed,
    ForceArmsAt,
    Generate,
    GetCounters,
    Profile,
    ReloadDrafter,
    RoundProfile,
    SetCapture,
    StartEngine,
    Timing,
)
from tlt_bench.tasks import task_of
from tlt_common.config.base import Frozen
from tlt_common.errors import EngineError
from tlt_common.processes.children import end
from tlt_worker.engine.device import detect

LINE_BYTES = 64 * 2**20
STOP_S = 20.0

Reply = TypeVar("Reply", bound=Frozen)
Each = TypeVar("Each")
Found = TypeVar("Found")

SPEEDS: Mapping[str, Callable[[Timing], float]] = {
    "": lambda timing: timing.rate,
    "_cpu": lambda timing: timing.cpu_rate,
}
"""Speed by elapsed time and, of figures that end so, by CPU time, which other load on the machine affects less."""


def log(text: str) -> None:
    """Log a stage on stderr."""
    typer.echo(text, err=True)


def rotated(all_: Sequence[Each], by: int) -> list[Each]:
    """Rotate the order, so that no side is always first or last."""
    return [all_[(place + by) % len(all_)] for place in range(len(all_))]


@asynccontextmanager
async def started(*engines: "BenchEngine", shared: bool = False) -> AsyncIterator[None]:
    """
    Run engines concurrently, started in this order.

    On a CPU, loading takes most of a minute, so all engines load concurrently. On a GPU, each must see the memory left
    by earlier ones: the suite's engine, which plans for a whole GPU, comes first. Engines that together leave part of
    it free (`shared`) also load concurrently.
    """
    log("starting " + ", ".join(engine.name for engine in engines))
    at_once = len(engines) if shared or detect().kind == "cpu" else 1
    try:
        for first in range(0, len(engines), at_once):
            async with asyncio.TaskGroup() as loading:
                for engine in engines[first : first + at_once]:
                    loading.create_task(engine.start(), name=engine.name)
        yield
    finally:
        await asyncio.gather(*(engine.close() for engine in engines))


class BenchEngine:
    """An engine in a separate process. Start it with `started`."""

    def __init__(
        self, name: str, start: StartEngine, variables: Mapping[str, str] | None = None, *, temperature: float = 1.0
    ) -> None:
        self.name = name
        self.temperature = temperature
        """Of responses whose command names none."""
        self._start = start
        self.task = task_of(start.model)
        """What it is asked."""
        self._variables = variables or {}
        self.detail = ""
        """Description of the engine's device, once started."""
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """
        Start the process and the engine.

        Raises:
            EngineError: The engine did not start.
        """
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tlt_bench.engines.engine_host",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            env={**os.environ, "OMP_NUM_THREADS": "1", **self._variables},
        )
        done = await self._call(self._start, Done)
        self.detail = done.detail
        log(f"{self.name} runs on {self.detail}")

    async def close(self) -> None:
        """Stop the engine and its process."""
        if self._process is None:
            return
        assert self._process.stdin is not None  # noqa: S101 - a pipe was requested
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            await end(self._process, STOP_S)

    async def force_arms(self, *arms: str) -> None:
        """Run these arms in turn; without arms, the bandit chooses. Takes effect with the next round."""
        await self._call(ForceArmsAt(arms=arms), Done)

    async def set_capture(self, *, enabled: bool) -> str:
        """Enable or disable capture of hidden states of later requests; return the number captured so far."""
        return (await self._call(SetCapture(enabled=enabled), Done)).detail

    @property
    def pid(self) -> int:
        """Id of its process, whose children are the engine's."""
        assert self._process is not None  # noqa: S101 - inside the context
        return self._process.pid

    @property
    def has_drafter(self) -> bool:
        """Whether it starts with a drafter."""
        return self._start.engine.drafter is not None

    async def reload_drafter(self) -> None:
        """Reload the drafter. Takes effect with the next round."""
        await self._call(ReloadDrafter(), Done)

    async def generate(self, command: Generate) -> Timing:
        """Generate responses to all prompts at once."""
        return await self._call(self._sampled(command), Timing)

    async def profile(self, command: Profile) -> RoundProfile:
        """Generate responses and profile some of their rounds. Takes seconds, since a trace is written and read."""
        sampled = command.model_copy(update={"responses": self._sampled(command.responses)})
        return await self._call(sampled, RoundProfile)

    async def counters(self) -> Counters:
        """Return the scheduler's counts since the last call. Takes a second."""
        return await self._call(GetCounters(), Counters)

    async def check_capture(self, command: CheckCapture) -> CaptureCheck:
        """Compare captured hidden states with transformers'."""
        return await self._call(command, CaptureCheck)

    def _sampled(self, command: Generate) -> Generate:
        lengths = command.max_new_tokens
        if not (command.switches or command.ends or command.is_planned):  # switches come at planned lengths
            lengths = tuple(min(length, self.task.response_tokens) for length in lengths)
        temperature = self.temperature if command.temperature is None else command.temperature
        return command.model_copy(update={"temperature": temperature, "max_new_tokens": lengths})

    async def _call(self, command: Frozen, expected: type[Reply]) -> Reply:
        assert self._process is not None  # noqa: S101 - inside the context
        assert self._process.stdin is not None  # noqa: S101 - pipes were requested
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(command.model_dump_json().encode() + b"\n")
        await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        if not line:
            raise EngineError(f"the engine {self.name!r} exited; see its output above")
        try:
            return expected.model_validate_json(line)
        except ValueError:
            failure = Failed.model_validate_json(line)
            raise EngineError(f"the engine {self.name!r}: {failure.error}") from None


async def alternated(
    sides: Sequence[Each], repeats: int, run: Callable[[Each, int, int], Awaitable[Found]]
) -> dict[Each, list[Found]]:
    """
    Run all sides in turn, in an order that changes with each repeat; return the results by side.

    Args:
        sides: The sides to compare.
        repeats: Number of counted repeats, which follow one for warm-up.
        run: Called with a side, the number of the repeat, from 0, and the side's position in the order.
    """
    found: dict[Each, list[Found]] = {side: [] for side in sides}
    for repeat in range(repeats + 1):
        for place, side in enumerate(rotated(sides, repeat)):
            one = await run(side, repeat, place)
            if repeat:
                found[side].append(one)
    return found


async def in_turn(sides: Sequence[BenchEngine], batch: int, tokens: int, repeats: int) -> list[Sequence[Timing]]:
    """Return each engine's measurements, one per repeat."""

    async def run(side: BenchEngine, repeat: int, _: int) -> Timing:
        prompts = sides[0].task.hard(batch, seed=repeat)
        return await side.generate(Generate(prompts=prompts, max_new_tokens=(tokens,) * batch))

    return list((await alternated(sides, repeats, run)).values())
