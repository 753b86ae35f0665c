"""
Controls how many responses run ahead concurrently. Pure.

An arriving request waits for the round in progress. Rounds of few responses are short. On a GPU, rounds of many are,
too, but on a CPU their duration grows with the number of responses, and running few loses nothing.
"""

from tlt_common.domain.ids import RequestId

MAX_ROUND_S = 0.08
"""Seconds of a round up to which others join it: those of a trainer's micro-step, for which a request waits as well.
`tlt bench adapt --part announced` measures what a request waits."""


class AheadPace:
    """
    Limit on the responses that run ahead.

    Args:
        places: Maximum number of requests that the engine decodes at a time. One place stays free: in a full engine, a
            request would also wait until another one ends.
    """

    def __init__(self, places: int) -> None:
        self._max = max(1, places - 1)
        self._last_s: dict[RequestId, float | None] = {}
        """Time of each response's last tokens; None if it has none yet."""
        self._complete_s = 0.0
        """Since when all have."""
        self._allowed = 1

    @property
    def free_slots(self) -> int:
        """Number of responses that may start; negative if too many are running."""
        return self._allowed - len(self._last_s)

    def begin(self, name: RequestId) -> None:
        """Record that a response starts."""
        self._last_s[name] = None

    def note(self, name: RequestId, now_s: float) -> None:
        """Record one round's tokens of a response. A short round of all running responses raises the limit."""
        last_s, self._last_s[name] = self._last_s[name], now_s
        if last_s is None:
            self._complete_s = now_s
        elif last_s >= self._complete_s and None not in self._last_s.values():
            self._allowed = min(self._max, joined(len(self._last_s), now_s - last_s))

    def end(self, name: RequestId) -> None:
        """Record that a response has ended."""
        del self._last_s[name]


def joined(running: int, round_s: float) -> int:
    """Return the limit after a round of this many responses: at most twice as many."""
    if round_s * 2 <= MAX_ROUND_S:
        return 2 * running
    return max(1, int(running * MAX_ROUND_S / round_s))
