"""Whether moves have delayed steps, judged afterwards by what responses had left indeed."""

from collections import deque
from collections.abc import Mapping
from statistics import fmean

from tlt_common.forecast import TailRequest, TailView
from tlt_gateway.consolidation.ends import ends_s

TAILS = 8
"""Tails that are judged together."""
LEAST_TAILS = 3
TOLERANCE = 0.05
"""Share by which tails may be longer than calculated before that counts as a loss: cost curves are no more accurate."""


def without_moves_s(view: TailView, left_tokens: Mapping[str, float]) -> float:
    """
    Return the seconds from a view to the last end of some of its requests, had nothing moved.

    Args:
        view: As it was when the first request moved.
        left_tokens: What those requests had left, by name. Of others, the median counts.
    """
    paces = {worker.worker_id: worker.pace for worker in view.workers}
    last_s = 0.0
    for worker_id, pace in paces.items():
        there = [one for one in view.requests if one.worker_id == worker_id]
        ends = ends_s(
            [left_tokens.get(one.name, one.left.median) for one in there], [one.kv_tokens for one in there], pace
        )
        last_s = max([last_s, *(end for one, end in zip(there, ends, strict=True) if one.name in left_tokens)])
    return last_s


class TailVerdict:
    """The tails in which requests moved."""

    def __init__(self, slack: float) -> None:
        self._limit = 1.0 + slack + TOLERANCE
        self._ratios: deque[float] = deque(maxlen=TAILS)
        self.is_off = False
        """Whether moves have turned out to be a loss. Stays so."""

    def judge(self, actual_s: float, without_s: float) -> float:
        """Note a tail; return how long it took ÷ how long it would have taken without moves."""
        ratio = actual_s / without_s if without_s > 0.0 else 1.0
        self._ratios.append(ratio)
        if len(self._ratios) >= LEAST_TAILS and fmean(self._ratios) > self._limit:
            self.is_off = True
        return ratio


def own(view: TailView, gateway_id: str) -> tuple[TailRequest, ...]:
    """Return the requests of one gateway."""
    return tuple(one for one in view.requests if one.gateway_id == gateway_id)
