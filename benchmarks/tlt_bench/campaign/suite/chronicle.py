"""Log of disturbances with their times, so that each finding lists those during its request."""

import time
from collections import deque
from collections.abc import Callable

KEPT = 4096
SHOWN = 8


class Chronicle:
    """
    The latest disturbances and all findings.

    Args:
        say: Called with each line.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._began_s = time.monotonic()
        self._disturbances: deque[tuple[float, str]] = deque(maxlen=KEPT)
        self.findings: list[str] = []

    def note(self, text: str) -> None:
        """Record a disturbance."""
        now_s = time.monotonic()
        self._disturbances.append((now_s, text))
        self._say(f"{now_s - self._began_s:6.1f} s  {text}")

    def find(self, text: str, since_s: float | None = None) -> None:
        """Record a violation with the disturbances since a time; None omits them."""
        now_s = time.monotonic()
        during = (
            []
            if since_s is None
            else [f"{what} at {at_s - self._began_s:.1f} s" for at_s, what in self._since(since_s)]
        )
        sentence = f"{now_s - self._began_s:.1f} s: {text}" + (f" (during {'; '.join(during)})" if during else "")
        self.findings.append(sentence)
        self._say(f"FOUND {sentence}")

    def _since(self, moment_s: float) -> list[tuple[float, str]]:
        return [entry for entry in self._disturbances if entry[0] >= moment_s][-SHOWN:]
