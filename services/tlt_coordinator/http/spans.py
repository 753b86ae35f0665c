"""The time span of a query."""

from tlt_common.errors import InvalidRequestError
from tlt_coordinator.http.query import SpanQuery
from tlt_coordinator.observer import Observer

USUAL_S = 900.0
AHEAD_S = 60.0
"""Seconds by which a caller's clock may be ahead."""
LEAST_S = 1e-3


def span_of(query: SpanQuery, observer: Observer) -> tuple[float, float]:
    """
    Return the span, in Unix seconds.

    Raises:
        InvalidRequestError: Part of the span is no longer kept or has not passed yet.
    """
    now_s, since_s = observer.now(), observer.since_s
    to_s = now_s if query.to_s is None else query.to_s
    if not since_s < to_s <= now_s + AHEAD_S and not (query.to_s is None and to_s == since_s):
        raise InvalidRequestError(
            f"to is {to_s:.3f}; accepted: above {since_s:.3f}, since when there are data, and at most {now_s:.3f}, now",
            field="to",
        )
    from_s = max(since_s, to_s - USUAL_S) if query.from_s is None else query.from_s
    from_s = min(from_s, to_s - LEAST_S) if query.from_s is None else from_s
    if not since_s - LEAST_S <= from_s <= to_s - LEAST_S:
        raise InvalidRequestError(
            f"from is {from_s:.3f}; accepted: {since_s:.3f}, since when there are data, to {to_s:.3f}, exclusive",
            field="from",
        )
    return from_s, to_s
