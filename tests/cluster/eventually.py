"""Poll a cluster: what it promises, it keeps a little later."""

import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.2
T = TypeVar("T")


def eventually(check: Callable[[], T], seconds: float = 60.0) -> T:
    """The first true result of `check`; an assertion error with its last result when there is none in time."""
    end = time.monotonic() + seconds
    while not (result := check()):
        assert time.monotonic() < end, f"not so within {seconds:.0f} s: {check} gave {result!r}"
        time.sleep(POLL_S)
    return result
