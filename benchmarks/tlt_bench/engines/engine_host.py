"""
Hosts one engine of a benchmark in a separate process, controlled by JSON lines.

SGLang keeps its configuration in globals, so two engines cannot share a process. Started by `BenchEngine`: reads one
command per line from stdin and writes one reply per line to stdout. Shuts down with its engine when stdin is closed.
"""

import asyncio
import os
import sys
import threading
from pathlib import Path
from typing import TextIO

from pydantic import TypeAdapter

from tlt_bench.engines import capture_check, profile
from tlt_bench.engines.commands import (
    CheckCapture,
    Counters,
    Done,
    Failed,
    ForceArmsAt,
    Generate,
    GetCounters,
    Profile,
    ReloadDrafter,
    SetCapture,
    StartEngine,
    Timing,
)
from tlt_bench.engines.response_log import ResponseLog
from tlt_bench.engines.returning import ReturningEngine
from tlt_bench.engines.stock import SpeculatingEngine, StockEngine
from tlt_common.config.base import Frozen
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.ids import DrafterVersion, RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.errors import TltError
from tlt_worker.engine.device import detect
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.scheduler.arms.switching import REPORT_S

Command = StartEngine | ForceArmsAt | ReloadDrafter | SetCapture | Generate | Profile | GetCounters | CheckCapture
COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)


class EngineHost:
    """Runs commands on the engine it started."""

    def __init__(self) -> None:
        self._engine: SglangEngine | None = None
        self._batches = 0
        self._drafter = DrafterVersion(1)
        self._sums = Counters()
        self._is_started = asyncio.Event()
        self._captures = False
        self._states = 0
        self._sink: asyncio.Task[None] | None = None

    async def execute(self, command: Command) -> Frozen:
        """
        Run one command and return its reply.

        Raises:
            TltError: The engine failed.
        """
        match command:
            case StartEngine():
                return await self._start(command)
            case ForceArmsAt():
                self._require_engine().force_arms(*command.arms)
                return Done()
            case ReloadDrafter():
                return await self._reload_drafter()
            case SetCapture():
                return self._set_capture(enabled=command.enabled)
            case Generate():
                return await self._generate(command)
            case Profile():
                return await self._profile(command)
            case GetCounters():
                return await self._counters()
            case CheckCapture():
                return await capture_check.check(self._require_engine(), command)

    async def add_up(self) -> None:
        """Sum the engine's reports until cancelled."""
        await self._is_started.wait()
        async for report in self._require_engine().reports():
            self._sums = Counters(
                switches=self._sums.switches + report.switches,
                recomputed_tokens=self._sums.recomputed_tokens + report.recomputed_tokens,
                caught_up_tokens=self._sums.caught_up_tokens + report.caught_up_tokens,
            )

    async def close(self) -> None:
        """Stop the engine."""
        if self._sink is not None:
            self._sink.cancel()
        if self._engine is not None:
            await self._engine.aclose()

    async def _start(self, command: StartEngine) -> Done:
        arguments = (Path(command.model), command.engine, command.experiment)
        if command.speculation is not None:
            self._engine = SpeculatingEngine(*arguments, speculation=command.speculation)
        elif command.stock:
            self._engine = (ReturningEngine if command.returns_states else StockEngine)(*arguments)
        else:
            self._engine = SglangEngine(*arguments)
        info = await self._engine.start()
        self._is_started.set()
        return Done(detail=info.device)

    def _set_capture(self, *, enabled: bool) -> Done:
        engine = self._require_engine()
        self._captures = enabled
        if isinstance(engine, ReturningEngine):
            engine.return_states(enabled=enabled)
            return Done()
        engine.set_capture(CapturePolicy(enabled=enabled))
        if self._sink is None:
            self._sink = asyncio.create_task(self._drain(engine), name="sink")
        return Done(detail=str(self._states))

    async def _drain(self, engine: SglangEngine) -> None:
        """Consume captured frames from the worker's queue."""
        async for frames in engine.frame_batches():
            self._states += sum(frame.header.token_count for frame in frames)

    async def _reload_drafter(self) -> Done:
        engine = self._require_engine()
        assert engine.config.drafter is not None, "the engine has no drafter to reload"  # noqa: S101 - a bug
        self._drafter = DrafterVersion(self._drafter + 1)
        await engine.load_drafter(engine.config.drafter, self._drafter)
        return Done()

    async def _profile(self, command: Profile) -> Frozen:
        log, on_gpu = self._log(command.responses), detect().kind == "cuda"
        recorded, _ = await asyncio.gather(
            profile.record(self._require_engine(), command.rounds, log.begun, on_gpu=on_gpu),
            self._follow(command.responses, log),
        )
        return recorded

    async def _generate(self, command: Generate) -> Timing:
        log = self._log(command)
        await self._follow(command, log)
        return log.timing()

    def _log(self, command: Generate) -> ResponseLog:
        engine = self._require_engine()
        return ResponseLog(switches=command.switches, force=engine.force_arms, pids=(os.getpid(), *engine.child_pids))

    async def _follow(self, command: Generate, log: ResponseLog) -> None:
        self._batches += 1
        engine = self._require_engine()
        names = command.names or tuple(f"{self._batches}-{place}/0" for place in range(len(command.prompts)))
        requests = zip(names, command.prompts, command.max_new_tokens, strict=True)
        tracks = [
            log.track(
                Prompt(
                    request_id=RequestId(name),
                    token_ids=ids,
                    sampling=SamplingParams(
                        temperature=1.0 if command.temperature is None else command.temperature,
                        max_new_tokens=tokens,
                        ignore_eos=not command.ends,
                        seed=None if command.seed is None else command.seed + place,
                    ),
                    capture=self._captures,
                ),
                tokens,
            )
            for place, (name, ids, tokens) in enumerate(requests)
        ]
        await asyncio.gather(*(log.follow(track, engine.generate(track.prompt)) for track in tracks))

    async def _counters(self) -> Counters:
        # The engine reports rounds in batches, with the first round that ends REPORT_S after the last report.
        await asyncio.sleep(REPORT_S)
        await self._generate(Generate(prompts=((1,),), max_new_tokens=(3,)))
        await asyncio.sleep(REPORT_S)
        counted, self._sums = self._sums, Counters()
        return counted

    def _require_engine(self) -> SglangEngine:
        assert self._engine is not None, "the first command is Start"  # noqa: S101 - a bug of the bench
        return self._engine


