"""Runs the demo: starts the suite and the external trainer, and records the comparison."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path

from countdown.coordinator import fleet_at
from countdown.events import Event, StepDone, parsed
from countdown.fresh import FreshScores
from countdown.job import Job
from countdown.machine import machine, versions
from countdown.record import GIVEN, Interval, Run, Step, Swap
from tlt_common.domain.fleet import Fleet
from tlt_common.errors import TltError, UnavailableError
from tlt_common.processes.children import end
from tlt_local.configuration.config import StackConfig
from tlt_local.readiness import PUBLISHER
from tlt_local.stack import Stack
from tlt_local.watch import EVERY_S, fleets

RECONNECT_S = 5.0
RUN_DIRECTORY = "suite"
"""Within the directory of the run: what the suite keeps, drafters among it."""
STOP_S = 10.0
LINE_BYTES = 16 * 2**20
"""Maximum length of an output line of the trainer: a step with all its responses."""


class Observer:
    """Receives the progress of a run. The base class ignores it."""

    def on_stage(self, text: str) -> None:
        """Called when a stage begins."""

    def on_event(self, event: Event) -> None:
        """Called for each event of the trainer."""

    def on_fleet(self, fleet: Fleet) -> None:
        """Called with the coordinator's view of the fleet, once per second."""


async def run(job: Job, directory: Path, journal: Path, observer: Observer) -> Run:
    """
    Run a job. Logs, drafters and what the job writes are in `directory`, what a simulation needs in `journal`.

    Raises:
        TltError: A component failed; the message names it and its log.
    """
    began_unix_s = time.time()
    observer.on_stage("preparing the checkpoint")
    async with Stack(await suite(job, directory, journal), say=observer.on_stage) as stack:
        start_up_s = time.time() - began_unix_s
        ends_unix_s = began_unix_s + 60 * job.settings.minutes
        steps = await train(job, stack, directory, observer, ends_unix_s=ends_unix_s)
        fleet, seen_unix_s = await fleet_at(stack.coordinator), time.time()
    fresh = await _scored(job, directory, fleet, observer)
    return Run(
        began_unix_s=began_unix_s,
        ended_unix_s=time.time(),
        start_up_s=start_up_s,
        machine=machine(),
        versions=versions(),
        settings=job.settings.described(),
        steps=tuple(steps),
        intervals=_intervals(fleet, seen_unix_s),
        swaps=tuple(
            Swap(
                version=record.version,
                at_unix_s=record.at_unix_s,
                held_out_top1=record.held_out_top1,
                worker=GIVEN if record.worker_id == PUBLISHER else record.worker_id,
            )
            for record in fleet.drafters
        ),
        subject=job.subject,
        fresh=fresh,
    )


async def suite(job: Job, directory: Path, journal: Path) -> StackConfig:
    """
    Return the configuration of the suite, with the checkpoint in place.

    Raises:
        TltError: The checkpoint is missing or cannot be read.
    """
    settings = job.settings
    worker = {
        "engine.context_length": str(settings.cap_tokens + job.prompt_tokens),
        "engine.dtype": settings.dtype,
    }
    return StackConfig(
        model=await job.checkpoint(directory),
        workers=settings.workers,
        cores_per_worker=1,
        run_dir=directory / RUN_DIRECTORY,
        drafter=Path(settings.drafter) if settings.drafter else None,
        settings={
            "worker": worker,
            "trainer": settings.trainer,
            "gateway": {"journal": str(journal)},
            "coordinator": {"journal": str(journal)},
        },
    )


async def train(job: Job, stack: Stack, directory: Path, observer: Observer, *, ends_unix_s: float) -> list[Step]:
    """
    Run the job's trainer until it exits; return its steps.

    Args:
        job: The job.
        stack: The running suite.
        directory: Directory of the run; the trainer's log is written to it.
        observer: Receives the progress.
        ends_unix_s: Time by which the last step should be finished.

    Raises:
        TltError: The trainer failed; the message names its log.
    """
    program = (sys.executable, "-m", job.program)
    told = (stack.endpoint, stack.coordinator, str(directory), str(ends_unix_s), json.dumps(asdict(job.settings)))
    log_file = directory / "trainer.log"
    observer.on_stage("starting the external trainer (TRL GRPO)")
    async with AsyncExitStack() as parts:
        log = parts.enter_context(log_file.open("wb"))
        process = await asyncio.create_subprocess_exec(
            *program,
            *told,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=LINE_BYTES,
            env={**os.environ, "OMP_NUM_THREADS": str(job.settings.learner_threads), "TRL_EXPERIMENTAL_SILENCE": "1"},
        )
        parts.push_async_callback(end, process, STOP_S)
        steps: list[Step] = []

        def on_event(event: Event) -> None:
            if isinstance(event, StepDone):
                steps.append(event.step)
            observer.on_event(event)

        async with asyncio.TaskGroup() as tasks:
            polling = tasks.create_task(_poll_fleet(stack.coordinator, observer), name="fleet")
            await _follow(process, on_event)
            polling.cancel()
        if await process.wait():
            lines = log_file.read_text(errors="replace").strip().splitlines()
            raise TltError(f"the trainer failed: {lines[-1] if lines else 'no error output'}; see {log_file}")
    return steps


async def _scored(job: Job, directory: Path, fleet: Fleet, observer: Observer) -> FreshScores | None:
    """Score the drafters; a run that took half an hour is not lost if that fails."""
    try:
        return await job.score(directory, fleet)
    except TltError as error:
        observer.on_stage(f"the drafters were not scored: {error.message}")
        return None


async def _follow(process: asyncio.subprocess.Process, on_event: Callable[[Event], None]) -> None:
    assert process.stdout is not None  # noqa: S101 - a pipe was requested
    async for line in process.stdout:
        if event := parsed(line):
            on_event(event)


async def _poll_fleet(coordinator: str, observer: Observer) -> None:
    while True:
        try:
            async for fleet in fleets(coordinator, every_s=EVERY_S):
                observer.on_fleet(fleet)
        except UnavailableError:
            observer.on_stage("the coordinator is unreachable; rollouts continue")
            await asyncio.sleep(RECONNECT_S)


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
