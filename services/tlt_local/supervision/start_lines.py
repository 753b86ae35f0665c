"""The lines that a command prints while it starts, each with the seconds since its beginning."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

SILENT_S = 9.0
"""Seconds without a line after which the last one is repeated."""


class StartLines:
    """
    Prints lines; within its block, the last one again whenever there was none for `silent_s`.

    A thread repeats it, since importing the suite blocks the event loop for as long as the machine takes.

    Args:
        print_: Prints a line.
        silent_s: Longest silence.
    """

    def __init__(self, print_: Callable[[str], object], *, silent_s: float = SILENT_S) -> None:
        self._print, self._silent_s = print_, silent_s
        self._began_s = time.monotonic()
        self._line = ""
        self._spoken, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="start-lines", daemon=True)

    def say(self, line: str) -> None:
        """Print a line."""
        self._line = line
        self._spoken.set()
        self._print(f"{time.monotonic() - self._began_s:4.0f} s  {line}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Repeat no more. Idempotent."""
        self._ended.set()
        self._spoken.set()
        self._thread.join()

    def _repeat(self) -> None:
        while not self._ended.is_set():
            if not self._spoken.wait(self._silent_s) and self._line:
                self.say(f"still {self._line.removeprefix('still ')}")
            self._spoken.clear()