async def serve(replies: TextIO) -> None:
    """Run commands until stdin is closed; that also cancels a running command."""
    host, commands = EngineHost(), Commands(asyncio.get_running_loop())
    async with asyncio.TaskGroup() as parts:
        work = parts.create_task(_run_commands(host, commands.lines, replies), name="commands")
        reports = parts.create_task(host.add_up(), name="reports")
        try:
            await commands.ended.wait()
        finally:
            work.cancel()
            reports.cancel()
            await host.close()


class Commands:
    """Lines of stdin. Read in a daemon thread, so that waiting for a line does not keep a failed process alive."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()
        self.ended = asyncio.Event()
        self._loop = loop
        threading.Thread(target=self._read, name="commands", daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._loop.call_soon_threadsafe(self.lines.put_nowait, line)
        self._loop.call_soon_threadsafe(self.ended.set)


async def _run_commands(host: EngineHost, commands: asyncio.Queue[str], replies: TextIO) -> None:
    while True:
        command = COMMANDS.validate_json(await commands.get())
        try:
            reply = await host.execute(command)
        except TltError as error:
            reply = Failed(error=error.message)
        replies.write(reply.model_dump_json() + "\n")
        replies.flush()


if __name__ == "__main__":
    # Keep SGLang's output separate from the replies.
    reply_stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.run(serve(reply_stream))
