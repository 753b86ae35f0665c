"""Number of displayed state changes per worker. Pure."""

from tlt_common.errors import InvalidRequestError
from tlt_coordinator.account.ledger import TIMELINE_CHANGES

MOST = 2**17
"""Changes of all workers together: 7 MB on the wire."""
CHANGES_AT_ONCE = 2**11
"""Changes that are collected before other calls run."""
WORKER_COST = 16
"""Changes that take as long as a worker without any."""


def changes_per_worker(asked: int, workers: int) -> int:
    """
    Return the changes to show per worker.

    Raises:
        InvalidRequestError: The requested number is negative, or too large for this many workers.
    """
    most = max(1, MOST // max(1, workers))
    if asked < 0 or min(asked, TIMELINE_CHANGES) > most:
        raise InvalidRequestError(
            f"max_changes is {asked:.20g}; accepted: 0 to {most}, with {workers} workers", field="max_changes"
        )
    return min(asked, TIMELINE_CHANGES)
