"""Idempotency keys of weight updates, and other numbers that rise across processes."""

import secrets
import threading
import time


class _Nanoseconds:
    """Unix time that only rises within a process, also when somebody sets the clock back."""

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
    Return a number greater than those that this process returned earlier; and than those of other processes, as far as
    their clocks agree.
    """
    return _nanoseconds.next()


def generated_key() -> str:
    """
    Return a new key. Greater than those that this process generated earlier, so that the later of two updates of a
    version wins; and than those of other processes, as far as their clocks agree.
    """
    return f"{_nanoseconds.next():020d}-{secrets.token_hex(4)}"
