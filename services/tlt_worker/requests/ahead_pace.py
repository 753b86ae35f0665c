"""
How many responses run ahead at a time. Pure.

A request that comes waits for the round in progress. A round of few responses is short; on a GPU one of many is, too,
while on a CPU it takes as much longer as there are more, and nothing is lost by running few.
"""

from tlt_common.domain.ids import RequestId

MAX_ROUND_S = 0.08
"""Seconds of a round up to which others join it: those of a trainer's micro-step, for which a request waits as well.
`tlt bench adapt --part announced` measures what a request waits."""


class AheadPace:
    """
    The responses that run ahead.

    Args:
        places: How many requests the engine decodes at a time. One place stays free: in a full engine, a request would
            also wait for the round with which others end.
    """

    def __init__(self, places: int) -> None:
        self._max = max(1, places - 1)
        self._last_s: dict[RequestId, float | None] = {}
        """When each had its last tokens; None: it has none yet."""
        self._complete_s = 0.0
        """Since when all have."""
        self._allowed = 1

    @property
    def room(self) -> int:
        """How many may begin; negative: so many are too many."""
        return self._allowed - len(self._last_s)

    def begin(self, name: RequestId) -> None:
        """Take note of a response that begins."""
        self._last_s[name] = None

    def note(self, name: RequestId, now_s: float) -> None:
        """Take note of tokens of a response, one round's. More are allowed after a short round of all that run."""
        last_s, self._last_s[name] = self._last_s[name], now_s
        if last_s is None:
            self._complete_s = now_s
        elif last_s >= self._complete_s and None not in self._last_s.values():
            self._allowed = min(self._max, joined(len(self._last_s), now_s - last_s))

    def end(self, name: RequestId) -> None:
        """Take note of the end of a response."""
        del self._last_s[name]


def joined(running: int, round_s: float) -> int:
    """Return how many responses to run after a round of so many: at most twice as many."""
    if round_s * 2 <= MAX_ROUND_S:
        return 2 * running
    return max(1, int(running * MAX_ROUND_S / round_s))
