"""Which workers are lost because they are silent."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import aclosing
from typing import Never, TypeVar

from tlt_common.schedule_clock import ScheduleClock
from tlt_gateway.workers.pooled_worker import PooledWorker

Worker = TypeVar("Worker", bound=Hashable)


def lost_by_silence(silent_s: Mapping[Worker, float], limit_s: float | None) -> list[Worker]:
    """
    Return the workers that hang, so that their requests have to move.

    Never all of them: a fleet that is silent altogether over open connections says something about the network or this
    process, and there is nowhere to move to. Its connections close by gRPC's keepalive if it is gone.

    Args:
        silent_s: Seconds of silence of each worker in use, counted only while this process ran on schedule.
        limit_s: Silence up to this is accepted; None accepts any.
    """
    if limit_s is None:
        return []
    silent = [worker for worker, seconds in silent_s.items() if seconds >= limit_s]
    return silent if len(silent) < len(silent_s) else []


async def judge_silence(
    workers: Callable[[], Iterable[PooledWorker]],
    lose: Callable[[PooledWorker, str], None],
    limit_s: float | None,
) -> Never:
    """Pass each worker that hangs to `lose`, with the reason, until cancelled."""
    async with aclosing(ScheduleClock().ticks()) as ticks:
        async for now_s in ticks:
            silent_s = {worker: worker.silent_for_s(now_s) for worker in workers() if worker.answers}
            for worker in lost_by_silence(silent_s, limit_s):
                lose(worker, f"silent for {silent_s[worker]:g} s while other workers were heard")
    raise AssertionError("a clock does not end")
