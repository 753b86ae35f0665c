"""
Runs TRL's asynchronous trainer on two suites that differ in one thing, in turns of a minute.

Each side has a suite and a trainer of its own, which stay between its turns: generation is paused, nothing is lent,
and the trainer holds. So noise on the machine affects both sides alike.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import mean
from typing import Any

from pydantic import TypeAdapter

from countdown.coordinator import fleet_at, lend
from countdown.deepening import served_checkpoint
from countdown.settings import DRAFTER
from tlt_bench.async_trainer.record import (
    OFF,
    ON,
    PACKED,
    TURN,
    AsyncSettings,
    RunSide,
    TakenTurn,
    TrainedStep,
    figures_of,
)
from tlt_bench.engines.bench_engine import log
from tlt_bench.result import Result
from tlt_bench.scratch import scratch
from tlt_common.client import Client
from tlt_common.domain.fleet import Fleet, WorkerState
from tlt_common.errors import TltError
from tlt_common.processes.children import end
from tlt_local.configuration.config import StackConfig
from tlt_local.readiness import PUBLISHER
from tlt_local.stack import Stack

WORKERS = 2
TURN_S = 60.0
SKIP_S = 4.0
"""Beginning of a turn that is not measured: the other side's trainer may still be within a step."""
LOOK_EVERY_S = 1.0
FIRST_STEP_S = 900.0
STOP_S = 10.0
PROMPT_TOKENS = 64
MINUTES = 10.0


def settings_of(side: str, settings: AsyncSettings) -> dict[str, dict[str, Any]]:
    """Return what a side's suite is told: nothing but what tells it apart, the context and the precision."""
    worker = {"engine.context_length": str(settings.cap_tokens + PROMPT_TOKENS), "engine.dtype": "float32"}
    told: Mapping[str, dict[str, dict[str, Any]]] = {
        OFF: {"worker": {**worker, "engine.arms": "off"}, "coordinator": {"lending": "false"}},
        ON: {"worker": worker},
        PACKED: {"worker": worker, "gateway": {"pack_running": str(settings.in_flight)}},
    }
    return told[side]


def measure(*, warm: bool, packed: bool, minutes: float = MINUTES) -> Result:
    """
    Run the benchmark and return its figures. Progress goes to stderr.

    Args:
        warm: Start with the demo's shipped drafter instead of none.
        packed: Compare all requests on one of the workers with the suite's defaults, and not these with no speculation.
        minutes: Measured minutes of each side.

    Raises:
        TltError: A part of a suite or a trainer failed.
    """
    settings, rounds = AsyncSettings(), max(1, round(60 * minutes / TURN_S))
    names = (PACKED, ON) if packed else (ON, OFF)
    with scratch() as directory:
        runs = asyncio.run(_measured(names, settings, directory, rounds, warm=warm))
    found = figures_of(runs)
    start = "the shipped drafter" if warm else "no drafter"
    found.notes["run"] = (
        f"{settings.in_flight} responses in flight on {WORKERS} workers, {settings.served_layers} layers served, at "
        f"most {settings.cap_tokens} tokens, max_staleness {settings.max_staleness}, a step per {settings.in_flight} "
        f"responses; {rounds} turns of {TURN_S:.0f} s each, beginning with {start}"
    )
    found.notes["sides"] = (
        f"{OFF}: no speculation, nothing lent; {ON}: the suite's defaults; {PACKED}: gateway.pack_running "
        f"{settings.in_flight}, so that one worker serves all and the other trains drafters"
    )
    return found.result("rollout-async", repeats=rounds)


async def _measured(
    names: tuple[str, str], settings: AsyncSettings, directory: Path, rounds: int, *, warm: bool
) -> dict[str, RunSide]:
    model = await served_checkpoint(settings.served_layers, directory)
    async with AsyncExitStack() as parts:
        sides = dict[str, _Side]()
        for name in reversed(names):  # a fault in what is unusual shows first
            place = directory / name
            place.mkdir()
            config = StackConfig(
                model=model,
                workers=WORKERS,
                cores_per_worker=1,
                run_dir=place / "suite",
                drafter=DRAFTER if warm and name != OFF else None,
                settings=settings_of(name, settings),
            )
            sides[name] = await parts.enter_async_context(_running(name, config, settings, place))
        for turn in range(rounds):
            for name in names if turn % 2 else reversed(names):
                await sides[name].take_turn()
        return {name: await sides[name].run() for name in names}


