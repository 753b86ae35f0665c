"""The fleet's pause as one gateway knows it: the agreed state and its expiry."""

import asyncio
import math
from collections.abc import Callable

from tlt_common.domain.ids import Epoch
from tlt_common.domain.pause import Pause
from tlt_common.weights.update_key import rising


class FleetPause:
    """
    Of two pauses, the one with the higher epoch holds, whichever gateway made it. Workers keep the latest pause and
    report it, so that a gateway that restarts or missed a call learns of it.

    Args:
        max_s: Seconds for which a pause holds unless it is renewed; None means until it is ended.
        changed: Called whenever the pause begins, ends or expires, with whether it expired.
    """

    def __init__(self, max_s: float | None, changed: Callable[[bool], None]) -> None:
        self._max_s = max_s
        self._changed = changed
        self._epoch = Epoch(0)
        self._until_s = 0.0
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def current(self) -> Pause:
        """The current state of the pause."""
        left_s = self._until_s - asyncio.get_running_loop().time() if self._until_s else 0.0
        return Pause(epoch=self._epoch, left_s=max(0.0, left_s))

    @property
    def holds(self) -> bool:
        """Whether generation is paused."""
        return bool(self._until_s)

    def begin(self) -> Pause:
        """Begin a pause, or renew it."""
        self._set(self._next_epoch(), self._max_s or math.inf)
        return self.current

    def end(self) -> Pause:
        """End the pause."""
        self._set(self._next_epoch(), 0.0)
        return self.current

    def hear(self, pause: Pause) -> None:
        """Adopt a pause, or the end of one, from another gateway if it is newer than the known one."""
        if pause.epoch > self._epoch:
            self._set(pause.epoch, pause.left_s)

    def _next_epoch(self) -> Epoch:
        # Rising across restarts, too: this gateway may not have heard of the latest one yet.
        return Epoch(max(self._epoch + 1, rising()))

    def _set(self, epoch: Epoch, left_s: float) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        loop = asyncio.get_running_loop()
        self._epoch = epoch
        self._until_s = loop.time() + left_s if left_s > 0 else 0.0
        if 0 < left_s < math.inf:
            self._expiry = loop.call_later(left_s, self._expire)
        self._changed(False)

    def _expire(self) -> None:
        self._expiry, self._until_s = None, 0.0
        self._changed(True)
