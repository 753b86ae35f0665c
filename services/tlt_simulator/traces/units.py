"""Detects durations in different units within a log, such as seconds and milliseconds. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from tlt_simulator.traces.values import refused

SLOWEST_S = 30.0
"""Seconds per token, as the median of a step: slower than a model of 70 billion parameters on one CPU."""
FASTEST_S = 2e-6
"""The same the other way: no engine generates 500,000 tokens per second for one request."""
GAP = 30.0
"""Responses of a step take at most so many times as long per token as the next slower ones, unless they waited for
their turn; between two units lie a thousand."""
OTHERS = 100.0
"""Those in the other unit also take so many times as long altogether, which those that waited do not."""
ACCEPTED = "all durations in seconds"


class UnitCheck:
    """Compares the durations of responses with each other."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None

    def check(self, times: Sequence[tuple[float, int, str]]) -> None:
        """
        Check a step.

        Args:
            times: Seconds, tokens and place of each response.

        Raises:
            ConfigError: Some durations cannot be in seconds.
        """
        if not times:
            return
        rates = sorted((seconds / tokens, seconds, place) for seconds, tokens, place in times)
        middle = rates[len(rates) // 2]
        self._require_one(rates)
        typical = (middle[0], median(seconds for _, seconds, _ in rates))
        if not FASTEST_S <= middle[0] <= SLOWEST_S:
            raise refused(middle[2], "the duration", f"is {middle[0]:g} s per token", ACCEPTED)
        before, self._before = self._before, typical
        if before is not None:
            ratios = [new / old if old else 1.0 for new, old in zip(typical, before, strict=True)]
            if min(ratios) > OTHERS or max(ratios) < 1.0 / OTHERS:
                raise refused(
                    middle[2],
                    "the duration",
                    f"is {middle[0]:g} s per token, as is that of other responses of its step, and {before[0]:g} s in "
                    "the step before it",
                    ACCEPTED,
                )

    @staticmethod
    def _require_one(rates: Sequence[tuple[float, float, str]]) -> None:
        """Check that responses do not fall into two widely separated classes."""
        for place, (low, high) in enumerate(pairwise(rates), start=1):
            if high[0] > GAP * max(low[0], FASTEST_S):
                short, long = (median(seconds for _, seconds, _ in part) for part in (rates[:place], rates[place:]))
                if long > OTHERS * short:
                    odd, other = (high, low) if 2 * place >= len(rates) else (low, high)
                    raise refused(
                        odd[2],
                        "the duration",
                        f"is {odd[0]:g} s per token, and that at {other[2]} is {other[0]:g} s",
                        ACCEPTED,
                    )
