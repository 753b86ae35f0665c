"""A demo run from nothing to its record: the suite, the external trainer, the comparison."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path

from tlt_common.domain.fleet import Fleet
from tlt_common.errors import TltError, UnavailableError
from tlt_common.processes import end
from tlt_lab.bench.result import machine, versions
from tlt_lab.demo import greedy
from tlt_lab.demo.coordinator import fleet_at
from tlt_lab.demo.events import Event, StepDone, parsed
from tlt_lab.demo.record import Interval, Run, Step, Swap
from tlt_lab.demo.settings import DemoSettings
from tlt_lab.up.config import StackConfig
from tlt_lab.up.stack import Stack
from tlt_lab.up.status import fleets

LOOK_AGAIN_S = 5.0
PROMPT_TOKENS = 64
"""Room for a prompt beside the longest response: what the key/value caches are sized by."""
STOP_S = 10.0
LINE_BYTES = 16 * 2**20
"""Longest line of the trainer: a step with all its responses."""


class Watcher:
    """Told how the run goes; the base class says nothing."""

    def say(self, text: str) -> None:
        """A stage begins."""

    def event(self, event: Event) -> None:
        """The trainer told something."""

    def fleet(self, fleet: Fleet) -> None:
        """The coordinator's view, once a second."""


async def run(settings: DemoSettings, directory: Path, watcher: Watcher) -> Run:
    """
    Run the demo; `directory` gets what the run leaves behind: the served checkpoint and logs.

    Raises:
        TltError: A part failed; says which and where its log is.
    """
    began_unix_s = time.time()
    watcher.say("deepening the shipped policy for serving")
    async with Stack(await suite(settings, directory), say=watcher.say) as stack:
        start_up_s = time.time() - began_unix_s
        steps = await train(settings, stack, directory, watcher)
        watcher.say("comparing greedy responses with and without drafts")
        answers = await greedy.compare(stack.endpoint, prompts=settings.greedy_prompts, seed=settings.seed + 1)
        fleet = await fleet_at(stack.coordinator)
    return Run(
        began_unix_s=began_unix_s,
        ended_unix_s=time.time(),
        start_up_s=start_up_s,
        machine=machine(),
        versions=versions(),
        settings=settings.described(),
        steps=tuple(steps),
        intervals=_intervals(fleet, time.time()),
        swaps=tuple(
            Swap(
                version=record.version,
                at_unix_s=record.at_unix_s,
                held_out_top1=record.held_out_top1,
                worker=record.worker_id,
            )
            for record in fleet.drafters
        ),
        greedy=answers,
    )


async def suite(settings: DemoSettings, directory: Path) -> StackConfig:
    """
    Write the checkpoint that is served, and say what the suite is started with.

    Raises:
        TltError: The shipped checkpoint cannot be read.
    """
    served = directory / "served"
    await deepened(served)
    context = settings.cap_tokens + PROMPT_TOKENS
    return StackConfig(
        model=served,
        workers=settings.workers,
        cores_per_worker=1,
        run_dir=directory / "suite",
        settings={"worker": {"context_length": str(context)}},
    )


async def deepened(out: Path) -> None:
    """
    Write the deep image of the shipped policy.

    Raises:
        TltError: The shipped checkpoint cannot be read.
    """
    # In a process of its own: this one then never holds torch, whose threads would disturb what is measured.
    code = (
        "from pathlib import Path; from tlt_lab.demo.model import CHECKPOINT, write_served_checkpoint;"
        f"write_served_checkpoint(CHECKPOINT, Path({str(out)!r}))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    if await process.wait():
        raise TltError("the shipped checkpoint could not be read")


async def train(settings: DemoSettings, stack: Stack, directory: Path, watcher: Watcher) -> list[Step]:
    """
    Run the trainer's program, which begins with the shipped policy, until it ends; return its steps.

    Raises:
        TltError: It failed; says where its log is.
    """
    wanted = json.dumps(asdict(settings))
    command = [sys.executable, "-m", "tlt_lab.demo.trainer", stack.endpoint, stack.coordinator, wanted]
    log_file = directory / "trainer.log"
    watcher.say("starting the external trainer (TRL GRPO)")
    async with AsyncExitStack() as parts:
        log = parts.enter_context(log_file.open("wb"))
        process = await asyncio.create_subprocess_exec(
            *command,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=LINE_BYTES,
            # One thread: on a machine with as many cores as workers, more would take what idle workers train with.
            env={**os.environ, "OMP_NUM_THREADS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"},
        )
        parts.push_async_callback(end, process, STOP_S)
        steps: list[Step] = []

        def on_event(event: Event) -> None:
            if isinstance(event, StepDone):
                steps.append(event.step)
            watcher.event(event)

        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(_look(stack.coordinator, watcher), name="look")
            await _follow(process, on_event)
            looking.cancel()
        if await process.wait():
            lines = log_file.read_text(errors="replace").strip().splitlines()
            raise TltError(
                f"the trainer ended with an error: {lines[-1] if lines else 'it said nothing'}; see {log_file}"
            )
    return steps


async def _follow(process: asyncio.subprocess.Process, on_event: Callable[[Event], None]) -> None:
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    async for line in process.stdout:
        if event := parsed(line):
            on_event(event)


async def _look(coordinator: str, watcher: Watcher) -> None:
    while True:
        try:
            async for fleet in fleets(coordinator, once=False):
                watcher.fleet(fleet)
        except UnavailableError:
            watcher.say("the coordinator does not answer; rollouts go on")
            await asyncio.sleep(LOOK_AGAIN_S)


def _intervals(fleet: Fleet, until_unix_s: float) -> tuple[Interval, ...]:
    found = []
    for account in fleet.workers:
        ends = [change.at_unix_s for change in account.timeline[1:]] + [until_unix_s]
        for change, ended_unix_s in zip(account.timeline, ends, strict=True):
            found.append(
                Interval(
                    worker=account.hello.worker_id,
                    state=change.state.value,
                    began_unix_s=change.at_unix_s,
                    ended_unix_s=ended_unix_s,
                )
            )
    return tuple(found)
