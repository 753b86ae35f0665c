"""Readiness and liveness of this process. Probes read them from their own threads."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from tlt_common.rpc.probes.liveness import Liveness
from tlt_common.rpc.probes.loop_stall import stalls_measured

STARTING = "starting"
DRAINING = "draining"
STOPPED = "stopped"

_current: ContextVar["Readiness | None"] = ContextVar("readiness", default=None)


class Readiness:
    """
    The state reported by /readyz. A plain attribute, so that any thread may read it.

    Attributes:
        waits_for: Why the process does not accept calls; empty while it does.
        liveness: The state reported by /livez.
    """

    def __init__(self, liveness_s: float | None = None) -> None:
        self.waits_for = STARTING
        self.liveness = Liveness(liveness_s)


@contextmanager
def watched(liveness_s: float | None = None) -> Iterator[Readiness]:
    """Yield the readiness that `note_ready`, `note_unready` and `beating` set within the block."""
    readiness = Readiness(liveness_s)
    token = _current.set(readiness)
    try:
        yield readiness
    finally:
        _current.reset(token)


@asynccontextmanager
async def beating() -> AsyncIterator[None]:
    """Show within the block that the event loop runs, and measure how long it is blocked."""
    readiness = _current.get()
    if readiness is None:
        yield
        return
    async with readiness.liveness.judged(), stalls_measured():
        yield


def note_ready() -> None:
    """Note that the process accepts calls."""
    if readiness := _current.get():
        readiness.waits_for = ""


def note_unready(why: str) -> None:
    """Note that the process accepts no calls, and why."""
    if readiness := _current.get():
        readiness.waits_for = why
