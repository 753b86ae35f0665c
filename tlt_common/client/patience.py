"""Retry budget of a client whose response broke off."""

import asyncio

from tlt_common.aio import backoff
from tlt_common.errors import OverloadedError, TltError
from tlt_common.rpc.errors import is_transient
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)


class Patience:
    """
    Time left for one response or batch.

    Args:
        patience_s: Seconds to try again without receiving anything; None means no limit.
        timeout_s: Overall deadline in seconds from now; None means no deadline.
    """

    def __init__(self, patience_s: float | None, *, timeout_s: float | None) -> None:
        self._clock = asyncio.get_running_loop().time
        self._patience_s = patience_s
        self._deadline_s = None if timeout_s is None else self._clock() + timeout_s
        self._broken_at_s: float | None = None
        self._delays = backoff()
        self._reason: TltError | None = None
        """Why the previous attempt failed."""

    @property
    def left_s(self) -> float | None:
        """Seconds until the deadline; None if there is none."""
        return None if self._deadline_s is None else max(0.0, self._deadline_s - self._clock())

    def progressed(self) -> None:
        """Record progress, which renews the patience."""
        if self._broken_at_s is not None:
            self._broken_at_s = None
            self._delays = backoff()
            self._reason = None

    async def after(self, error: TltError, request_id: str) -> None:
        """
        Wait before a failed call is retried: as long as the gateway requested, if it did.

        Raises:
            TltError: `error` itself, if a retry does not help or the time is over. If the deadline ended this attempt,
                the error of the previous one, which states the cause.
        """
        if self.left_s == 0 and self._reason is not None:
            raise self._reason from error
        if not is_transient(error):
            raise error
        self._reason = error
        now_s = self._clock()
        if self._broken_at_s is None:
            self._broken_at_s = now_s
        delay_s = error.retry_after_s if isinstance(error, OverloadedError) else next(self._delays)
        ends_s = [now_s + self.left_s] if self.left_s is not None else []
        if self._patience_s is not None:
            ends_s.append(self._broken_at_s + self._patience_s)
        if any(now_s + delay_s > end_s for end_s in ends_s):
            raise error
        log.warning("response_broke", request_id=request_id, error=error.message, retry_after_s=round(delay_s, 3))
        await asyncio.sleep(delay_s)
