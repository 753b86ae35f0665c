"""Watches the engine's processes for a hang."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing, suppress

import psutil

from tlt_common.processes.core_waits import CoreWaits
from tlt_common.schedule_clock import ScheduleClock
from tlt_common.telemetry.log import get_logger
from tlt_worker.engine.control import Control
from tlt_worker.engine.stall import ProcessSample, StallJudge, StallSample
from tlt_worker.link.worker_end import WorkerEnd

log = get_logger(__name__)


class StallWatch:
    """
    Args:
        judge: Detects hangs.
        pids: Returns the ids of the engine's processes.
        rounds: Returns the number of rounds processed.
        requests: Returns the number of running requests.
        loading: Returns whether weights are being loaded.
        compiling: Returns whether the scheduler is compiling a function or a kernel.
    """

    def __init__(
        self,
        judge: StallJudge,
        *,
        pids: Callable[[], Iterable[int]],
        rounds: Callable[[], int],
        requests: Callable[[], int],
        loading: Callable[[], bool],
        compiling: Callable[[], bool] = bool,
    ) -> None:
        self._judge = judge
        self._pids = pids
        self._rounds = rounds
        self._requests = requests
        self._loading = loading
        self._compiling = compiling

    async def hung(self) -> str:
        """Wait until the engine hangs; return why."""
        async with aclosing(ScheduleClock().ticks()) as ticks:
            async for now_s in ticks:  # a late tick changes nothing: the clock stood still
                sample = self._sample(now_s)
                why = self._judge.hangs(sample)
                if why and not any(process.stopped for process in sample.processes.values()) and self._compiles():
                    log.info("engine_compiles", rounds=sample.rounds)
                    self._judge.excuse(sample)
                elif why:
                    return why
        raise AssertionError("a clock does not end")

    def _sample(self, now_s: float) -> StallSample:
        processes: dict[int, ProcessSample] = {}
        for pid in self._pids():
            with suppress(psutil.NoSuchProcess, OSError):  # it has exited: `Control.died` reports that
                processes[pid] = process_sample(pid)
        return StallSample(
            at_s=now_s,
            rounds=self._rounds(),
            requests=self._requests(),
            loading=self._loading(),
            compiling=self._compiling(),
            processes=processes,
        )

    def _compiles(self) -> bool:
        """Whether a child of the engine, such as a kernel compiler, is running."""
        working = {psutil.STATUS_RUNNING, psutil.STATUS_DISK_SLEEP}
        with suppress(psutil.NoSuchProcess):
            return any(
                child.status() in working
                for pid in self._pids()
                for child in psutil.Process(pid).children(recursive=True)
            )
        return False


def watch_of(control: Control, link: WorkerEnd, stall_s: float | None, device: str) -> StallWatch | None:
    """Return the watch over a running engine, or None if `stall_s` is 0 or None."""
    if not stall_s:
        return None
    return StallWatch(
        StallJudge(stall_s, device),
        pids=control.child_pids,
        rounds=lambda: link.pulse.rounds,
        requests=lambda: control.running,
        loading=lambda: control.paused,
        compiling=lambda: link.pulse.compiling,
    )


async def end_of(control: Control, watch: StallWatch | None) -> str:
    """Wait until the engine has died, and return why. A hung engine is killed, so that its requests end."""
    if watch is None:
        return await control.died()
    async with asyncio.TaskGroup() as ways:
        died = ways.create_task(control.died(), name="engine died")
        hung = ways.create_task(watch.hung(), name="engine hung")
        await asyncio.wait({died, hung}, return_when=asyncio.FIRST_COMPLETED)
        if not died.done():
            why = f"it hung and was killed: {hung.result()}"
            log.error("engine_stalled", why=hung.result(), pids=control.child_pids(), requests=control.running)
            control.kill(why)
            return await died
        hung.cancel()
    return died.result()


def process_sample(pid: int) -> ProcessSample:
    """
    Return a sample of a process.

    Raises:
        NoSuchProcess: It has exited.
        OSError: It has exited, or cannot be inspected.
    """
    process = psutil.Process(pid)
    with process.oneshot():
        times, status = process.cpu_times(), process.status()
    return ProcessSample(
        stopped=status in {psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP},
        cpu_s=times.user + times.system,
        waits=CoreWaits.of_main_thread(pid),
    )
