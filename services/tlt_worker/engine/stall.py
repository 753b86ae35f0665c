"""Detects an engine that hangs. Pure: the caller supplies the evidence."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tlt_common.processes.core_waits import CoreWaits, WaitRecord

WARM_UP_ROUNDS = 64
"""Rounds within which a GPU engine may compile kernels for every new shape, in its own process."""
WARM_UP_FACTOR = 6
"""How much longer than `stall_s` one of these may take."""
COMPILE_FACTOR = 12
"""How much longer than `stall_s` a round may take while the scheduler compiles a function or kernel. What requests use
is compiled before a worker is ready; this is for what was missed."""
MIN_CPU_SHARE = 0.01
"""A process that used less of one core did not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    """State of one engine process, as reported by Linux."""

    stopped: bool
    """Whether it is stopped, as by SIGSTOP or a debugger."""
    cpu_s: float
    """CPU time used by all its threads since it started."""
    waits: CoreWaits
    """Time that its main thread has waited for a core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StallSample:
    """State of the engine at one moment."""

    at_s: float
    """Seconds during which the observing worker ran on schedule."""
    rounds: int
    requests: int
    """Number of requests that the engine has accepted and not answered."""
    loading: bool
    """Whether weights are being loaded, which pauses the engine."""
    compiling: bool = False
    """Whether its scheduler is compiling a function or a kernel."""
    processes: Mapping[int, ProcessSample]
    """Samples by process id."""


class StallJudge:
    """
    Args:
        stall_s: Seconds without a round, while requests run, after which the engine is considered hung.
        device: `cuda` or `cpu`.
    """

    def __init__(self, stall_s: float, device: str) -> None:
        self._stall_s = stall_s
        self._device = device
        self._since: StallSample | None = None
        self._waits: dict[int, WaitRecord] = {}
        """Of each process, since then. One that was starved may do any number of rounds once it gets a core."""
        self._stopped_at_s: dict[int, float] = {}

    def hangs(self, sample: StallSample) -> str:
        """
        Return why the engine is considered hung, or an empty string.

        On a GPU, a round that does not end is a hang, even if its process spins: that is how a process waits for a
        kernel that never ends. On a CPU, a long round computes: only a process that uses no CPU time hangs. Neither is
        judged while it waits for a core more than it runs, and a stopped process is a hang on any device.
        """
        return self._stopped(sample) or self._without_round(sample)

    def excuse(self, sample: StallSample) -> None:
        """Do not count the time without a round so far."""
        self._since = sample
        self._waits = {pid: WaitRecord(process.waits, sample.at_s) for pid, process in sample.processes.items()}

    def _stopped(self, sample: StallSample) -> str:
        self._stopped_at_s = {
            pid: self._stopped_at_s.get(pid, sample.at_s)
            for pid, process in sample.processes.items()
            if process.stopped
        }
        for pid, at_s in self._stopped_at_s.items():
            if sample.at_s - at_s >= self._stall_s:
                return f"its process {pid} has been stopped for {self._stall_s:g} s"
        return ""

    def _without_round(self, sample: StallSample) -> str:
        since = self._since
        if since is None or not sample.requests or sample.loading or sample.rounds != since.rounds:
            self.excuse(sample)
            return ""
        if since.compiling and not sample.compiling:
            self.excuse(sample)  # the round goes on with what was compiled
            return ""
        elapsed_s = sample.at_s - since.at_s
        self._since = since = replace(since, compiling=sample.compiling)
        for pid, waits in self._waits.items():
            if process := sample.processes.get(pid):
                waits.look(process.waits, sample.at_s)
        if elapsed_s < self._limit_s(sample):
            return ""
        if self._works(since, sample, elapsed_s):
            self.excuse(sample)
            return ""
        return f"{sample.requests} requests are running, and no round has ended for {elapsed_s:g} s"

    def _limit_s(self, sample: StallSample) -> float:
        if sample.compiling:
            return self._stall_s * COMPILE_FACTOR
        warms_up = self._device == "cuda" and sample.rounds < WARM_UP_ROUNDS
        return self._stall_s * (WARM_UP_FACTOR if warms_up else 1)

    def _works(self, since: StallSample, sample: StallSample, elapsed_s: float) -> bool:
        """Whether a process was starved of CPU time or, on a CPU, was computing."""
        if any(waits.is_starved for waits in self._waits.values()):
            return True
        common = since.processes.keys() & sample.processes.keys()
        cpu_s = [sample.processes[pid].cpu_s - since.processes[pid].cpu_s for pid in common]
        return self._device == "cpu" and any(seconds > MIN_CPU_SHARE * elapsed_s for seconds in cpu_s)