class _Side:
    """A suite and the trainer that uses it, between turns except in `take_turn`."""

    def __init__(self, name: str, stack: Stack, client: Client, turn: Path) -> None:
        self._name, self._stack, self._client, self._turn = name, stack, client, turn
        self.lends = name != OFF
        self.steps = list[TrainedStep]()
        self.turns = list[TakenTurn]()
        self.first_step = asyncio.Event()

    async def follow(self, process: asyncio.subprocess.Process, log_file: Path) -> None:
        """
        Collect the steps that the trainer prints.

        Raises:
            TltError: It ended.
        """
        assert process.stdout is not None  # noqa: S101 - a pipe was requested
        adapter = TypeAdapter(TrainedStep)
        async for line in process.stdout:
            if line.startswith(b'{"step"'):
                self.steps.append(adapter.validate_json(line))
                self.first_step.set()
        lines = (await asyncio.to_thread(log_file.read_text, errors="replace")).strip().splitlines()
        raise TltError(
            f"the trainer of {self._name} ended: {lines[-1] if lines else 'no error output'}; see {log_file}"
        )

    async def proceed(self) -> None:
        """Begin a turn."""
        if self.lends:
            await lend(self._stack.coordinator, enabled=True)
        await self._client.proceed()
        self._turn.touch()

    async def hold(self) -> None:
        """End a turn."""
        self._turn.unlink()
        await self._client.pause()
        if self.lends:
            await lend(self._stack.coordinator, enabled=False)

    async def take_turn(self) -> None:
        """Run for a turn and measure it."""
        await self.proceed()
        await asyncio.sleep(SKIP_S)
        before, began_s, steps = await fleet_at(self._stack.coordinator), time.monotonic(), len(self.steps)
        looks = list[Fleet]()
        while time.monotonic() < began_s + TURN_S:
            await asyncio.sleep(LOOK_EVERY_S)
            looks.append(await fleet_at(self._stack.coordinator))
        turn = _turn_of(before, looks, time.monotonic() - began_s, len(self.steps) - steps)
        self.turns.append(turn)
        log(
            f"{self._name}: {turn.tokens / turn.seconds:.0f} tokens/s, {turn.steps} steps, accept length "
            f"{turn.accept_length:.2f}, {turn.running:.1f} running, {turn.trained_share:.0%} training, reward "
            f"{mean(one.reward for one in self.steps[steps:] or self.steps[-1:]):.3f}"
        )
        await self.hold()

    async def run(self) -> RunSide:
        """Return all that was measured."""
        fleet = await fleet_at(self._stack.coordinator)
        trained = [record for record in fleet.drafters if record.worker_id != PUBLISHER]
        return RunSide(turns=self.turns, steps=self.steps, drafters=len(trained))


@asynccontextmanager
async def _running(name: str, config: StackConfig, settings: AsyncSettings, place: Path) -> AsyncIterator[_Side]:
    """Start a side, and hold it after its trainer's first step."""
    log(f"{name}: starting")
    log_file = place / "trainer.log"
    program = (sys.executable, "-m", "tlt_bench.async_trainer.trainer")
    async with Stack(config, say=log) as stack, Client(stack.endpoint) as client, AsyncExitStack() as parts:
        side = _Side(name, stack, client, place / TURN)
        process = await asyncio.create_subprocess_exec(
            *program, stack.endpoint, str(place), settings.model_dump_json(),
            stdout=asyncio.subprocess.PIPE, stderr=parts.enter_context(log_file.open("wb")),
            env={**os.environ, "OMP_NUM_THREADS": "1", "TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        parts.push_async_callback(end, process, STOP_S)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(side.follow(process, log_file), name=f"trainer of {name}")
            await side.proceed()
            async with asyncio.timeout(FIRST_STEP_S):
                await side.first_step.wait()
            await side.hold()
            yield side
            following.cancel()


def _turn_of(before: Fleet, looks: list[Fleet], seconds: float, steps: int) -> TakenTurn:
    after = looks[-1]
    spent = {state: _seconds(after, state) - _seconds(before, state) for state in WorkerState}
    busy = [account.status for fleet in looks for account in fleet.workers if account.status.running > 0]
    lengths = [max(1.0, status.accept_length) for status in busy]
    return TakenTurn(
        seconds=seconds,
        tokens=_tokens(after) - _tokens(before),
        steps=steps,
        trained_share=spent[WorkerState.TRAINING] / sum(spent.values()),
        accept_length=mean(lengths) if lengths else 1.0,
        running=mean(status.running for status in busy) if busy else 0.0,
    )


def _tokens(fleet: Fleet) -> int:
    return sum(account.status.produced_tokens for account in fleet.workers)


def _seconds(fleet: Fleet, state: WorkerState) -> float:
    return sum(account.seconds.get(state, 0.0) for account in fleet.workers)
