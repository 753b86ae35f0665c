"""How long a client tries to continue a response that broke."""

import asyncio

from tlt_common.aio import backoff
from tlt_common.errors import OverloadedError, TltError
from tlt_common.rpc.errors import is_transient
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)


class Patience:
    """
    The time that one response, or batch, may still take.

    Args:
        patience_s: Seconds to try again without receiving anything; None means no limit.
        timeout_s: Deadline, in seconds from now, of the whole; None means none.
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
        """Note that something was received."""
        if self._broken_at_s is not None:
            self._broken_at_s = None
            self._delays = backoff()
            self._reason = None

    async def after(self, error: TltError, request_id: str) -> None:
        """
        Wait until a call that failed may be tried again: as long as the gateway asked for, if it did.

        Raises:
            TltError: `error` itself: trying again does not help, or the time is over. If the deadline ended this
                attempt, the error of the one before: it says what was waited for.
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
