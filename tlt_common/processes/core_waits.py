"""Time that a process's threads have waited for a core: a starved process does not hang."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MAX_WAITING_SHARE = 0.5
"""A process one of whose threads waited longer for a core was starved, and may answer once it gets one."""
NANO = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTimes:
    """Scheduler times of one thread. Both never decrease."""

    ran_s: float
    waited_s: float
    """Seconds runnable without a core. Linux adds a wait when it ends."""
    runnable: bool


@dataclass(frozen=True, slots=True)
class CoreWaits:
    """Scheduler times of a process's threads at one moment, by thread id."""

    threads: Mapping[int, ThreadTimes] = field(default_factory=dict)

    @classmethod
    def of(cls, pid: int, root: Path = Path("/proc")) -> "CoreWaits":
        """Read the times. Empty if the process has exited or the kernel has no scheduler statistics."""
        try:
            tasks = tuple((root / str(pid) / "task").iterdir())
        except OSError:
            return cls()
        return cls({int(task.name): times for task in tasks if (times := _times(task)) is not None})

    @classmethod
    def of_main_thread(cls, pid: int, root: Path = Path("/proc")) -> "CoreWaits":
        """Read the times of the main thread only, which is cheap for a process with many threads."""
        times = _times(root / str(pid) / "task" / str(pid))
        return cls() if times is None else cls({pid: times})


def _times(task: Path) -> ThreadTimes | None:
    """Return the times of a thread; None if it has ended or the kernel keeps none."""
    try:
        ran_ns, waited_ns, _ = (task / "schedstat").read_text().split()
        state = (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError, IndexError):
        return None
    return ThreadTimes(ran_s=int(ran_ns) * NANO, waited_s=int(waited_ns) * NANO, runnable=state == "R")


class WaitRecord:
    """
    Time that each thread of a process has waited for a core since the process stopped answering.

    Linux adds a wait to a thread's statistics when it ends. A wait in progress is counted from the sample after which
    the thread has not run, so the process must be sampled repeatedly.

    Args:
        now_s: Time of the first sample, on any clock.
    """

    def __init__(self, first: CoreWaits, now_s: float) -> None:
        self._began_s = now_s
        self._first = self._last = first
        self._still_s = dict.fromkeys(first.threads, now_s)
        """When each thread was first seen as runnable with the time that it has run until the last look."""
        self._now_s = now_s

    def look(self, now: CoreWaits, now_s: float) -> None:
        """Record another sample."""
        for thread, times in now.threads.items():
            last = self._last.threads.get(thread)
            if last is None or not last.runnable or times.ran_s != last.ran_s:
                self._still_s[thread] = now_s
        self._last, self._now_s = now, now_s

    @property
    def is_starved(self) -> bool:
        """
        Whether any live thread has waited for a core most of the time.

        A single thread suffices: if it holds the GIL while it waits for a core, the others cannot answer.
        """
        enough_s = MAX_WAITING_SHARE * (self._now_s - self._began_s)
        return any(self._waited_s(thread) > enough_s for thread in self._last.threads)

    def _waited_s(self, thread: int) -> float:
        first, last = self._first.threads.get(thread), self._last.threads[thread]
        ended_s = last.waited_s - (first.waited_s if first else 0.0)
        return ended_s + (self._now_s - self._still_s[thread] if last.runnable else 0.0)
