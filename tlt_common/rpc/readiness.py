"""Whether this process takes calls, for probes that ask in threads of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

STARTING = "starting"
DRAINING = "draining"
STOPPED = "stopped"

_current: ContextVar["Readiness | None"] = ContextVar("readiness", default=None)


class Readiness:
    """
    What /readyz says. A plain attribute, so that any thread may read it.

    Attributes:
        waits_for: Why no calls are taken; empty while they are.
    """

    def __init__(self) -> None:
        self.waits_for = STARTING


@contextmanager
def watched() -> Iterator[Readiness]:
    """Let what is told by `note_ready` and `note_unready` within be read from the value."""
    readiness = Readiness()
    token = _current.set(readiness)
    try:
        yield readiness
    finally:
        _current.reset(token)


def note_ready() -> None:
    """Calls are taken from now on."""
    if readiness := _current.get():
        readiness.waits_for = ""


def note_unready(why: str) -> None:
    """No calls are taken from now on, for this reason."""
    if readiness := _current.get():
        readiness.waits_for = why
