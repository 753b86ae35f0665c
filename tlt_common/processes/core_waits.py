"""How long the threads of a process have waited for a core: a process that got none is starved, and does not hang."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MAX_WAITING_SHARE = 0.5
"""A process one of whose threads waited longer for a core was starved, and may answer once it gets one."""
NANO = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadTimes:
    """One thread. Both times only increase."""

    ran_s: float
    waited_s: float
    """Runnable, without a core. Linux adds a wait when it ends."""
    runnable: bool


@dataclass(frozen=True, slots=True)
class CoreWaits:
    """The times of a process's threads at one moment, by thread id."""

    threads: Mapping[int, ThreadTimes] = field(default_factory=dict)

    @classmethod
    def of(cls, pid: int, root: Path = Path("/proc")) -> "CoreWaits":
        """Read them; those of a process that has exited, or of a kernel without scheduler statistics, are empty."""
        found: dict[int, ThreadTimes] = {}
        try:
            tasks = tuple((root / str(pid) / "task").iterdir())
        except OSError:
            return cls()
        for task in tasks:
            try:
                ran_ns, waited_ns, _ = (task / "schedstat").read_text().split()
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            except (OSError, ValueError, IndexError):  # the thread has ended
                continue
            found[int(task.name)] = ThreadTimes(
                ran_s=int(ran_ns) * NANO, waited_s=int(waited_ns) * NANO, runnable=state == "R"
            )
        return cls(found)

    def is_starved_since(self, before: "CoreWaits", elapsed_s: float) -> bool:
        """
        Return whether a thread waited for a core most of the time since `before`.

        One that is runnable and has not run at all is waiting still. Any thread counts: one that waits for a core while
        it holds the interpreter's lock keeps the others from answering.
        """
        return any(_is_starved(now, before.threads.get(thread), elapsed_s) for thread, now in self.threads.items())


def _is_starved(now: ThreadTimes, before: ThreadTimes | None, elapsed_s: float) -> bool:
    if before is None:
        return now.waited_s > MAX_WAITING_SHARE * elapsed_s
    waits_still = now.runnable and before.runnable and now.ran_s == before.ran_s
    return waits_still or now.waited_s - before.waited_s > MAX_WAITING_SHARE * elapsed_s
