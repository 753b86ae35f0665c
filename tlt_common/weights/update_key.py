"""Idempotency keys of weight updates, and other numbers that increase across processes."""

import secrets
import threading
import time


class _Nanoseconds:
    """Unix time that never decreases within a process, even if the clock is set back."""

    def __init__(self) -> None:
        self._newest = 0
        self._turn = threading.Lock()

    def next(self) -> int:
        """Return a number greater than those returned earlier."""
        with self._turn:
            self._newest = max(self._newest + 1, time.time_ns())
            return self._newest


_nanoseconds = _Nanoseconds()


def rising() -> int:
    """
    Return a number greater than all that this process returned earlier and, as far as clocks agree, than those of other
    processes.
    """
    return _nanoseconds.next()


def generated_key() -> str:
    """
    Return a new key. It is greater than all that this process generated earlier, so that the later of two updates of a
    version wins and, as far as clocks agree, than those of other processes.
    """
    return f"{_nanoseconds.next():020d}-{secrets.token_hex(4)}"
