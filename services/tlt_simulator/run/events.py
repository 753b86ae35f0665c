"""Event queue in the order of virtual time. Pure."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Events:
    """
    Attributes:
        now_s: Virtual time.
        processed: Number of processed events.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self.processed = 0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()

    def at(self, at_s: float, action: Callable[[], None]) -> None:
        """Schedule a callback at a time. Callbacks at the same time run in the order of scheduling."""
        heappush(self._heap, (max(at_s, self.now_s), next(self._number), action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Schedule a callback after a number of seconds."""
        self.at(self.now_s + seconds, action)

    def step(self) -> bool:
        """Process the next event; return whether there was one."""
        if not self._heap:
            return False
        self.now_s, _, action = heappop(self._heap)
        self.processed += 1
        action()
        return True
