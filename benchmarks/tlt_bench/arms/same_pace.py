"""
The bandit compared to off on a machine whose speed changes within seconds: round by round, within one run.

Two runs of ten seconds are hardly comparable if rounds take twice as long for some seconds, and then half. Each round
is therefore compared to the nearest rounds without drafts in the same run.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tlt_common.bandit.round_trace import TracedRound, parsed
from tlt_common.domain.arm import OFF

NEAREST = 5
"""Rounds without drafts of which the median says what one would have taken."""


class TraceReader:
    """Reads new rounds of an engine's trace."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 1  # the header

    def new(self, batch: int) -> Sequence[TracedRound]:
        """Return the rounds with `batch` requests that were written since the last call."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        found = [parsed(f"{self._path}", line) for line in lines[self._read :]]
        self._read = max(self._read, len(lines))
        return [each for each in found if each.batch == batch]


def over_off(rounds: Sequence[TracedRound]) -> float | None:
    """
    Return the speed of these rounds relative to decoding the same tokens without drafts, at the machine's current pace.

    Returns None if fewer than NEAREST rounds ran without drafts.
    """
    plain = [(place, each.elapsed_s) for place, each in enumerate(rounds) if each.arm == OFF]
    if len(plain) < NEAREST:
        return None
    took_s = sum(each.elapsed_s for each in rounds)
    without_s = 0.0
    for place, each in enumerate(rounds):
        nearest = sorted(plain, key=lambda one: abs(one[0] - place))[:NEAREST]
        without_s += (1.0 + sum(each.accepted) / each.batch) * median(seconds for _, seconds in nearest)
    return without_s / took_s
